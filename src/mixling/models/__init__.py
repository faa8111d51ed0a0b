"""Front ends, blocks, encoders, heads; `ModelConfig` -> `build_model`."""
