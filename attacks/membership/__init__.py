"""Node-membership attacks from posteriors, with and without shadow models; LiRA also attacks edges."""
