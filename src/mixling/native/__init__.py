"""libmixling: the whole way from a text to its logits in C, for models whose parts it knows (mixling.h).

The extension module `_core` is built where there is a compiler; without it ONNX Runtime computes.
"""
