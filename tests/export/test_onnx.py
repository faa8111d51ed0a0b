"""The exported graph against the torch model, for every projection, window, head and way of feeding words."""

from __future__ import annotations

import copy
import functools
import gc
import io
import json
import logging
import warnings

import numpy as np
import onnxruntime
import pytest
import torch

from mixling import ModelConfig, TextConfig, TextEncoder, build_model
from mixling.answers import LabelSet
from mixling.export import export_onnx
from mixling.export.quantize import quantize, quantize_weights
from mixling.mixers import TokenMLPConfig
from mixling.models import Model, TorchNetwork
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig
from mixling.runtime.onnx import read_metadata
from mixling.text import AveragedEmbedding, Binary, MinHash, SimHash, Ternary, Tsp, train_vocabulary

TEXTS = ["play some music by the beatles", "what is the weather in paris tomorrow?", "book a table", "", "naïve größe"]
VOCABULARY = train_vocabulary(TEXTS, TextConfig(vocabulary_size=100))
CASES = {
    "minhash": (MinHash(num_features=90, num_hashes=7), 0, "text", "attention"),
    "factorized": (MinHash(num_features=90, num_hashes=7, word_hashes=2), 1, "text", "all"),
    "simhash": (SimHash(num_features=64), 1, "tokens", "attention"),
    "binary": (Binary(num_features=90, num_hashes=7), 2, "text", "mean"),
    "class_token": (MinHash(num_features=90, num_hashes=7), 1, "text", "class"),
    "tsp": (Tsp(num_features=64), 0, "text", "max"),
    "ternary": (Ternary(num_features=90, num_hashes=7), 1, "tokens", "attention"),
    "embedding": (AveragedEmbedding(num_features=len(VOCABULARY), embedding_dim=10), 1, "tokens", "attention"),
}


TASKS = {"single": "classification", "iob": "tagging"}


