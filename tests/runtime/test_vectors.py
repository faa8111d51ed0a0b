"""Vectors of texts: what each layer is, 8-bit integers, and an index that compares all of them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import ConfigError, DataError, ModelFileError, Predictor
from mixling.errors import MissingPackage
from mixling.native import _counts
from mixling.runtime import VectorIndex, write_index
from mixling.samples.sets import demo_model

TEXTS = [
    "where is my parcel?",
    "my parcel is late",
    "please cancel my order",
    "",
    "cancel the order please",
    "the kettle is broken",
    "wo ist mein paket " * 40,
]

OTHERS = ["parcel", "order", "kettle", "late", "broken", "please"]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(demo_model())


@pytest.mark.parametrize("layer", ["words", "text"])
def test_vectors_are_of_each_text_alone(layer: str, predictor: Predictor) -> None:
    whole = predictor.encode(TEXTS, layer=layer)
    assert whole.shape[0] == len(TEXTS)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(
        np.concatenate([predictor.encode([text], layer=layer) for text in TEXTS]), whole, atol=1e-5
    )
    assert predictor.encode([], layer=layer).shape == (0, whole.shape[1])
    assert predictor.encode(iter(TEXTS), layer=layer).shape == whole.shape
    assert predictor.encode({"text": TEXTS}, layer=layer).shape == whole.shape


def test_the_words_are_a_mean_and_the_order_does_not_count(predictor: Predictor) -> None:
    both, first, second = predictor.encode(["parcel kettle", "parcel", "kettle"])
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-5)


def test_integers_keep_the_cosine(predictor: Predictor) -> None:
    exact = predictor.encode(TEXTS).astype(float)
    integers = predictor.encode(TEXTS, dtype="int8")
    assert integers.dtype == np.int8
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    rounded = integers.astype(float) @ integers.T.astype(float) / 127**2
    np.testing.assert_allclose(rounded, exact @ exact.T, atol=0.02)


def test_the_logits_are_linear_in_the_layer_text(predictor: Predictor) -> None:
    """The head is a linear layer: what ONNX Runtime computes of the network alone is a linear function of them."""
    texts = [" ".join(words) for words in itertools.product(OTHERS, repeat=3)]
    texts += [f"{text} now" for text in texts]
    model = predictor._inference.native
    assert model is not None
    network = _network_alone(predictor, texts)
    vectors = np.column_stack([predictor.encode(texts, layer="text"), np.ones(len(texts))]).astype(float)
    found = vectors @ np.linalg.lstsq(vectors, network, rcond=None)[0]
    np.testing.assert_allclose(found, network, atol=0.02)  # both round to 8 bits within


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "word"}, "layer: got 'word'; did you mean 'words'"),
        ({"dtype": "int16"}, "dtype: got 'int16'; did you mean 'int8'"),
        ({"layer": None}, "layer: got None"),
    ],
)
def test_other_layers_and_types_are_refused(options: dict[str, Any], message: str, predictor: Predictor) -> None:
    with pytest.raises(ConfigError, match=message):
        predictor.encode(TEXTS, **options)
    for wrong in ("a text", [1], [("a", "b")]):
        with pytest.raises(DataError):
            predictor.encode(wrong)  # type: ignore[arg-type, call-overload]


@pytest.mark.parametrize(
    ("count", "size", "wanted"), [(500, 192, 10), (37, 64, 40), (50, 5, 3), (1, 1, 1), (300, 33, 300)]
)
def test_the_nearest_are_those_of_all_products(count: int, size: int, wanted: int) -> None:
    chance = np.random.default_rng(count)
    vectors = chance.integers(-127, 128, (count, size), dtype=np.int8)
    vectors[count // 2 :] = vectors[: count - count // 2]  # ties
    queries = chance.integers(-127, 128, (4, size), dtype=np.int8)
    numbers, products = _counts.nearest(vectors, queries, size, wanted)
    found = np.frombuffer(numbers, np.int64).reshape(4, -1)
    values = np.frombuffer(products, np.int32).reshape(4, -1)
    assert found.shape == (4, min(wanted, count))
    for row, query in enumerate(queries):
        right = vectors.astype(np.int32) @ query.astype(np.int32)
        order = np.lexsort((np.arange(count), -right))[:wanted]
        np.testing.assert_array_equal(found[row], order)
        np.testing.assert_array_equal(values[row], right[order])


def test_the_native_functions_refuse_what_does_not_fit() -> None:
    vectors = np.zeros((3, 4), np.int8)
    for arguments in (
        (vectors, vectors, 5, 1),
        (vectors, vectors, 0, 1),
        (vectors, vectors, 4, 0),
        (vectors.view(np.int32), vectors, 4, 1),
    ):
        with pytest.raises(ValueError):
            _counts.nearest(*arguments)
    finder = _counts.new_duplicates(2, 2, 0.5, 1)
    keys, words, lengths = np.zeros(2, np.int64), np.zeros(3, np.int32), np.array([1, 2], np.int32)
    _counts.add_texts(finder, keys, words, lengths)
    for wrong in (
        np.array([1, 1], np.int32),
        np.array([-1, 4], np.int32),
        np.array([3], np.int32),
        np.array([4, -1], np.int32),
    ):
        with pytest.raises(ValueError):
            _counts.add_texts(finder, keys, words, wrong)
    for numbers in ((0, 1, 0.5, 1), (300, 1, 0.5, 1), (16, 17, 0.5, 1), (1, 1, 0.0, 1), (1, 1, 1.1, 1), (1, 1, 0.5, 0)):
        with pytest.raises(ValueError):
            _counts.new_duplicates(*numbers)
    with pytest.raises(ValueError):
        _counts.add_texts("no finder", keys, words, lengths)


def test_an_index_has_its_model_and_moves(predictor: Predictor, tmp_path: Path) -> None:
    assert write_index(tmp_path / "first", predictor, iter(TEXTS)) == len(TEXTS)
    os.rename(tmp_path / "first", tmp_path / "index")
    index = VectorIndex(tmp_path / "index")
    assert (len(index), [index.text(number) for number in range(len(TEXTS))]) == (len(TEXTS), TEXTS)
    for number, found in enumerate(index.nearest(TEXTS, 3)):
        assert len(found) == 3
        assert found[0][1] == pytest.approx(1, abs=0.02)
        assert found[0][0] == number
    assert index.nearest([], 3) == []
    assert {number for number, _ in index.nearest(["please cancel this order"], 2)[0]} == {2, 4}
    assert [len(found) for found in index.nearest(["a"], 100)] == [len(TEXTS)]
    assert np.load(tmp_path / "index" / "vectors.npy").shape == (len(TEXTS), 192)
    with pytest.raises(ConfigError, match="count: got 0"):
        index.nearest(["a"], 0)


def test_an_index_without_texts_and_damaged_ones(predictor: Predictor, tmp_path: Path) -> None:
    assert write_index(tmp_path / "index", predictor, []) == 0
    assert VectorIndex(tmp_path / "index").nearest(["a"]) == [[]]
    with pytest.raises(ModelFileError, match=r"is no index .*mixling encode MODEL FILE -o"):
        VectorIndex(tmp_path / "none")
    write_index(tmp_path / "index", predictor, TEXTS)
    for name, content in (
        ("vectors.npy", b"x"),
        ("ends.npy", b""),
        ("index.json", b"{}"),
        ("index.json", b"[1"),
        ("index.json", b"[" * 100_000),
        ("model.onnx", b""),
    ):
        before = (tmp_path / "index" / name).read_bytes()
        (tmp_path / "index" / name).write_bytes(content)
        with pytest.raises(ModelFileError):
            VectorIndex(tmp_path / "index")
        (tmp_path / "index" / name).write_bytes(before)
    index, ends = VectorIndex(tmp_path / "index"), np.load(tmp_path / "index" / "ends.npy")
    assert index.text(1) == TEXTS[1]
    for wrong in (ends[::-1], -ends, ends + (1 << 60)):
        np.save(tmp_path / "index" / "ends.npy", wrong)
        with pytest.raises(ModelFileError, match=r"texts.jsonl: is damaged"):
            VectorIndex(tmp_path / "index").text(1)
    np.save(tmp_path / "index" / "vectors.npy", np.zeros((3, 192), np.int8))
    with pytest.raises(ModelFileError, match="do not fit together"):
        VectorIndex(tmp_path / "index")


def _network_alone(predictor: Predictor, texts: list[str]) -> np.ndarray:
    """Return the network's logits: the model's without the n-gram branch, in a process that runs ONNX Runtime."""
    pytest.importorskip("onnxruntime")
    script = (
        "import sys, json, numpy as np\n"
        "from mixling import Predictor\n"
        "p = Predictor(sys.argv[1]); network = p._inference.network; texts = json.loads(sys.stdin.read())\n"
        "rows, _ = network._look_up(network.encode(texts)); np.save(sys.argv[2], np.stack(network._run(rows, 16)))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "logits.npy")
        subprocess.run(
            [sys.executable, "-c", script, str(demo_model()), file], input=json.dumps(texts), text=True, check=True,
            env={**os.environ, "MIXLING_ENGINE": "onnx"},
        )  # fmt: skip
        return np.load(file)


def test_a_graph_finds_nearly_what_a_comparison_of_all_finds(tmp_path: Path, predictor: Predictor) -> None:
    pytest.importorskip("usearch", reason="usearch, of the extra [index], is not installed")
    texts = [f"{' '.join(words)} {number}" for number, words in enumerate(itertools.product(OTHERS, repeat=4))]
    write_index(tmp_path, predictor, iter(texts), graph=True)
    index, exact = VectorIndex(tmp_path, graph=True), VectorIndex(tmp_path)
    asked = texts[::50]
    found, right = index.nearest(asked, 10), exact.nearest(asked, 10)
    hits = 0
    for some, all_of_them in zip(found, right, strict=True):
        assert len(some) == 10
        assert [cosine for _, cosine in some] == sorted((cosine for _, cosine in some), reverse=True)
        hits += sum(cosine >= all_of_them[-1][1] for _, cosine in some)
        for number, cosine in some:
            assert (number, cosine) in all_of_them or cosine <= all_of_them[-1][1]
    assert hits >= 0.95 * 10 * len(asked)
    assert len(index.nearest(asked[:1], 5000)[0]) > 1000
    write_index(tmp_path, predictor, texts[:3])
    assert not (tmp_path / "graph.usearch").exists()
    assert len(VectorIndex(tmp_path).nearest(["parcel"])[0]) == 3


def test_a_graph_that_does_not_belong_to_the_vectors_is_refused(tmp_path: Path, predictor: Predictor) -> None:
    pytest.importorskip("usearch", reason="usearch, of the extra [index], is not installed")
    write_index(tmp_path / "one", predictor, TEXTS, graph=True)
    write_index(tmp_path / "two", predictor, TEXTS[:3], graph=True)
    (tmp_path / "two" / "graph.usearch").replace(tmp_path / "one" / "graph.usearch")
    with pytest.raises(ModelFileError, match="not a graph of the vectors"):
        VectorIndex(tmp_path / "one", graph=True)
    (tmp_path / "one" / "graph.usearch").unlink()
    with pytest.raises(ModelFileError, match=r"graph\.usearch"):
        VectorIndex(tmp_path / "one", graph=True)


def test_the_graph_of_a_stranger_is_not_opened_unless_asked_for(
    tmp_path: Path, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_index(tmp_path, predictor, TEXTS)
    wanted = VectorIndex(tmp_path).nearest(TEXTS)
    with pytest.raises(ConfigError, match="the index has no graph; make one"):
        VectorIndex(tmp_path, graph=True)
    record = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**record, "graph": True}))
    (tmp_path / "graph.usearch").write_bytes(b"\xff" * 1000)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    assert VectorIndex(tmp_path).nearest(TEXTS) == wanted
    with pytest.raises(MissingPackage, match="usearch"):
        VectorIndex(tmp_path, graph=True)


def test_a_graph_without_usearch_is_one_line(
    tmp_path: Path, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingPackage, match=r"needs usearch, which is not installed: pip install .*\[index\]"):
        write_index(tmp_path / "index", predictor, TEXTS, graph=True)
    assert not (tmp_path / "index").exists()
