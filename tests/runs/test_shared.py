"""What several trainings on the same examples share changes nothing but the time."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from mixling import Dataset, Example, RunConfig, fit
from mixling.runs import initial_model, labeled_data
from mixling.runs.resolve import LABELS, resolve
from mixling.runs.shared import Shared

COLORS = ("red", "green", "blue")


def examples(count: int, name: str) -> Dataset:
    texts = ((f"{COLORS[i % 3]} is word{i % 50} of {name}", COLORS[i % 3]) for i in range(count))
    return Dataset.from_examples(Example(text, label, name, i) for i, (text, label) in enumerate(texts, 1))


def config(seed: int) -> RunConfig:
    train = {"epochs": 1, "seed": seed, "device": "cpu"}
    values = {"task": "classification", "model": "mixling-tiny", "train": train, "ngrams": {"use": "never"}}
    return resolve(values, spec=LABELS, overrides={"init": {"training_texts": True}}).config


def test_results_are_computed_once_for_each_key_and_object() -> None:
    shared, calls = Shared(), []

    def make() -> list[int]:
        calls.append(len(calls))
        return [len(calls)]

    first, second = examples(3, "first"), examples(3, "second")
    found = [shared.get(make, "key", of=(item,)) for item in (first, second, first)]
    assert found == [[1], [2], [1]]
    assert found[0] is found[2]
    assert shared.get(make, "other", of=(first,)) == [3]
    assert len(calls) == 3
    assert shared.saved > 0


def test_a_training_that_shares_writes_the_bytes_of_one_that_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: dict[str, int] = {}
    for module, name in (
        (initial_model, "train_vectors"),
        (initial_model, "train_vocabulary"),
        (labeled_data, "TextSet"),
    ):
        made = getattr(module, name)

        def count(*args: Any, made: Any = made, name: str = name, **options: Any) -> Any:
            counted[name] = counted.get(name, 0) + 1
            return made(*args, **options)

        monkeypatch.setattr(module, name, count)
    train, validation, shared = examples(100, "train"), examples(30, "validation"), Shared()
    for seed in (0, 1):
        fit(config(seed), train, validation, folder=tmp_path / str(seed), shared=shared)
    assert counted == {"train_vectors": 1, "train_vocabulary": 1, "TextSet": 2}
    fit(config(1), train, validation, folder=tmp_path / "alone")
    assert counted == {"train_vectors": 2, "train_vocabulary": 2, "TextSet": 4}
    hashes = {
        name: hashlib.sha256((tmp_path / name / "model.onnx").read_bytes()).hexdigest() for name in ("0", "1", "alone")
    }
    assert hashes["1"] == hashes["alone"]
    assert hashes["0"] != hashes["1"]


@pytest.mark.parametrize(("steps", "kept"), [(1, False), (2, True)])
def test_texts_that_few_steps_read_are_encoded_when_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, kept: bool
) -> None:
    made: list[labeled_data.TextSet] = []
    original = labeled_data.TextSet
    monkeypatch.setattr(
        labeled_data, "TextSet", lambda *args, **options: (made.append(original(*args, **options)), made[-1])[1]
    )
    few = config(0).model_copy(update={"train": config(0).train.model_copy(update={"steps": steps})})
    fit(few, examples(200, "train"), examples(30, "validation"), folder=tmp_path / "run")
    assert [(len(item), item.is_kept) for item in made] == [(200, kept), (30, True)]
