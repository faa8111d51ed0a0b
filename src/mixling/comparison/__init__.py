"""Comparisons with the baselines a skeptic would ask for, tuned with equal care and measured in one run."""
