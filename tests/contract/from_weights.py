"""How the output of a mixer is made of its matrices between tokens, stated once more and by itself: {type: function}.

A function is given the mixer, the tokens, the values' tokens (those of the context, or the same) and the matrices.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from mixling.mixers import Mixer

# Rows of all others sum to one. Those of linear attention are short of it by eps.
NOT_NORMALIZED = {"spatial weights", "token weights", "linear attention"}


def by_heads(mixer: Mixer, x: Tensor, source: Tensor, found: dict[str, Tensor]) -> Tensor:
    """Each head's matrix on its share of the values' channels; then all of them through the output layer."""
    (matrices,) = found.values()  # (B or none, H, N, M)
    values = mixer.value(source)
    heads = values.shape[-1] // matrices.shape[-3]
    mixed = [matrices[..., head, :, :] @ part for head, part in enumerate(values.split(heads, -1))]
    return mixer.out(torch.cat(mixed, -1))


def remixing(mixer: Mixer, x: Tensor, source: Tensor, found: dict[str, Tensor]) -> Tensor:
    inner = F.gelu(mixer.gate(source)) * mixer.value(source)
    mixed = found["softmax(H)"][0] @ inner
    composed = mixed
    if mixer.alpha is not None:
        a = mixer.alpha(x) if callable(mixer.alpha) else mixer.alpha
        a = a.sigmoid() if isinstance(a, Tensor) else a
        composed = a * mixed * inner + (1 - a) * (inner - mixed)
    if mixer.choice is not None:
        g = mixer.choice(x).sigmoid()
        composed = g * composed + (1 - g) * mixed
    return mixer.out(composed) + (inner if mixer.residual else 0)


def spatial_gating(mixer: Mixer, x: Tensor, source: Tensor, found: dict[str, Tensor]) -> Tensor:
    z = F.gelu(mixer.expand(x))
    first, second = z.chunk(2, -1) if mixer.variant == "split" else (z, z)
    gate = found["spatial weights"][0] @ mixer.norm(second) + mixer.bias[: x.shape[1], None]
    if mixer.attention is not None:
        values = mixer.attention.qkv(source).chunk(3, -1)[2]
        gate = gate + mixer.attention.out(found["tiny attention"][:, 0] @ values)
    made = {"additive": first + gate, "linear": gate}.get(mixer.variant, first * gate)
    return mixer.contract(made)


def token_linear(mixer: Mixer, x: Tensor, source: Tensor, found: dict[str, Tensor]) -> Tensor:
    return found["token weights"][0] @ source + mixer.linear.bias[: x.shape[1], None]


FROM_WEIGHTS: dict[str, Callable[[Mixer, Tensor, Tensor, dict[str, Tensor]], Tensor]] = {
    "attention": by_heads,
    "linear_attention": by_heads,
    "remixing": remixing,
    "spatial_gating": spatial_gating,
    "synthesizer": by_heads,
    "token_linear": token_linear,
}
