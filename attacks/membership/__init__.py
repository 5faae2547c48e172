"""Node-membership attacks from posteriors, with and without shadow models; LiRA also attacks edges.

Used elsewhere: threshold.Confidence, cross_fit.scores_within, g_base.GraphBase.
"""
