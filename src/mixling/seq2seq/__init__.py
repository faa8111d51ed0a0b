"""Models from text to text: a wing over the core, which imports nothing of it."""
