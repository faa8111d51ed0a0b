"""The one training loop, its optimizer, its checkpoints, its processes."""
