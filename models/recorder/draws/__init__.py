"""What every part of the recorder uses: a draw, the recording that is active, and digests of what functions return."""
