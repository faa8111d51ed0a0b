"""Few examples: all of them choose the mixture of network and n-gram branch, and train both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mixling import Dataset, Example, Predictor, RunConfig, TextConfig, TrainConfig, fit, model_config
from mixling.config import parse
from mixling.ngrams import LinearData, fit_ngrams
from mixling.ngrams.choose import Fitted
from mixling.ngrams.cross_fitting import OutOfFold, branch_folds, choose_folds
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import task_type
from mixling.text import train_vocabulary
from mixling.training import NgramConfig

WORDS = ("balan", "kopert", "misim", "tugor", "zelan", "bapert", "kosim", "migor")


def rows(number: int, seed: int, *, sensible: bool = True, label: str | None = None) -> Dataset:
    """Texts of six words, the first of which decides, if they are sensible."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(number):
        target = i % 2 if sensible else int(rng.integers(2))
        words = [WORDS[i % 2], *rng.choice(WORDS[2:], 5), f"n{seed}x{i}"]
        out.append(Example(" ".join(words), label or "ab"[target], "rows", i))
    return Dataset.from_examples(out)


def paired(dataset: Dataset) -> Dataset:
    """Each text with itself."""
    both = (Example((one.text, one.text), one.target, "rows", i) for i, one in enumerate(dataset))
    return Dataset.from_examples(both, texts=2)


def config(**values: Any) -> RunConfig:
    model = model_config("mixling-tiny", {"text": {"max_len": 16}, "num_layers": 1}).to_dict()
    whole = {"task": "classification", "model": model, "ngrams": {"use": "auto", "cross_fit": True, "refit": True}}
    return parse(RunConfig, {**whole, "train": {"epochs": 3}, **values}, where="test")


def branch(
    train: Dataset, validation: Dataset, network: np.ndarray, *, unlabeled: Sequence[str] = (), **options: Any
) -> Fitted:
    def predict(texts: Any) -> np.ndarray:
        raise AssertionError("out-of-fold predictions are there")

    task = task_type("classification")(task_type("classification").label_set(train))
    number = len(train) + len(validation)
    data = LinearData(
        task=task, train=train, validation=validation, network=network[len(train) :], predict=predict, weights=None,
        text=TextConfig(), vocabulary=train_vocabulary(list(train.texts), TextConfig()),
        out_of_fold=OutOfFold(folds=np.arange(number) % 4, logits=network), unlabeled=unlabeled,
    )  # fmt: skip
    found = fit_ngrams(NgramConfig(use="auto", **options), data, max_bytes=50_000)
    assert found is not None
    return found


def test_the_mixture_is_judged_on_examples_that_neither_part_was_trained_on() -> None:
    silent = np.zeros((60, 2), np.float32)
    learned = branch(rows(50, 0), rows(10, 1), silent)
    assert learned.report["mixture_loss"] < 0.1
    assert learned.report["folds"] == 5
    guessed = branch(rows(50, 0, sensible=False), rows(10, 1, sensible=False), silent)
    assert guessed.report["mixture_loss"] > 0.65  # 0.69 is that of guessing; of its own texts it would be 0
    assert guessed.held_out.shape == (60, 2)


def test_the_better_of_both_parts_counts() -> None:
    random = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    sensible = branch(rows(50, 0), rows(10, 1), random)
    assert sensible.report["mixture_alone"] > 0.8
    assert sensible.report["mixture_loss"] < 0.05
    noise = rows(50, 0, sensible=False), rows(10, 1, sensible=False)
    gold = np.array(["ab".index(str(target)) for part in noise for target in part.targets])
    known = np.where(np.arange(2) == gold[:, None], 1.0, -1.0).astype(np.float32)
    useless = branch(*noise, known)
    assert useless.metadata.network > 2
    assert useless.report["mixture_loss"] < 0.05


