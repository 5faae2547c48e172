"""LPGNN: every user perturbs its own features and label before it sends them."""
