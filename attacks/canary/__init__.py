"""Scores of canaries whose distribution is known: likelihood ratios and a linear discriminant.

Used elsewhere: fisher.log_likelihood_ratio, gaussian_ratio.LikelihoodRatio, gaussian_ratio.noise_std,
direction_ratio.DirectionRatio.
"""
