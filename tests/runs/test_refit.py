"""The second training on all labeled examples: what it is trained on, for how long, and what is reported of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mixling import ConfigError, Dataset, Example, Predictor, RunConfig, TextConfig, TextEncoder, fit
from mixling.answers import LabelSet
from mixling.config import merge
from mixling.data import TextSet
from mixling.runs.labeled_data import with_validation
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import Classification, Tagging
from mixling.text import MinHash, train_vocabulary
from mixling.training import Callback, LabeledData, Step

COLORS = ("red", "green", "blue")


def examples(count: int, *, seed: int, odd: bool = False) -> Dataset:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        color = COLORS[rng.integers(3)]
        words = [*rng.choice(["one", "two", "three", "four"], size=3).tolist(), color]
        rng.shuffle(words)
        label = "odd" if odd and number == 0 else color
        rows.append(Example(" ".join(words), label, f"rows{seed}.jsonl", number + 1))
    return Dataset.from_examples(rows)


def config(**changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "task": "classification",
        "model": {"text": {"vocabulary_size": 100, "max_len": 8}},
        "train": {"epochs": 4, "batch_size": 8, "device": "cpu", "precision": "float32", "checkpoint_seconds": 1e-9},
        "decisions": {"precision": "float32"},
    }
    return resolve({}, spec=LABELS, overrides=merge(values, changes)).config


class Cut(Exception):
    """Stands for kill -9."""


class Watch(Callback):
    """Notes the trainings that begin, and cuts the second one at a step."""

    def __init__(self, cut: int | None = None) -> None:
        self.cut = cut
        self.trainings: list[tuple[int, int]] = []

    def started(self, step: int, total_steps: int) -> None:
        self.trainings.append((step, total_steps))

    def stepped(self, step: Step) -> None:
        if len(self.trainings) == 2 and step.number == self.cut:
            raise Cut


TRAIN, VALIDATION = examples(48, seed=1), examples(16, seed=2)
WATCHES = {"plain": Watch(), "refit": Watch()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders `plain` and `refit`: the same run without and with a refit."""
    folder = tmp_path_factory.mktemp("runs")
    for name, watch in WATCHES.items():
        fit(
            config(decisions={"precision": "float32", "refit": name == "refit"}),
            TRAIN,
            VALIDATION,
            folder=folder / name,
            callback=watch,
        )
    return folder


def report(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return values


def test_metrics_and_history_are_those_of_the_first_training(runs: Path) -> None:
    plain, again = report(runs / "plain"), report(runs / "refit")
    assert again["validation"] == plain["validation"]
    assert again["best"] == plain["best"]
    assert again["calibration"] == plain["calibration"]
    assert again["refit"] == {"examples": 64, "steps": round(plain["best"]["step"] * 8 / 6)}  # batches of an epoch
    assert "refit" not in plain
    assert (runs / "refit" / "metrics.jsonl").read_bytes() == (runs / "plain" / "metrics.jsonl").read_bytes()
    assert "on all 64\nlabeled examples" in (runs / "refit" / "README.md").read_text()
    assert not (runs / "refit" / "refit").exists()


def test_the_second_training_is_another_from_the_beginning(runs: Path) -> None:
    plain, again = (load_file(runs / name / "model.safetensors") for name in ("plain", "refit"))
    assert any((plain[name] != again[name]).any() for name in plain)
    best = report(runs / "plain")["best"]["step"]
    assert WATCHES["refit"].trainings == [(0, 4 * 6), (0, round(best * 8 / 6))]
    assert len(WATCHES["plain"].trainings) == 1


def test_its_weights_are_those_of_a_training_on_all_rows(runs: Path, tmp_path: Path) -> None:
    """With a constant rate, where the number of steps is given and the last weights are kept."""
    train = {"optim": {"schedule": "constant", "warmup": 0.0}}
    text = {"vocabulary": str(runs / "plain" / "vocab.txt"), "max_len": 8}
    fit(
        config(decisions={"precision": "float32", "refit": True}, train=train, model={"text": text}),
        TRAIN,
        VALIDATION,
        folder=tmp_path / "refit",
    )
    steps = report(tmp_path / "refit")["refit"]["steps"]
    known = {"steps": steps, "load_best_at_end": False, **train}
    joined = Dataset.from_examples([*TRAIN, *VALIDATION])
    fit(config(train=known, model={"text": text}), joined, VALIDATION, folder=tmp_path / "known")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("refit", "known"))
    for name in first:
        if not name.startswith("head.output."):
            np.testing.assert_array_equal(first[name], second[name])
            continue
        # The refit has the calibration of its first training.
        slopes = [report(tmp_path / folder)["calibration"]["slope"] for folder in ("refit", "known")]
        np.testing.assert_allclose(first[name] / slopes[0], second[name] / slopes[1], rtol=1e-5)


