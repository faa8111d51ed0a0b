"""The research side: text to text, images, costs, plots of what a model does, and `transformers`; needs PyTorch."""
