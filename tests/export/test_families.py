"""Every preset family, small: the exported file answers what the torch model answers, for texts and for tags."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixling import PRESETS, Dataset, Example, Predictor, TextEncoder, Vocabulary, build_model, model_config
from mixling.answers import LabelSet
from mixling.data import TextSet
from mixling.export import export_onnx
from mixling.models import TorchNetwork
from mixling.networks import Output
from mixling.text import Text
from mixling.training import predict_logits

from .followed import assert_followed

TEXTS: list[Text] = ["play some music by the beatles", "what is the weather in paris today?", "book", "", "naïve größe"]
PAIRS: list[Text] = [("play music", "what is played"), ("a table", ""), ("the weather in paris tomorrow " * 3, "x")]
SUBWORDS = (
    "[UNK]",
    "[SEP]",
    "play",
    "##s",
    "music",
    "the",
    "weather",
    "in",
    "par",
    "##is",
    "w",
    "##hat",
    "na",
    "##ïve",
)
VOCABULARY = Vocabulary.parse("vocab.txt", "".join(f"{subword}\n" for subword in SUBWORDS))
TASKS = {"text": "classification", "tokens": "tagging"}
LABELS = {"text": LabelSet(("a", "b", "c"), "single"), "tokens": LabelSet(("O", "B-x", "I-x"), "iob")}

# Presets that differ in size only have one of them here.
FAMILIES = {
    "pnlp-mixer-base", "projection-only-w4", "pnlp-transformer", "pnlp-lstm", "pqrnn", "gmlp-base", "amlp-base",
    "gmlp-36-linear", "gmlp-36-additive", "gmlp-36-multiplicative", "mlp-mixer-text", "bert-base",
    "bert-base-content-free", "bert-12-relative", "hypermixer", "hypermixer-untied", "transformer",
    "linear-transformer", "fnet", "mlp-mixer", "gmlp",
}  # fmt: skip


def small(name: str) -> dict:
    """Changes that make a preset small: 2 layers of width 16 and 12 tokens."""
    config = PRESETS[name].config.to_dict()
    widths = {"hidden_dim": 12, "ffn_dim": 20, "num_heads": 2, "tiny_attention_dim": 6}
    layers = []
    for layer in config["layers"]:
        mixers = [
            {key: widths.get(key, value) if value is not None else None for key, value in mixer.items()}
            for mixer in layer["mixers"]
        ]
        feed_forward = layer["feed_forward"] and {"type": "mlp", "ffn_dim": 20}
        layers.append({**layer, "mixers": mixers, "feed_forward": feed_forward})
    text: dict = {"max_len": 12}
    if config["text"]["projection"]["type"] != "subwords":
        text["projection"] = {"num_features": 64}
    return {"dim": 16, "text": text, "layers": layers, "num_layers": min(2, config["num_layers"] or len(layers))}


def test_every_preset_has_its_family_here() -> None:
    def family(name: str) -> tuple:
        config = PRESETS[name].config
        kinds = [
            (mixer.type, *(str(getattr(mixer, key, None)) for key in ("form", "tied", "cell", "positions")))
            for block in config.layers
            for mixer in block.mixers
        ]
        tiny = any(getattr(mixer, "tiny_attention_dim", None) for block in config.layers for mixer in block.mixers)
        return config.text.projection.type, config.text.segments, config.embedding.positions, tiny, *kinds

    assert {family(name) for name in PRESETS} == {family(name) for name in FAMILIES}


# An export takes seconds: the head on tokens, here on subwords, is tried with four bodies.
CASES = [(name, "text") for name in sorted(FAMILIES)]
CASES += [(name, "tokens") for name in ("pnlp-lstm", "gmlp-base", "bert-base", "hypermixer")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "output"), CASES)
def test_the_exported_file_answers_as_torch_does(name: str, output: Output) -> None:
    config = model_config(name, small(name))
    text = config.text.for_vocabulary(VOCABULARY)
    config = config.model_copy(update={"text": text})
    model = build_model(config, num_outputs=3, output=output, seed=1)
    with torch.no_grad():  # what begins at zero or one must not hide an error
        generator = torch.Generator().manual_seed(2)
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    encoder = TextEncoder(text, VOCABULARY)
    content = export_onnx(
        TorchNetwork(model),
        text=text,
        task=TASKS[output],
        labels=LABELS[output],
        vocabulary=VOCABULARY,
        precision="float32",
    )
    predictor = Predictor(content)
    assert_followed(content, texts=3, tokens=5)
    parts = [TEXTS] if output == "tokens" else [TEXTS, PAIRS]
    texts = [item for part in parts for item in part]
    stores = [Dataset.from_examples(Example(item, None, "x", 1) for item in part) for part in parts]
    expected = [row for store in stores for row in predict_logits(TorchNetwork(model), TextSet(store, encoder))]
    for together in (
        predictor.logits(predictor.tokenize(texts)),
        [predictor.logits(predictor.tokenize([item]))[0] for item in texts],
    ):
        for found, wanted, item in zip(together, expected, texts, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-5, err_msg=f"{item}")
    if output == "tokens":
        assert [len(row) for row in expected] == [6, 8, 1, 1, 2]
        answer = predictor.predict("naïve größe")
        assert answer.tokens == ("naïve", "größe")  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_graph_of_every_part_is_followed() -> None:
    """What no preset has: other mixers, norms, feed-forwards, pools and embedding layers, in one model."""
    mixers = [
        {"type": "pooling", "pooling": "max"},
        {"type": "remixing", "alpha": "gated", "choose": True},
        {"type": "synthesizer", "num_heads": 2, "positions": {"num_buckets": 8, "max_distance": 6}},
        {"type": "attention", "num_heads": 2, "positions": {"num_buckets": 8, "max_distance": 6, "init": "alibi"}},
        {"type": "linear_attention", "num_heads": 2},
        {"type": "hypermixing", "hidden_dim": 4, "positions": "learned", "num_heads": 2},
        {"type": "spatial_gating", "ffn_dim": 8, "tiny_attention_dim": 3},
        {"type": "recurrent", "cell": "qrnn", "hidden_dim": 3},
        {"type": "fourier"},
    ]
    layer = {"mixers": mixers, "feed_forward": {"type": "gated", "ffn_dim": 8}, "norm_type": "rms"}
    changes = {
        "dim": 8,
        "layers": [layer, {**layer, "norm": "post", "norm_type": "layer"}],
        "num_layers": None,
        "text": {"max_len": 12, "projection": {"type": "tsp", "num_features": 32}, "segments": True},
        "embedding": {"window": 1, "window_type": "factorized", "positions": "sinusoidal", "norm": True},
        "head": {"pooling": "all"},
        "final_norm": True,
    }
    config = model_config("pnlp-mixer-x-small", changes)
    model = build_model(config, num_outputs=3, output="text", seed=1)
    content = export_onnx(
        TorchNetwork(model),
        text=config.text,
        task=TASKS["text"],
        labels=LABELS["text"],
        vocabulary=VOCABULARY,
        precision="int8",
    )
    for texts, tokens in ((1, 1), (3, 5), (2, 12)):
        assert_followed(content, texts=texts, tokens=tokens)
    assert Predictor(content).predict(TEXTS)
