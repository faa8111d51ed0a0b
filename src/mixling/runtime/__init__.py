"""Prediction with numpy, tokenizers and onnxruntime; never torch."""
