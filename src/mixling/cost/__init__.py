"""What a model costs: parameters, floating-point operations, time and memory against the length of its input."""
