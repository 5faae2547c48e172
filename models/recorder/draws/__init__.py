"""What every part of the recorder uses: a draw, the recording that is active, and the results of a program's lines.

Used elsewhere: draw.Draw, draw.guarded, draw.Departed, draw.SHIFTED, draw.Active, draw.calling_line, results.digest,
draw.without.
"""
