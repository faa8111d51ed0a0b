"""Mixers and tokens of other models than the pNLP-Mixers: the native engine's logits are those of the other one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mixling import PRESETS, ModelConfig, build_model
from mixling.config import merge, parse
from mixling.export.native_modules import layer_plan
from mixling.mixers import Identity, TokenMLP
from mixling.runtime import load_native

from .test_logits import check
from .test_words import native_of, predictors

SUBWORDS = {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}, "max_len": 40}
HYPER = {"type": "hypermixing", "hidden_dim": 24}
GATING = {"type": "spatial_gating", "ffn_dim": 72}


def layers(*mixers: dict[str, Any], norm: str = "pre") -> dict[str, Any]:
    return {"layers": [{"mixers": list(mixers), "norm": norm, "feed_forward": {"ffn_dim": 40}}], "dim": 48}


MODELS: dict[str, dict[str, Any]] = {
    "no parameters": layers(
        {"type": "pooling"},
        {"type": "pooling", "pooling": "max"},
        {"type": "identity"},
        {"type": "fourier"},
        norm="post",
    ),
    "gating": layers(
        GATING,
        {**GATING, "variant": "multiplicative", "weights": "dense"},
        {**GATING, "variant": "additive", "tiny_attention_dim": 5},
        {**GATING, "variant": "linear", "tiny_attention_dim": 32},
    )
    | {"text": SUBWORDS},
    "hypermixing": layers(
        {**HYPER, "positions": "learned", "num_heads": 2},
        {**HYPER, "tied": False, "norm": False, "bias": False, "positions": "sinusoidal"},
        {**HYPER, "tied": False, "num_heads": 6, "positions": "none"},
    )
    | {"embedding": {"positions": "sinusoidal"}, "text": SUBWORDS, "final_norm": True},
    "attention": layers(
        {"type": "attention", "num_heads": 4},
        {"type": "attention", "num_heads": 2, "head_dim": 9, "bias": False, "scale": False, "positions": {}},
        {"type": "attention", "num_heads": 3, "positions": {"num_buckets": 8, "max_distance": 60, "init": "alibi"}},
        norm="post",
    )
    | {"embedding": {"positions": "learned", "norm": True}},
    "attention without queries": layers(
        {"type": "synthesizer", "num_heads": 3, "positions": {"init": "alibi"}},
        {"type": "synthesizer", "num_heads": 4, "positions": {"num_buckets": 8, "max_distance": 60, "init": "alibi"}},
        {"type": "linear_attention", "num_heads": 3},
        {"type": "linear_attention", "num_heads": 4, "bias": False, "eps": 0.5},
    ),
    "lstm": layers(
        {"type": "recurrent", "hidden_dim": 20, "num_layers": 2},
        {"type": "recurrent", "bidirectional": False},
        {"type": "recurrent", "hidden_dim": 24},
        norm="post",
    ),
    "qrnn": layers(
        {"type": "recurrent", "cell": "qrnn", "hidden_dim": 20, "num_layers": 3, "window": 4},
        {"type": "recurrent", "cell": "qrnn", "bidirectional": False, "window": 1},
    )
    | {"text": {"projection": {"type": "tsp", "num_features": 90}}},
}

# Presets, and the width that they have here.
LARGER = {"gmlp-tiny": 64, "hypermixer": 64, "pqrnn": 40, "pnlp-lstm": 64, "linear-transformer": 64}


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", [*MODELS, *LARGER])
def test_mixers(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, kind: str, precision: str
) -> None:
    if kind in MODELS and "text" not in MODELS[kind] and precision == "int8":
        pytest.skip("its weights are those of the other kinds")
    preset, changes = ("mixling-tiny", MODELS[kind]) if kind in MODELS else (kind, {"dim": LARGER[kind]})
    chosen = [*texts[:60], *(text * 3 for text in texts[60:80])]
    atol = 5e-5 if kind == "no parameters" else 1e-5  # the graph has the angles of Fourier in single precision
    check(export(preset, precision=precision, **changes), chosen, monkeypatch, atol)


@pytest.mark.parametrize("max_len", [3, 12])
def test_pairs_of_subwords(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, max_len: int) -> None:
    changes = MODELS["gating"] | {"text": {**SUBWORDS, "max_len": max_len}}
    words = "un be lievable ça alors what a film ΟΔΟΣ 你好 xyz".split()  # noqa: SIM905
    pairs = [(" ".join(words[: i % 9]), "unbelievable " * (i % 7) + words[i % 9]) for i in range(40)]
    check(export("mixling-tiny", pairs=True, **changes), [*pairs, ("", ""), ("what", "")], monkeypatch)


def test_a_tagger_of_subwords(export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tag of a word is that of its first subword."""
    predictor, other = predictors(export("mixling-tiny", task="tagging", **MODELS["gating"]), monkeypatch)
    for one, two in zip(predictor.predict_stream(texts[:150]), other.predict_stream(texts[:150]), strict=True):
        assert (one.tokens, one.tags, one.truncated) == (two.tokens, two.tags, two.truncated)
    assert native_of(predictor).logits(["unbelievable " * 6])[1][0].truncated


class _Nameless:
    """Names no tensor."""

    def tensor(self, *wanted: Any, **how: Any) -> list[Any]:
        return []

    linear = norm = tensor


def _is_known(mixer: object) -> bool:
    return isinstance(mixer, TokenMLP | Identity) or layer_plan(_Nameless(), mixer) is not None  # type: ignore[arg-type]


def runs(name: str) -> bool:
    """Whether a preset has only layers and tokens that the native engine knows."""
    layers = PRESETS[name].config.layers
    small = {"dim": 48, "num_layers": len(layers), "text": {"max_len": 16}}
    config = parse(ModelConfig, merge(PRESETS[name].config.to_dict(), small), where=name)
    model = build_model(config, num_outputs=2, seed=0)
    known = config.text.projection.type in {"words": ("minhash", "tsp"), "subwords": ("subwords",)}[config.text.tokens]
    return known and all(_is_known(mixer) for block in model.encoder.layers for mixer in block.mixers)  # type: ignore[union-attr]


def test_every_preset_is_computed() -> None:
    assert [name for name in PRESETS if not runs(name)] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"heads": 2', b'"heads": 5'),
        (b'"hidden": 12', b'"hidden": 13'),
        (b'"first"', b'"fist_"'),
        (b'"positions": "sinusoidal"', b'"positions": "sinusoidul"'),
        (b'"mixes": "hyper"', b'"mixes": "hyped"'),
        (b'"cell": "lstm"', b'"cell": "gru_"'),
        (b'"hidden": 20', b'"hidden": 21'),
        (b'"layers": [[{', b'"leyers": [[{'),
        (b'"project": null', b'"project": true'),
        (b'"query": [', b'"query": null, "q": ['),
        (b'"eps": ', b'"esp": '),
    ],
)
def test_plans_that_do_not_fit_are_refused(export: Callable[..., bytes], old: bytes, new: bytes) -> None:
    from mixling.runtime.onnx import seal

    kinds = ("hypermixing", "lstm", "attention without queries")
    body = next(body for kind in kinds if old in (body := export("mixling-tiny", **MODELS[kind])[:-84]))
    assert old in body
    engine, reason = load_native(seal(body.replace(old, new)))
    assert engine is None
    assert reason
