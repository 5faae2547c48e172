"""LPGNN: every user perturbs features and label before they leave the device."""
