"""A trained model learns new labels and keeps its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixling import ConfigError, Dataset, Example, Predictor, RunConfig, build_model, fit, read_data
from mixling.answers import LabelSet
from mixling.models import TorchNetwork
from mixling.research import load_model
from mixling.runs.replay import _sample, load_head, replayed_run
from mixling.runs.resolve import LABELS, resolve

WORDS = {"a": "alpha", "b": "beta", "c": "gamma", "d": "delta"}


def write(path: Path, labels: str, count: int) -> Path:
    rows = [{"text": f"{WORDS[label]} {label} {i}", "label": label} for i in range(count) for label in labels]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def resolved(file: Path, init: dict[str, Any], **values: Any) -> RunConfig:
    small: dict[str, Any] = {} if init else {"model": "mixling-tiny"}
    given = {"data": {"train": [str(file)]}, "init": init, "train": {"epochs": 4}, "task": "classification"}
    return resolve({**given, **small, **values}, spec=LABELS, overrides={"ngrams": {"use": "never"}}).config


def train(config: RunConfig, folder: Path) -> tuple[Predictor, list[str]]:
    log: list[str] = []
    data = read_data(config, spool_dir=None, log=log.append)
    assert fit(config, *data, folder=folder, log=log.append) is not None
    return Predictor(folder), log


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    train(resolved(write(folder / "old.jsonl", "ab", 30), {}), folder / "base")
    return folder


def test_new_labels_are_added_and_old_ones_stay(base: Path, tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", "cd", 20)
    config = resolved(new, {"pretrained": str(base / "base"), "replay": 20})
    predictor, log = train(config, tmp_path / "more")
    assert predictor.labels.names == ("a", "b", "c", "d")
    assert any(
        "its 2 labels stay; 40 of its 54 training examples are replayed, 20 of each label" in line for line in log
    )
    texts = [f"{WORDS[label]} {label} 99" for label in "abcd"]
    assert [item.label for item in predictor.predict(texts)] == list("abcd")  # type: ignore[union-attr]
    # A run that continues it replays the labels of both.
    last = resolved(write(tmp_path / "last.jsonl", "a", 20), {"pretrained": str(tmp_path / "more"), "replay": 5})
    train_part, validation = read_data(last, spool_dir=None, log=lambda line: None)
    assert set(train_part.label_counts()) == set("abcd")
    assert train_part.label_counts()["d"] == 5
    assert set(validation.label_counts()) == set("abcd")
    # Without replay, they are forgotten.
    forgetful = resolved(new, {"pretrained": str(base / "base"), "replay": 0})
    assert replayed_run(forgetful.init, forgetful.task) is None
    assert set(read_data(forgetful, spool_dir=None, log=lambda line: None)[0].label_counts()) == {"c", "d"}


def test_the_ngram_branch_is_fitted_anew_on_old_and_new_examples(tmp_path: Path) -> None:
    def train_branch(file: Path, init: dict[str, Any], folder: Path, **branch: Any) -> Predictor:
        small: dict[str, Any] = {} if init else {"model": "mixling-tiny"}
        given = {"data": {"train": [str(file)]}, "init": init, "train": {"epochs": 2}, "task": "classification"}
        config = resolve({**given, **small}, spec=LABELS, overrides={"ngrams": branch} if branch else {}).config
        return train(config, folder)[0]

    old, new = write(tmp_path / "old.jsonl", "ab", 30), write(tmp_path / "new.jsonl", "cd", 20)
    options = {"use": "always", "min_n": 2, "max_n": 5}
    first = train_branch(old, {}, tmp_path / "base", **options)
    init = {"pretrained": str(tmp_path / "base"), "replay": 20}
    second = train_branch(new, init, tmp_path / "more")
    assert second.metadata.ngrams is not None
    assert (second.metadata.ngrams.min_n, second.metadata.ngrams.max_n) == (2, 5)
    assert first.metadata.ngrams is not None
    # Each label has n-grams of its own, also the two that were only replayed.
    for index, label in enumerate("abcd"):
        scores = second._inference.network.branch.logits([second.tokenize([f"{WORDS[label]} {label}"])[0].words])[0]  # type: ignore[union-attr]
        assert scores.argmax() == index
    assert train_branch(new, init, tmp_path / "none", use="never").metadata.ngrams is None


def test_the_weights_of_known_labels_are_kept(base: Path) -> None:
    old, _, _, _ = load_model(base / "base")
    model, _, _, _ = load_model(base / "base")
    model.head.output = torch.nn.Linear(old.head.output.in_features, 3)  # type: ignore[union-attr, arg-type]
    before = model.head.output.weight.detach().clone()  # type: ignore[union-attr]
    load_head(TorchNetwork(model), LabelSet(("b", "new", "a"), "single"), str(base / "base"))
    found = model.head.output.weight  # type: ignore[union-attr]
    assert torch.equal(found[[2, 0]], old.head.output.weight)  # type: ignore[union-attr, index]
    assert torch.equal(found[1], before[1])  # type: ignore[index]


def test_the_transitions_of_known_tags_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "slots.jsonl"
    rows = [
        {"tokens": ["to", place, "now"], "slots": ["O", "B-city", "B-time"]}
        for place in (f"place{i}" for i in range(40))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    config = resolved(path, {}, task="tagging")
    predictor, _ = train(config, tmp_path / "run")
    old, _, labels, _ = load_model(tmp_path / "run")
    assert labels.names == ("O", "B-city", "B-time", "I-city", "I-time")
    known = old.head.transitions
    assert isinstance(known, torch.Tensor)
    assert known[1, 2] > known[1, 1]
    np.testing.assert_array_equal(predictor.task.transitions, known.detach().numpy())
    model = build_model(old.config, num_outputs=7, output="tags")
    names = ("O", "B-a", "B-city", "B-time", "I-a", "I-city", "I-time")
    load_head(TorchNetwork(model), LabelSet(names, "iob"), str(tmp_path / "run"))
    found, kept = model.head.transitions, [0, 2, 3, 5, 6]
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found[kept][:, kept], known)
    assert not found[1].any()
    assert not found[:, 4].any()


def test_what_cannot_be_replayed_is_an_error_with_a_remedy(base: Path, tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", "cd", 10)
    (base / "old.jsonl").rename(base / "moved.jsonl")
    try:
        with pytest.raises(
            ConfigError, match=r"its training data cannot be read: .*no such file.*--set init.replay=0 continues"
        ):
            read_data(resolved(new, {"pretrained": str(base / "base")}), spool_dir=None, log=lambda line: None)
    finally:
        (base / "moved.jsonl").rename(base / "old.jsonl")
    config = resolved(new, {"pretrained": str(base / "base")}, task="multi_label")
    log: list[str] = []
    assert replayed_run(config.init, config.task, log.append) is None
    (line,) = log
    assert "base has the task classification, not multi_label: the training begins with its weights, without" in line
    with pytest.raises(ConfigError, match=r"init.replay: the run in .* has the task classification, not multi_label"):
        replayed_run(resolved(new, {"pretrained": str(base / "base"), "replay": 3}).init, "multi_label")
    with pytest.raises(ConfigError, match="replay requires a pretrained model"):
        resolved(new, {"replay": 3}, model="mixling-tiny")


def test_samples_of_several_labels_have_each_of_them() -> None:
    rows: list[tuple[str, ...]] = [("a",)] * 50 + [("a", "b")] * 3 + [()] * 30 + [("c",)]
    data = Dataset.from_examples(Example(f"text {i}", names, "rows", i) for i, names in enumerate(rows))
    sample = _sample(data, 4, seed=0)
    found = list(sample.targets)
    assert found.count(()) == 4
    assert sum("a" in names for names in found) >= 4  # type: ignore[operator, union-attr]
    assert sum("b" in names for names in found) == 3  # type: ignore[operator, union-attr]
    assert len(found) <= 4 + 4 + 3 + 1
