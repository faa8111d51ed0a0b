"""The linear n-gram branch in C: its logits, and that no file opens whose branch Python refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

from mixling import ModelFileError, Predictor, TextEncoder  # noqa: E402
from mixling.export import amend  # noqa: E402
from mixling.native._core import Model  # noqa: E402
from mixling.runtime import NativeEngine, load_native  # noqa: E402
from mixling.runtime.onnx import seal  # noqa: E402
from mixling.text import SEPARATOR, Distinct, NgramBranch, NgramMetadata, SparseWeights, Words, pair_hashes  # noqa: E402

from .test_logits import check  # noqa: E402

SEAL_LENGTH = 84
METADATA = NgramMetadata(min_n=2, max_n=4, network=0.6)
PLAIN = ["what a film", "What a a film", "", "the quick brown fox", "fox fox fox fox the", "über ça 你 好", "Σ ΟΔΟΣ"]
PAIRS = list(zip(PLAIN, PLAIN[2:] + PLAIN[:2], strict=True))


def branch_of(
    content: bytes, texts: list, outputs: int, metadata: NgramMetadata = METADATA, *, density: float = 1.0
) -> NgramBranch:
    """A branch with random weights for two thirds of the terms of the texts, and of what is none: pairs over [SEP]."""
    rng = np.random.default_rng(0)
    predictor = Predictor(content)
    encoder = TextEncoder(predictor.text_config, predictor.encoder.vocabulary)
    rows = [item.words for item in encoder.encode(texts)]
    words = Words.of_table(encoder, 0, metadata.min_n, metadata.max_n)
    pairs = Distinct.of_texts(rows, words.hashes).pairs
    over = [
        pair_hashes(words.hashes, words.hashes[SEPARATOR : SEPARATOR + 1]),
        pair_hashes(words.hashes, np.zeros(1, np.uint32)),
    ]
    terms = np.unique(np.concatenate([words.hashes, words.grams, pairs, *over]))
    terms = terms[rng.random(len(terms)) < 2 / 3]
    weights = rng.integers(-127, 128, (len(terms), outputs)).astype(np.int8)
    weights[rng.random(weights.shape) > density] = 0
    scale, bias = rng.uniform(0.04, 0.08, outputs), rng.normal(size=outputs)
    squares = rng.integers(1, 128, len(terms)).astype(np.uint8)
    return NgramBranch(terms, squares, weights, scale.astype(np.float32), bias.astype(np.float32))


def with_branch(content: bytes, texts: list, outputs: int, *, density: float = 1.0) -> bytes:
    return amend(content, branch=(branch_of(content, texts, outputs, density=density), METADATA))


@pytest.mark.parametrize("density", [1.0, 0.2])
def test_logits_of_hard_texts(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, density: float
) -> None:
    check(with_branch(export("mixling-tiny"), texts, 3, density=density), texts, monkeypatch)


@pytest.mark.parametrize(("task", "outputs"), [("multi_label", 4), ("regression", 1)])
def test_logits_of_other_tasks(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, task: str, outputs: int
) -> None:
    check(with_branch(export("mixling-tiny", task=task), PLAIN, outputs), PLAIN, monkeypatch)


@pytest.mark.parametrize("changes", [{}, {"text": {"segments": False}}, {"text": {"overlap": False}}])
def test_logits_of_pairs(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, changes: dict) -> None:
    content = export("mixling-tiny", pairs=True, **changes)
    config = Predictor(content).text_config
    assert bool(config.segments) + config.overlap == 2 - len(changes)
    check(with_branch(content, PAIRS, 3), PAIRS, monkeypatch)


@pytest.mark.parametrize(("classes", "outputs", "density"), [(2, 1, 1.0), (2, 1, 0.2), (300, 300, 0.01)])
def test_logits_of_two_labels_and_of_many(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, classes: int, outputs: int, density: float
) -> None:
    content = with_branch(export("mixling-tiny", classes=classes), PLAIN, outputs, density=density)
    assert (b"ngrams.counts" in content) == (density < 1 and outputs > 1)
    check(content, PLAIN, monkeypatch)


def test_logits_of_very_many_labels(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A full matrix would have more weights than a reader takes: they stay as they are stored."""
    content = export("mixling-tiny", classes=(outputs := 70_000))
    rng = np.random.default_rng(0)
    known = branch_of(content, PLAIN, 1).terms
    terms = np.unique(np.concatenate([known, rng.integers(0, 2**32, 500, dtype=np.uint32)]))
    counts = rng.integers(0, 9, len(terms))
    columns = rng.integers(0, outputs, counts.sum()).astype(np.int32)
    starts = np.append(0, np.cumsum(counts))
    weights = SparseWeights(starts, columns, rng.integers(-127, 128, len(columns)).astype(np.int8), outputs)
    assert len(terms) * outputs > 1 << 25
    ones = np.ones(outputs, np.float32)
    squares = rng.integers(1, 128, len(terms)).astype(np.uint8)
    content = amend(content, branch=(NgramBranch(terms, squares, weights, 0.01 * ones, ones), METADATA))
    check(content, PLAIN, monkeypatch)
    assert np.ptp(Predictor(content).predict_proba(PLAIN[:1])) > 0


