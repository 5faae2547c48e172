"""What a release shows of noisy values: all of them, a part that is a linear function, or nothing that is known.

Used elsewhere: affine.Affine, affine.ENTRIES, affine.affine, extremes.shown_at_an_end, parts.shown_part, parts.shown_together,
reported.shown, several_values.folded, view.View.
"""
