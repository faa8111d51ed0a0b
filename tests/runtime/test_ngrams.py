"""A model file with an n-gram branch: what it predicts, and what of it is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from mixling import Predictor, TextEncoder, Vocabulary, build_model  # noqa: E402
from mixling.answers import LabelSet  # noqa: E402
from mixling.errors import ModelFileError  # noqa: E402
from mixling.export import amend, export_onnx  # noqa: E402
from mixling.models import TorchNetwork  # noqa: E402
from mixling.networks import pnlp_mixer  # noqa: E402
from mixling.runtime.onnx import open_model, seal  # noqa: E402
from mixling.tasks import task_type  # noqa: E402
from mixling.text import Distinct, NgramBranch, NgramMetadata, Words  # noqa: E402

TEXTS = ["a b a", "", "c", "the cat sat", "b a, c d e f"] * 3
SEAL_LENGTH = 84
METADATA = NgramMetadata(min_n=2, max_n=3, network=0.75)
VOCABULARY = Vocabulary.parse("vocab.txt", "[UNK]\na\n##b\n")


@pytest.fixture
def onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that computes the branch in Python; tests/native compares the other one with it."""
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")


def network(task: str, labels: LabelSet) -> bytes:
    config = pnlp_mixer(num_features=32, window=0, dim=4, num_layers=1)
    output = task_type(task).output
    return export_onnx(
        TorchNetwork(build_model(config, num_outputs=len(labels), output=output, seed=0)),
        text=config.text,
        task=task,
        labels=labels,
        vocabulary=VOCABULARY,
        precision="int8",
    )


def make_branch(content: bytes, outputs: int) -> NgramBranch:
    encoder = TextEncoder(Predictor(content).text_config, VOCABULARY)
    encoder.encode(["a b", "cat sat"])
    words = Words.of_table(encoder, 3, 2, 3)
    texts = Distinct.of_texts([np.arange(3, 7)], Words.of_table(encoder, 0, 2, 3).hashes)
    terms = np.unique(np.concatenate([words.hashes, words.grams, texts.pairs]))
    weights = np.random.default_rng(0).integers(1, 128, (len(terms), outputs)).astype(np.int8)
    return NgramBranch(
        terms,
        np.full(len(terms), 3, np.uint8),
        weights,
        np.full(outputs, 0.01, np.float32),
        np.full(outputs, 0.5, np.float32),
    )


@pytest.fixture(scope="module")
def content() -> bytes:
    return network("classification", LabelSet(("x", "y", "z"), "single"))


@pytest.fixture(scope="module")
def with_branch(content: bytes) -> bytes:
    return amend(content, branch=(make_branch(content, 3), METADATA))


LABELS = {
    "two": ("classification", LabelSet(("x", "y"), "single"), 1),
    "three": ("classification", LabelSet(("x", "y", "z"), "single"), 3),
    "several": ("multi_label", LabelSet(("x", "y"), "multi"), 2),
    "number": ("regression", LabelSet(("value",), "number", {"mean": 1.0, "deviation": 2.0}), 1),
}


@pytest.mark.parametrize("name", LABELS)
def test_logits_are_the_weighted_sum_of_both(name: str) -> None:
    task, labels, outputs = LABELS[name]
    alone = network(task, labels)
    branch = make_branch(alone, outputs)
    before, after = Predictor(alone), Predictor(amend(alone, branch=(branch, METADATA)))
    rows = [item.words for item in before.tokenize(TEXTS)]
    words = Words.of_table(before.encoder, 0, 2, 3)
    own = after.task.logits_of_scores(branch.logits(Distinct.of_texts(rows, words.hashes), branch.row_sums(words)))
    first = np.stack(before.logits(before.tokenize(TEXTS)))
    second = np.stack(after.logits(after.tokenize(TEXTS)))
    np.testing.assert_allclose(second, 0.75 * first + own, rtol=1e-5, atol=1e-6)
    assert (np.abs(own[:, -1] - own[1, -1]) > 0.1).any()


@pytest.mark.usefixtures("onnx_runtime")
def test_one_text_many_and_probabilities_agree_exactly(with_branch: bytes) -> None:
    predictor = Predictor(with_branch)
    together = np.stack(predictor.logits(predictor.tokenize(TEXTS)))
    stream, probabilities = predictor.predict(TEXTS), predictor.predict_proba(TEXTS)
    np.testing.assert_array_equal(predictor.task.probabilities(together), probabilities)
    fresh = Predictor(with_branch)
    for text, many, row in zip(TEXTS, stream, probabilities, strict=True):
        one = fresh.predict_one(text)
        assert one.label == many.label
        np.testing.assert_allclose(list(one.probabilities.values()), row, rtol=1e-6)


