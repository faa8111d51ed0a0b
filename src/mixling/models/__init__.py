"""Embeddings, blocks, encoders, heads; `build_model` builds a model from a `ModelConfig`."""