def test_unlabeled_texts_join_words_of_one_label() -> None:
    """Each labeled text has a word that no other one has; unlabeled texts have three words of one label each."""
    rng = np.random.default_rng(0)
    words = {label: ["".join(rng.permutation([*"abcdefghijklmnop"])[:7]) for _ in range(30)] for label in "ab"}
    examples = [Example(word, label, "rows", i) for label in words for i, word in enumerate(words[label])]
    mixed = [examples[int(i)] for i in rng.permutation(60)]
    train, validation = Dataset.from_examples(mixed[:50]), Dataset.from_examples(mixed[50:])
    pairs = [" ".join(rng.choice(words[label], 3)) for label in words for _ in range(150)]
    silent = np.zeros((60, 2), np.float32)
    plain = branch(train, validation, silent)
    helped = branch(train, validation, silent, unlabeled=pairs)
    assert plain.report["mixture_loss"] > 0.6  # 0.69 is that of guessing
    assert helped.report["mixture_loss"] < 0.5
    # Of texts that contradict the labeled ones nothing is learned.
    junk = [" ".join(rng.choice(words["a"] + words["b"], 12)) for _ in range(300)]
    assert branch(rows(50, 0), rows(10, 1), silent, unlabeled=junk).report["mixture_loss"] < 0.1


def test_validation_examples_with_unknown_labels_choose_nothing() -> None:
    silent = np.zeros((60, 2), np.float32)
    found = branch(rows(50, 0), rows(10, 1, label="odd"), silent, strength=10.0)
    assert found.held_out.shape == (60, 2)
    assert found.report["mixture_loss"] < 0.1


@pytest.mark.slow
def test_a_training_on_few_examples_uses_all_of_them(tmp_path: Path) -> None:
    lines: list[str] = []
    validation = Dataset.from_examples([Example("balan kopert", "odd", "rows", 0), *rows(20, 1)])
    run = fit(config(), rows(60, 0), validation, folder=tmp_path / "m", log=lines.append)
    assert run is not None
    assert run.report["data"]["cross_validated"]
    assert run.report["data"]["training"] == 80
    assert run.report["ngrams"]["folds"] == 5
    assert run.metrics.n == 81
    assert run.metrics.accuracy > 0.95
    assert run.best["epoch"] == 3
    assert any(line.startswith("few examples: two more networks each learn one half of the 81") for line in lines)
    assert any("80 examples by models that had not seen them" in line for line in lines)
    predictor, test = Predictor(tmp_path / "m"), rows(100, 2)
    right = [
        item.label == target for item, target in zip(predictor.predict(list(test.texts)), test.targets, strict=True)
    ]
    assert np.mean(right) > 0.95
    # The networks of folds know nothing of what they left out.
    noise = rows(60, 0, sensible=False), rows(20, 1, sensible=False)
    guessing = fit(config(train={"epochs": 30}), *noise, folder=tmp_path / "noise")
    assert guessing is not None
    assert guessing.report["ngrams"]["mixture_alone"] > 0.65
    assert guessing.metrics.accuracy < 0.7  # of texts that it was fitted on it would be 1


def test_named_validation_examples_stay_unseen(tmp_path: Path) -> None:
    changes = {"ngrams": {"use": "auto", "cross_fit": True, "refit": False}}
    run = fit(config(**changes), rows(60, 0), rows(20, 1), folder=tmp_path / "m")
    assert run is not None
    assert not run.report["data"]["cross_validated"]
    assert run.report["data"]["training"] == 60
    assert run.metrics.n == 20
    assert len(run.history) == 3