@pytest.mark.parametrize("tagged", [False, True])
def test_its_data_are_those_of_training_and_of_validation(tagged: bool) -> None:
    def store(rows: list[tuple[str, Any]], path: str) -> Dataset:
        return Dataset.from_examples(
            Example(text.split() if tagged else text, (target,) if tagged else target, path, i)
            for i, (text, target) in enumerate(rows)
        )

    names = ("O", "B-x", "I-x") if tagged else ("a", "b")
    task = Tagging(LabelSet(names, "iob")) if tagged else Classification(LabelSet(names, "single"))
    train = store([("one", names[0]), ("two", names[1])], "train")
    validation = store([("three", "B-odd" if tagged else "odd"), ("four", names[1])], "validation")
    text = TextConfig(projection=MinHash(num_features=64, num_hashes=8), max_len=8, vocabulary_size=100)
    encoder = TextEncoder(text, train_vocabulary(list(train.sample_texts(1 << 10, 0)), text))
    full = task.with_unknown(validation.targets)
    data = LabeledData(
        objective=task, train=TextSet(train, encoder), train_targets=task.targets(train.targets),
        validation=TextSet(validation, encoder), validation_task=full,
        validation_targets=full.targets(validation.targets),
        weights=np.array([0.5, 2], np.float32),
    )  # fmt: skip
    joined = with_validation(data, validation, task)
    assert [text if isinstance(text, str) else text[0] for text in joined.train.dataset.texts] == ["one", "two", "four"]
    assert np.array([0, 1, 1]).tolist() == [int(np.ravel(target)[0]) for target in joined.train_targets]
    assert joined.where(2) == ("validation", 1)
    assert joined.weights is not None
    assert joined.weights.tolist() == [0.5, 2, 1]
    batch, targets, _ = joined.batch(np.arange(3), np.arange(3), seed=0, step=0)
    assert (len(batch.index), len(targets)) == (3, 3)


@pytest.mark.parametrize("cut", [5])
def test_an_interrupted_refit_ends_with_the_same_bytes(runs: Path, tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "cut"
    with pytest.raises(Cut):
        fit(
            config(decisions={"precision": "float32", "refit": True}),
            TRAIN,
            VALIDATION,
            folder=folder,
            callback=Watch(cut),
        )
    assert (folder / "refit").is_dir()
    watch = Watch()
    assert (
        fit(
            config(decisions={"precision": "float32", "refit": True}),
            TRAIN,
            VALIDATION,
            folder=folder,
            resume=True,
            callback=watch,
        )
        is not None
    )
    assert watch.trainings[1][0] == cut - 1
    for name in ("model.safetensors", "model.onnx", "metrics.json", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (runs / "refit" / name).read_bytes(), name


def test_examples_of_unseen_labels_are_left_out(tmp_path: Path) -> None:
    validation = examples(16, seed=2, odd=True)
    run = fit(
        config(decisions={"precision": "float32", "refit": True}),
        TRAIN,
        validation,
        folder=tmp_path / "run",
        weights=np.ones(48, np.float32),
    )
    assert run is not None
    assert run.report["refit"]["examples"] == 63
    assert run.metrics.n == 16
    assert Predictor(tmp_path / "run").labels.names == tuple(sorted(COLORS))


@pytest.mark.parametrize("changes", [{"task": "question_answering"}, {"distill": {"teacher": "self"}}])
def test_what_cannot_be_refitted_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"refit: .* cannot be trained on its validation examples"):
        config(decisions={"precision": "float32", "refit": True}, **changes)