@pytest.mark.usefixtures("onnx_runtime")
def test_branches_of_predictors_that_share_an_encoder_or_were_copied_agree(with_branch: bytes) -> None:
    first = Predictor(with_branch)
    second = Predictor(with_branch, encoder=first.encoder)
    encoded = first.tokenize(TEXTS)
    np.testing.assert_array_equal(first.logits(encoded), second.logits(encoded))
    copy = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copy.predict_proba(TEXTS), first.predict_proba(TEXTS))


@pytest.mark.usefixtures("onnx_runtime")
def test_a_table_that_began_anew_is_read_anew(with_branch: bytes, content: bytes) -> None:
    config = Predictor(content).text_config
    small = Predictor(with_branch, encoder=TextEncoder(config, VOCABULARY, max_table=8))
    expected = Predictor(with_branch)
    many = [f"a w{i} cat w{i + 1}" for i in range(40)]
    got = [small.predict_one(text).probabilities for text in many]
    assert small.encoder.generation > 2
    for one, text in zip(got, many, strict=True):
        assert one == expected.predict_one(text).probabilities


def changed(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The file of a changed ModelProto, with a correct checksum, as an attacker would write it."""
    model = onnx.load_from_string(content[:-SEAL_LENGTH])
    change(model)
    return seal(model.SerializeToString())


def with_metadata(content: bytes, ngrams: Any) -> bytes:
    def change(model: Any) -> None:
        entry = next(item for item in model.metadata_props if item.key == "mixling")
        entry.value = json.dumps({**json.loads(entry.value), "ngrams": ngrams})

    return changed(content, change)


def replace_array(model: Any, name: str, array: np.ndarray | None) -> None:
    found = next(item for item in model.graph.initializer if item.name == f"ngrams.{name}")
    if array is None:
        model.graph.initializer.remove(found)
    else:
        found.CopyFrom(numpy_helper.from_array(array, f"ngrams.{name}"))


@pytest.mark.parametrize(
    ("ngrams", "message"),
    [
        (None, "has an n-gram branch and its arrays do not, or vice versa"),
        ({"min_n": 2, "max_n": 9, "network": 1.0}, "max_n"),
        ({"min_n": 3, "max_n": 2, "network": 1.0}, "3 to 2 characters"),
        ({"min_n": 2, "max_n": 3, "network": -1.0}, "network"),
        ({"min_n": 2, "max_n": 3, "network": float("nan")}, "network"),
        ({"min_n": 2, "max_n": 3}, "network"),
        ({"min_n": 2, "max_n": 3, "network": 1.0, "more": 1}, "more"),
        ([], "ngrams"),
    ],
)
def test_metadata_that_is_not_that_of_a_branch_is_refused(with_branch: bytes, ngrams: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        open_model(with_metadata(with_branch, ngrams))


def test_a_branch_that_is_not_there_is_refused(content: bytes) -> None:
    with pytest.raises(ModelFileError, match="or vice versa"):
        Predictor(with_metadata(content, METADATA.to_dict()))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights", np.zeros((3, 2), np.int8)),
        ("weights", np.zeros((2**20, 3), np.int8)),
        ("weights", np.zeros(0, np.int8)),
        ("bias", np.zeros(2, np.float32)),
        ("scale", np.full(3, np.nan, np.float32)),
        ("high", np.zeros(3, np.uint8)),
        ("low", np.zeros((1, 3), np.uint8)),
        ("bias", None),
    ],
)
def test_arrays_that_are_not_those_of_a_branch_are_refused(with_branch: bytes, name: str, array: Any) -> None:
    with pytest.raises(ModelFileError, match="n-gram branch cannot be read"):
        Predictor(changed(with_branch, lambda model: replace_array(model, name, array)))


@pytest.mark.usefixtures("onnx_runtime")  # which reads the graph
def test_a_graph_that_reads_the_branch_is_refused(with_branch: bytes) -> None:
    def change(model: Any) -> None:
        model.graph.node.append(helper.make_node("Identity", ["ngrams.bias"], ["stolen"]))

    with pytest.raises(ModelFileError, match="reads a value that no earlier node computes"):
        Predictor(changed(with_branch, change))


def test_a_task_of_words_has_no_branch() -> None:
    labels = LabelSet(("O", "B-x", "I-x"), "iob")
    alone = network("tagging", labels)
    with pytest.raises(ModelFileError, match="n-gram branch; models of tagging have none"):
        Predictor(amend(alone, branch=(make_branch(alone, 3), METADATA)))


def test_every_changed_byte_is_noticed(with_branch: bytes) -> None:
    for location in np.random.default_rng(0).integers(0, len(with_branch), 50).tolist():
        damaged = bytearray(with_branch)
        damaged[location] ^= 1
        with pytest.raises(ModelFileError):
            Predictor(bytes(damaged))


def test_equal_branches_give_equal_files(content: bytes, with_branch: bytes) -> None:
    assert amend(content, branch=(make_branch(content, 3), METADATA)) == with_branch