def test_a_single_term(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    content = export("mixling-tiny")
    known = branch_of(content, PLAIN, 3)
    for number in (1, 2, 3, 4, 5):
        few = NgramBranch(known.terms[:number], known.squares[:number], known.weights[:number], known.scale, known.bias)
        check(amend(content, branch=(few, METADATA)), PLAIN, monkeypatch)


def test_terms_with_many_neighbors(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms are looked up by their upper bits, which neighbors have in common."""
    content = export("mixling-tiny")
    known = branch_of(content, PLAIN, 3)
    around = known.terms[:, None].astype(np.int64) + np.arange(-20, 21)
    terms = np.unique(np.clip(np.append(around, [0, 2**32 - 1]), 0, 2**32 - 1)).astype(np.uint32)
    weights = np.zeros((len(terms), 3), np.int8)
    weights[:] = np.random.default_rng(1).integers(-127, 128, (1, 3))  # a neighbor would count as well
    weights[np.isin(terms, known.terms)] = known.weights
    crowded = NgramBranch(terms, np.ones(len(terms), np.uint8), weights, known.scale, known.bias)
    check(amend(content, branch=(crowded, METADATA)), PLAIN, monkeypatch)


def test_words_that_are_already_split_have_the_same_answer(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other engine takes these; the native one takes the rest without being asked."""
    predictor = Predictor(with_branch(export("mixling-tiny"), PLAIN, 3))
    assert predictor.engine.startswith("native (")
    given, split = predictor.predict_one("what a film"), predictor.predict_one(["what", "a", "film"])
    assert given.label == split.label
    assert given.probabilities == pytest.approx(split.probabilities, abs=1e-6)


def test_a_full_table_is_emptied_with_the_sums_of_its_words(export: Callable[..., bytes]) -> None:
    texts = [" ".join(f"w{(i * j) % 997}" for j in range(40)) for i in range(100)]
    content = with_branch(export("mixling-tiny", text={"max_len": 50}), texts, 3)
    large, small = NativeEngine(Model(content, 64 << 20, 1)), NativeEngine(Model(content, 0, 2))
    assert np.array_equal(large.logits(texts)[0], small.logits(texts)[0])


def changed(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The file of a changed ModelProto, with a correct checksum."""
    model = onnx.load_from_string(content[:-SEAL_LENGTH])
    change(model)
    return seal(model.SerializeToString())


def array_of(model: Any, name: str) -> Any:
    return next(item for item in model.graph.initializer if item.name == f"ngrams.{name}")


def replace(name: str, array: np.ndarray) -> Callable[[Any], None]:
    return lambda model: array_of(model, name).CopyFrom(numpy_helper.from_array(array, f"ngrams.{name}"))


def put(name: str, index: int, value: float) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        array = numpy_helper.to_array(array_of(model, name)).copy()
        array[index] = value
        replace(name, array)(model)

    return change


def metadata(ngrams: Any, **others: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        entry = next(item for item in model.metadata_props if item.key == "mixling")
        entry.value = json.dumps({**json.loads(entry.value), "ngrams": ngrams, **others})

    return change


def python_refuses(content: bytes, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    try:
        Predictor(content)
    except ModelFileError:
        return True
    return False


VALID = METADATA.to_dict()
TERMS = "terms of its n-gram branch do not ascend, or are of another number"
SHAPE = "missing, empty, or of another type or shape"
FIT = "do not fit its terms"


@pytest.mark.parametrize(
    ("reason", "sparse", "change"),
    [
        ("or vice versa", False, metadata(None)),
        *[
            ("or values that are not allowed", False, metadata(VALID | values))
            for values in (
                {"min_n": 0}, {"max_n": 9}, {"min_n": 4, "max_n": 3}, {"min_n": "x"}, {"more": 1}, {"network": -1.0},
                {"network": 1001}, {"network": 1e300}, {"network": "much"}, {"network": None}, {"min_n": 2.5},
            )
        ],
        ("or values that are not allowed", False, metadata([])),
        ("or values that are not allowed", False, metadata({"min_n": 2, "max_n": 3})),
        ("its labels are no IOB tags", False, metadata(VALID, task="tagging")),
        ("JSON", False, metadata(VALID | {"network": float("nan")})),
        (SHAPE, False, lambda model: model.graph.initializer.remove(array_of(model, "bias"))),
        (SHAPE, True, lambda model: model.graph.initializer.remove(array_of(model, "counts"))),
        (SHAPE, False, lambda model: setattr(array_of(model, "bias"), "name", "ngrams.bios")),
        (SHAPE, False, replace("bias", np.zeros(2, np.float32))),
        (SHAPE, False, replace("scale", np.zeros((3, 1), np.float32))),
        (SHAPE, False, replace("scale", np.zeros(3, np.uint8))),
        (SHAPE, False, replace("weights", np.zeros((3, 2), np.int8))),
        (SHAPE, False, replace("weights", np.zeros((30, 3), np.uint8))),
        (SHAPE, True, replace("weights", np.zeros(3, np.int8))),
        (SHAPE, True, replace("outputs", np.zeros((3, 2), np.uint8))),
        ("not finite", False, put("scale", 0, np.inf)),
        ("not finite", False, put("bias", 2, np.nan)),
        ("of another size", False, replace("high", np.zeros(3, np.uint8))),
        ("of another size", False, replace("low", np.zeros(3, np.uint8))),
        ("of another size", True, replace("counts", np.zeros(9, np.uint8))),
        ("more than 33,554,432 weights", True, replace("counts", np.zeros((1 << 25) + 1, np.uint8))),
        ("from 1 to 127", False, put("squares", 0, 0)),
        ("from 1 to 127", False, put("squares", 3, 128)),
        ("from 1 to 127", True, replace("squares", np.ones(3, np.uint8))),
        (SHAPE, True, lambda model: model.graph.initializer.remove(array_of(model, "squares"))),
        (TERMS, False, put("high", 0, 0)),
        (TERMS, False, put("high", 0, 255)),
        (TERMS, False, put("high", -1, 255)),
        (FIT, True, put("counts", 0, 3)),
        (FIT, True, put("counts", 0, 255)),
        (FIT, True, put("outputs", 0, 3)),
    ],
)  # fmt: skip
def test_c_refuses_what_python_refuses(
    export: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    sparse: bool,
    change: Callable[[Any], None],
) -> None:
    sound = with_branch(export("mixling-tiny"), PLAIN, 3, density=0.2 if sparse else 1.0)
    assert (b"ngrams.counts" in sound) == sparse
    content = changed(sound, change)
    engine, got = load_native(content)
    assert engine is None
    assert reason in got
    assert python_refuses(content, monkeypatch)


def test_terms_that_do_not_ascend_are_refused(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    base = export("mixling-tiny")
    known = branch_of(base, PLAIN, 3)
    twice = np.sort(np.concatenate([known.terms[:-1], known.terms[:1]]))
    content = amend(base, branch=(NgramBranch(twice, known.squares, known.weights, known.scale, known.bias), METADATA))
    assert load_native(content) == (None, f"the {TERMS}")
    assert python_refuses(content, monkeypatch)


def test_a_term_beyond_32_bits_is_refused(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    base = export("mixling-tiny")
    known = branch_of(base, PLAIN, 3)
    content = amend(
        base,
        branch=(NgramBranch(known.terms[:1], known.squares[:1], known.weights[:1], known.scale, known.bias), METADATA),
    )
    content = changed(content, put("high", 0, 0b100))
    assert load_native(content) == (None, f"the {TERMS}")
    assert python_refuses(content, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("density", [1.0, 0.2])
def test_files_with_changed_arrays_open_in_both_or_neither(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, density: float
) -> None:
    """And where they open they have the same answers."""
    sound = with_branch(export("mixling-tiny"), PLAIN, 3, density=density)
    rng = np.random.default_rng(0)
    opened = 0
    for _ in range(60):

        def change(model: Any) -> None:
            items = [item for item in model.graph.initializer if item.name.startswith("ngrams.")]
            item = items[rng.integers(len(items))]
            data = bytearray(item.raw_data)
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            item.raw_data = bytes(data)

        content = changed(sound, change)
        engine, _ = load_native(content)
        assert (engine is None) == python_refuses(content, monkeypatch)
        if engine is not None:
            other = Predictor(content)
            expected = np.stack(other.logits(other.tokenize(PLAIN)))
            np.testing.assert_allclose(engine.logits(PLAIN)[0], expected, rtol=1e-4, atol=1e-4)
            opened += 1
    assert 5 < opened < 55


@pytest.mark.parametrize(
    ("number", "network"),
    [("0", 0), ("1", 1), ("0.25", 0.25), ("2.5e-1", 0.25), ("25E-2", 0.25), ("0.00025e+3", 0.25), ("1000", 1000),
     ("0.30000000000000004", 0.3), ("0.1234567890123456789012345678901234567890", 0.12345679), ("1e-400", 0)],
)  # fmt: skip
def test_the_factor_of_the_network(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, number: str, network: float
) -> None:
    sound = with_branch(export("mixling-tiny"), PLAIN, 3)

    def change(model: Any) -> None:
        entry = next(item for item in model.metadata_props if item.key == "mixling")
        assert '"network": 0.6' in entry.value
        entry.value = entry.value.replace('"network": 0.6', f'"network": {number}')

    content = changed(sound, change)
    engine, reason = load_native(content)
    assert engine is not None, reason
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    other = Predictor(content)
    expected = np.stack(other.logits(other.tokenize(PLAIN)))
    got = engine.logits(PLAIN)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * max(network, 1))
    if not network:
        assert np.ptp(got[:, 0]) > 0.1


@pytest.mark.parametrize("number", ["1.", ".5", "01", "1e", "+1", "1.2.3", "1-2", "-1", "1e99999999999999999999999"])
def test_no_number_is_no_factor(export: Callable[..., bytes], number: str) -> None:
    def change(model: Any) -> None:
        entry = next(item for item in model.metadata_props if item.key == "mixling")
        entry.value = entry.value.replace('"network": 0.6', f'"network": {number}')

    engine, reason = load_native(changed(with_branch(export("mixling-tiny"), PLAIN, 3), change))
    assert engine is None
    assert "values that are not allowed" in reason
