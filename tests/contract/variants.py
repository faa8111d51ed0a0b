"""Configurations that the mixers' contract is checked with, beside each mixer's default: {type: {name: values}}."""

from __future__ import annotations

from typing import Any

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "attention": {},
    "fourier": {},
    "hypermixing": {},
    "identity": {},
    "linear_attention": {},
    "pooling": {},
    "recurrent": {},
    "remixing": {},
    "spatial_gating": {},
    "synthesizer": {},
    "token_mlp": {"narrow": {"hidden_dim": 3}},
}