def make(name: str, *, max_len: int = 12) -> tuple[ModelConfig, Model, LabelSet]:
    projection, window, output, pooling = CASES[name]
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=90),), feed_forward=FeedForwardConfig(ffn_dim=72))
    config = ModelConfig(
        text=TextConfig(projection=projection, max_len=max_len),
        embedding=EmbeddingConfig(window=window, window_type="factorized" if name == "factorized" else "full"),
        dim=16,
        layers=(layer,),
        num_layers=2,
        head=HeadConfig(pooling=pooling),
    )
    labels = LabelSet(("O", "B-x", "I-x"), "iob") if output == "tokens" else LabelSet(("a", "b", "c"), "single")
    model = build_model(config, num_outputs=3, output=output, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # biases and tables start at zero, where a forgotten one would not be seen
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.ndim == 1 or name == "embedding":
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return config, model, labels


@functools.cache
def export(name: str, precision: str, **options: int) -> bytes:
    config, model, labels = make(name, **options)
    return export_onnx(
        TorchNetwork(model),
        text=config.text,
        task=TASKS[labels.kind],
        labels=labels,
        vocabulary=VOCABULARY,
        precision=precision,
    )


def run(content: bytes, encoder: TextEncoder, texts: list[str], *, cached: int = 0, padding: int = 0) -> list:
    """Logits and rows of a batch, whose first `cached` words are given as rows that the graph answered before."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    words, index, _ = batch(encoder, texts, padding)
    bags = encoder.bags(words)

    def feed(rows: np.ndarray, part: slice, index: np.ndarray) -> dict:
        out = {"cached": rows, "positions": bags.features[part], "index": index}
        return out if bags.weights is None else {**out, "weights": bags.weights[part]}

    width = session.get_inputs()[0].shape[1]
    rows = np.zeros((0, width), np.float32)
    if cached:
        rows = session.run(["rows"], feed(rows, slice(cached), np.ones((1, 1), np.int32)))[0]
    return session.run(None, feed(rows, slice(cached, None), index))


def batch(encoder: TextEncoder, texts: list[str], padding: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    encoded = encoder.encode(texts)
    words = np.unique(np.concatenate([item.words for item in encoded]))
    index = np.zeros((len(texts), max(len(item.words) for item in encoded) + padding), np.int32)
    for row, item in zip(index, encoded, strict=True):
        row[: len(item.words)] = 1 + np.searchsorted(words, item.words)
    return words, index, index != 0


def torch_logits(model: Model, encoder: TextEncoder, texts: list[str]) -> np.ndarray:
    words, index, mask = batch(encoder, texts)
    bags = encoder.bags(words)
    weights = None if bags.weights is None else torch.from_numpy(bags.weights)
    with torch.no_grad():
        arrays = torch.from_numpy(bags.features), weights, torch.from_numpy(index), torch.from_numpy(mask)
        return model.eval()(*arrays).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_graph_equals_the_torch_model(name: str) -> None:
    config, model, _ = make(name)
    encoder = TextEncoder(config.text, VOCABULARY)
    content = export(name, "float32")
    real = batch(encoder, TEXTS)[2]
    keep = real if CASES[name][2] == "tokens" else slice(None)
    expected = torch_logits(model, encoder, TEXTS)
    logits, rows = run(content, encoder, TEXTS)
    np.testing.assert_allclose(logits[keep], expected[keep], atol=1e-4)
    assert np.ptp(expected[keep], axis=0).min() > 1e-2, "texts that all have one answer show nothing"

    for cached in (3, len(rows)):  # some words cached, all words cached
        np.testing.assert_array_equal(run(content, encoder, TEXTS, cached=cached)[0][keep], logits[keep])
    padded = run(content, encoder, TEXTS, padding=2)[0]
    padded = padded[:, : real.shape[1]] if padded.ndim == 3 else padded
    np.testing.assert_allclose(padded[keep], logits[keep], atol=1e-5)
    for number, text in enumerate(TEXTS):
        alone = run(content, encoder, [text])[0][0]
        row = logits[number][real[number]] if logits.ndim == 3 else logits[number]
        np.testing.assert_allclose(alone, row, atol=1e-5)


def packed_and_back(values: np.ndarray, axis: int) -> np.ndarray:
    """Rounded to 127ths of the largest magnitude at each index of `axis` of a matrix."""
    scale = np.abs(values).max(axis=1 - axis, keepdims=True).astype(np.float64) / 127
    return np.round(values / scale) * scale


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_eight_bits_are_the_float_model_of_rounded_weights(name: str) -> None:
    config, model, _ = make(name)
    encoder = TextEncoder(config.text, VOCABULARY)
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        table = model.embedding.table().numpy()
        rounded.embedding.weight = torch.nn.Parameter(torch.from_numpy(packed_and_back(table, 1)).float())
        rounded.embedding.embeddings = None
        changed = 0
        for key, parameter in rounded.named_parameters():
            if parameter.ndim == 2 and parameter.numel() >= 1024 and not key.startswith("embedding"):
                values = parameter.numpy()
                both = [packed_and_back(values, axis) for axis in (0, 1)]
                best = min(both, key=lambda matrix: np.square(matrix - values).sum())
                parameter.copy_(torch.from_numpy(best))
                changed += 1
    assert changed == 2 * 4
    content = export(name, "int8")
    logits, rows = run(content, encoder, TEXTS)
    keep = batch(encoder, TEXTS)[2] if logits.ndim == 3 else slice(None)
    np.testing.assert_allclose(logits[keep], torch_logits(rounded, encoder, TEXTS)[keep], atol=1e-4)
    exact = torch_logits(model, encoder, TEXTS)[keep]
    assert 1e-5 < np.abs(logits[keep] - exact).max() / np.abs(exact).max() < 0.03
    np.testing.assert_array_equal(run(content, encoder, TEXTS, cached=len(rows))[0][keep], logits[keep])


@pytest.mark.slow
@pytest.mark.parametrize("max_len", [1, 2])
def test_short_models_are_exported_with_every_length_free(max_len: int) -> None:
    config, model, _ = make("minhash", max_len=max_len)
    encoder = TextEncoder(config.text, VOCABULARY)
    content = export("minhash", "float32", max_len=max_len)
    for texts in (TEXTS, ["music"]):
        np.testing.assert_allclose(run(content, encoder, texts)[0], torch_logits(model, encoder, texts), atol=1e-4)


@pytest.mark.slow
def test_full_length_is_read() -> None:
    config, model, _ = make("minhash")
    encoder = TextEncoder(config.text, VOCABULARY)
    texts = ["the music of the weather in paris is what a table by the beatles plays"]
    assert len(encoder.encode(texts)[0].words) == config.text.max_len
    logits = run(export("minhash", "float32"), encoder, texts)[0]
    np.testing.assert_allclose(logits, torch_logits(model, encoder, texts), atol=1e-4)


@pytest.mark.slow
def test_file_is_quiet_deterministic_standard_and_complete(capfd: pytest.CaptureFixture[str]) -> None:
    import onnx

    stream = io.StringIO()
    logging.getLogger().addHandler(handler := logging.StreamHandler(stream))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first, second = export.__wrapped__("binary", "int8"), export("binary", "int8")
    finally:
        logging.getLogger().removeHandler(handler)
    assert (stream.getvalue(), *capfd.readouterr()) == ("", "", "")
    assert first == second

    proto = onnx.load(io.BytesIO(first))
    onnx.checker.check_model(proto, full_check=True)
    assert {item.domain for item in proto.opset_import} == {""}
    operators = {node.op_type for node in proto.graph.node}
    assert {"Gelu", "LayerNormalization"} <= operators, "decomposed, they are several times slower"
    assert b".py" not in first
    assert torch.__version__.encode() not in first

    config, _, labels = make("binary")
    entries = read_metadata(first)
    values = json.loads(entries["mixling"])
    assert values["text"] == config.text.to_dict()
    assert values["labels"] == labels.to_dict()
    assert (values["format_version"], values["precision"]) == (1, "int8")
    assert (entries["vocabulary_name"], entries["vocabulary"]) == VOCABULARY.serialize()


def test_model_is_left_as_it_was() -> None:
    config, model, labels = make("minhash")
    model.train().requires_grad_(True)
    before = copy.deepcopy(model.state_dict())
    export_onnx(
        TorchNetwork(model),
        text=config.text,
        task=TASKS[labels.kind],
        labels=labels,
        vocabulary=VOCABULARY,
        precision="int8",
    )
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.slow
def test_x_small_with_a_vocabulary_of_6000_subwords_has_at_most_600_kilobytes() -> None:
    from mixling import Vocabulary, model_config

    subwords = ["[UNK]", *(f"##unit{number:05d}" for number in range(5999))]  # 11 characters: longer than trained ones
    config = model_config("pnlp-mixer-x-small")
    content = export_onnx(
        TorchNetwork(build_model(config, num_outputs=7, output="text", seed=0)),
        text=config.text,
        task="classification",
        labels=LabelSet(tuple("abcdefg"), "single"),
        vocabulary=Vocabulary.parse("vocab.txt", "\n".join(subwords)),
        precision="int8",
    )
    assert len(content) <= 600_000


@pytest.mark.parametrize("axis", [0, 1])
def test_quantized_values_are_within_half_a_scale(axis: int) -> None:
    values = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32) * np.arange(1, 31)
    values[0] = 0
    values = values.astype(np.float32)
    integers, scales = quantize(values, axis)
    assert integers.dtype == np.int8
    assert scales.shape == ((40, 1) if axis == 0 else (1, 30))
    assert (np.abs(integers * scales - values) <= scales / 2 * 1.001).all()
    largest = np.abs(integers.astype(int)).max(axis=1 - axis)
    assert set(largest.tolist()) <= {0, 127}  # the whole range is used, and -128 is not
    assert quantize_weights(values)[1].shape == (1, 30)  # columns of very different size: scales by column
    assert quantize_weights(values.T.copy())[1].shape == (30, 1)


@pytest.mark.slow
def test_exports_leave_nothing_behind() -> None:
    config, model, labels = make("binary")

    def objects() -> int:
        export_onnx(
            TorchNetwork(model),
            text=config.text,
            task=TASKS[labels.kind],
            labels=labels,
            vocabulary=VOCABULARY,
            precision="float32",
        )
        gc.collect()
        return len(gc.get_objects())

    objects()  # loads what all exports share
    before = objects()
    assert max(objects() for _ in range(2)) - before < 2 * 1500  # torch's caches alone would hold 9,000 of each
