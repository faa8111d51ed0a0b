"""Our models beside the baselines that a sceptic would ask for: trained with equal care, measured in one run."""
