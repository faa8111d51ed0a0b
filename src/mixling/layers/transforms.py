"""When a layer is computed by PyTorch's own operations: under its transforms, and where a caller asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

_PLAIN = ContextVar("plain_operations", default=False)


@contextmanager
def plain_operations() -> Iterator[None]:
    """Compute layers by PyTorch's operations inside the block, for second derivatives of a model in training.

    On a CPU a training step's layers are kernels in C, which have first derivatives only. `torch.func` and forward-mode
    differentiation need no block: under them layers are PyTorch's operations anyway.
    """
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def is_transformed() -> bool:
    """Return whether the code runs under `torch.func` (vmap, grad, jvp, ...), whose tensors hold no single value."""
    return peek_interpreter_stack() is not None


def needs_plain_operations() -> bool:
    """Return whether kernels in C cannot be used, whatever the tensors are."""
    in_forward_mode = forward_ad._current_level >= 0
    return _PLAIN.get() or in_forward_mode or torch.compiler.is_compiling() or is_transformed()
