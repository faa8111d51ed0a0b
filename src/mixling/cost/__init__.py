"""The cost of a model: parameters, floating-point operations, time and memory by length of the input."""