def test_few_examples_are_cross_fitted_unless_the_user_planned_the_training() -> None:
    train, validation = rows(60, 0), rows(20, 1)

    def folds(changes: dict[str, Any], train: Dataset = train, validation: Dataset = validation, **options: Any) -> Any:
        chosen = resolve({"task": "classification"}, spec=LABELS, overrides=changes).for_examples(train).config
        given = {"ngrams": chosen.ngrams, "training": chosen.train, "usual": True, "distilled": False, "world": 1}
        return choose_folds([train, validation], **{"task": task_type("classification"), **given, **options})

    found = folds({})
    assert found is not None
    assert np.bincount(found).tolist() == [40] * 2
    assert folds({"train": {"epochs": 3}}) is None
    assert folds({"train": {"epochs": 3}, "ngrams": {"cross_fit": True}}) is not None
    assert folds({"ngrams": {"cross_fit": False}}) is None
    assert folds({"ngrams": {"use": "never"}}) is None
    assert folds({}, usual=False) is None
    assert folds({"ngrams": {"cross_fit": True}}, distilled=True) is None
    assert folds({}, world=2) is None
    assert folds({}, train=rows(1190, 0)) is None  # more than 600 for each label
    assert folds({}, train=rows(1180, 0)) is not None
    many = Dataset.from_examples(
        Example(f"{one.text}", f"label {i % 9}", "rows", i) for i, one in enumerate(rows(1990, 0))
    )
    assert folds({}, train=many) is None
    assert folds({}, train=many.subset(np.arange(1980))) is not None
    more = folds({}, train=paired(rows(4980, 0)), validation=paired(validation))
    assert np.bincount(more).tolist() == [2500] * 2
    assert folds({}, train=paired(rows(4990, 0)), validation=paired(validation)) is None


def test_a_group_is_in_one_fold() -> None:
    """Even with other texts, and on both sides of the validation split."""
    grouped = Dataset.from_examples(
        Example(one.text, one.target, "rows", i, group=f"g{i // 5}") for i, one in enumerate(rows(100, 0))
    )
    parts = [grouped.subset(np.arange(0, 70)), grouped.subset(np.arange(70, 100))]
    found = choose_folds(
        parts, task=task_type("classification"), ngrams=NgramConfig(use="auto"), training=TrainConfig(),
        usual=True, distilled=False, world=1,
    )  # fmt: skip
    assert found is not None
    assert (found.reshape(20, 5) == found[::5, None]).all()
    assert set(found.tolist()) == {0, 1}


def test_the_last_of_more_epochs_is_exported() -> None:
    given = {"rows_per_label": 5.0, "init": "rows", "distilled": False}
    usual = TrainConfig().resolved(35, **given)
    few = TrainConfig().resolved(35, **given, cross_fitted=True)
    assert (usual.load_best_at_end, few.load_best_at_end) == (True, False)
    assert (usual.epochs, few.epochs) == (25, 60)
    assert few.augmentation is not None
    assert usual.augmentation is not None
    assert few.augmentation.typos < usual.augmentation.typos
    assert TrainConfig().resolved(1000, **given, cross_fitted=True).epochs == 25  # 16 steps each


@pytest.mark.parametrize("absent", [(), (1,), (0, 3)])
def test_scores_of_few_texts_are_those_of_logistic_regression(absent: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    features, kept = rng.normal(size=(40, 6)).astype(np.float32), [i for i in range(4) if i not in absent]
    targets = np.array(kept)[rng.integers(len(kept), size=40)]
    task = task_type("classification")(
        task_type("classification").label_set(Dataset.from_examples(Example("x", name, "rows", 0) for name in "abcd"))
    )
    weights, bias = task.fit_scores(features, targets, None, strength=2.0, few=True)
    reference = LogisticRegression(C=2.0, max_iter=1000).fit(features, targets)
    scores = features @ weights.T + bias
    assert scores.shape == (40, 4)
    probabilities = task.probabilities(scores[:, kept] - scores[:, kept].max(1, keepdims=True)) if not absent else None
    if probabilities is not None:
        np.testing.assert_allclose(probabilities, reference.predict_proba(features), atol=1e-3)
    np.testing.assert_array_equal(scores.argmax(1), reference.predict(features))


def test_branches_leave_out_a_fifth_where_they_take_little_time() -> None:
    parts = [rows(40, 0), rows(10, 0)]  # the ten are among the forty
    networks = np.arange(50) % 2
    folds = branch_folds(parts, 1, networks)
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(folds[40:], folds[:10])
    labels = np.array([str(target) for part in parts for target in part.targets])
    assert all(set(labels[folds != fold]) == {"a", "b"} for fold in range(5))
    assert branch_folds(parts, 1_000, networks) is networks
