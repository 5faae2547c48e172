"""What every part of the recorder uses: a draw, the recording that is active, and the results of a program's lines."""
