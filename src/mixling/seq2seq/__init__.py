"""Text-to-text models; the core does not import this package."""
