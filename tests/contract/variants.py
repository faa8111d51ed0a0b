"""Configurations that the mixers' contract is checked with, beside each mixer's default: {type: {name: values}}."""

from __future__ import annotations

from typing import Any

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "attention": {
        "plain": {"num_heads": 1, "bias": False},
        "wide": {"num_heads": 3, "head_dim": 5, "dropout": 0.1},
        "t5": {"bias": False, "scale": False, "positions": {"num_buckets": 8, "max_distance": 6, "shared": True}},
        "every-distance": {"positions": {"num_buckets": None}},
    },
    "fourier": {},
    "gated_linear_attention": {
        "one-head": {"num_heads": 1, "gate_rank": 3},
        "fast": {"num_heads": 2, "temperature": 0.2},
    },
    "hypermixing": {
        "untied": {"tied": False},
        "learned": {"positions": "learned", "hidden_dim": 6},
        "plain": {"positions": "none", "bias": False, "norm": False},
        "heads": {"num_heads": 2, "hidden_dim": 6, "tied": False},
        "tied-heads": {"num_heads": 4},
        "one-unit": {"hidden_dim": 1, "num_heads": 1},
    },
    "identity": {},
    "linear_attention": {"plain": {"num_heads": 1, "bias": False}, "eps": {"num_heads": 2, "eps": 0.1}},
    "pooling": {"max": {"pooling": "max"}},
    "recurrent": {
        "deep": {"num_layers": 2, "hidden_dim": 3},
        "forward": {"bidirectional": False},
        "deep-forward": {"bidirectional": False, "num_layers": 2, "hidden_dim": 3},
        "qrnn": {"cell": "qrnn"},
        "qrnn-deep": {"cell": "qrnn", "num_layers": 2, "hidden_dim": 4, "window": 3},
        "qrnn-forward": {"cell": "qrnn", "bidirectional": False, "window": 1},
        "qrnn-deep-forward": {"cell": "qrnn", "bidirectional": False, "num_layers": 2, "hidden_dim": 5},
    },
    "remixing": {
        "matched-vector": {"inner_dim": 11, "alpha": "vector", "choose": True},
        "gated": {"alpha": "gated", "dropout": 0.1},
        "difference": {"alpha": 0.0},
        "not-compositional": {"inner_dim": 5, "compositional": False},
    },
    "spatial_gating": {
        "narrow": {"ffn_dim": 6},
        "dense": {"ffn_dim": 6, "weights": "dense"},
        "multiplicative": {"ffn_dim": 5, "variant": "multiplicative"},
        "additive": {"ffn_dim": 5, "variant": "additive", "weights": "dense"},
        "linear": {"ffn_dim": 5, "variant": "linear"},
        "attention": {"ffn_dim": 6, "tiny_attention_dim": 3},
        "dense-attention": {"ffn_dim": 6, "weights": "dense", "tiny_attention_dim": 3},
        "linear-attention": {"ffn_dim": 5, "variant": "linear", "tiny_attention_dim": 2},
    },
    "synthesizer": {
        "one-head": {"num_heads": 1, "dropout": 0.1},
        "buckets": {"num_heads": 2, "positions": {"num_buckets": 8, "max_distance": 6}},
    },
    "token_linear": {},
    "token_mlp": {"narrow": {"hidden_dim": 3}},
}
