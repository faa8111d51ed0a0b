"""Sentence encoders against the transformers library by hand, and the classifiers on them against scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from mixling import ConfigError, Dataset, Example, ModelFileError
from mixling.answers import LabelSet
from mixling.runs.distillation import DistillConfig, check_distill
from mixling.tasks import Classification, MultiLabel, Tagging
from mixling.teachers import EncoderTeacher, SentenceEncoder
from mixling.teachers import encoder as module
from mixling.text import Text

transformers = pytest.importorskip("transformers")
MakeModel = Callable[..., Path]
TEXTS: list[Text] = ["the film is good", "bad", "not very good is the film is the film", ["play", "bad"]]
LABELS = LabelSet(("bad", "good"), "single")


@pytest.fixture(scope="module")
def folder(make_model: MakeModel) -> Path:
    return make_model("BertModel")


def by_hand(folder: Path, text: str) -> np.ndarray:
    """The vectors of all subwords of one text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return transformers.AutoModel.from_pretrained(folder).eval()(
            **tokenizer(text, return_tensors="pt")
        ).last_hidden_state[0].numpy()  # fmt: skip


def rows(count: int) -> Dataset:
    words = {"good": ["good", "very good"], "bad": ["bad", "not good"]}
    return Dataset.from_examples(
        Example(f"the film {'is ' * (i % 5)}{words[label][i % 2]}", label, "memory", i)
        for i in range(count)
        for label in ("good", "bad")
    )


def test_embeddings_are_normalized_means_of_one_text_at_a_time(folder: Path) -> None:
    found = SentenceEncoder(str(folder)).embed(TEXTS)
    for text, embedding in zip(TEXTS, found, strict=True):
        mean = by_hand(folder, text if isinstance(text, str) else " ".join(text)).mean(0)
        np.testing.assert_allclose(embedding, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_folder_may_require_the_first_token(folder: Path, make_model: MakeModel) -> None:
    other = make_model("BertModel")
    (other / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 16}
    (other / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    first = by_hand(other, "the film")[0]
    encoder = SentenceEncoder(str(other))
    np.testing.assert_allclose(encoder.embed(["the film"])[0], first / np.linalg.norm(first), atol=1e-5)
    assert encoder.key != SentenceEncoder(str(folder)).key  # the weights are the same
    (other / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(ModelFileError, match="got max_tokens; allowed: mean or cls"):
        SentenceEncoder(str(other))


def test_pairs_are_compared(folder: Path) -> None:
    encoder = SentenceEncoder(str(folder))
    u, v = encoder.embed(["the film", "bad"])
    found = encoder.embed([("the film", "bad"), ("bad", "the film")])
    np.testing.assert_allclose(found[0], np.concatenate([u, v, abs(u - v), u * v]), atol=1e-5)
    np.testing.assert_allclose(found[1], np.concatenate([v, u, abs(u - v), u * v]), atol=1e-5)


def test_a_teacher_is_logistic_regression(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STRENGTHS", (10.0,))
    train, task = rows(10), Classification(LABELS)
    teacher = EncoderTeacher.fit(str(folder), train, rows(3), task)
    features = SentenceEncoder(str(folder)).embed(list(train.texts))
    # scikit-learn penalizes one vector of two classes where ours has two of half its length: half the penalty.
    direct = LogisticRegression(C=20.0, tol=1e-8, max_iter=5000).fit(features, list(train.targets))
    asked = TEXTS[:3]
    found = np.stack([answer for answer in teacher.predict(asked, task) if answer is not None])
    np.testing.assert_allclose(found, direct.predict_proba(teacher.encoder.embed(asked)), atol=2e-3)
    assert teacher.predict([], task) == []


def test_validation_chooses_the_regularization(folder: Path) -> None:
    train, task = rows(10), Classification(LABELS)
    turned = Dataset.from_examples(
        Example(text, "bad" if label == "good" else "good", "memory", i)
        for i, (text, label) in enumerate(zip(train.texts, train.targets, strict=True))
    )
    fitting, wrong = (EncoderTeacher.fit(str(folder), train, other, task) for other in (train, turned))
    sizes = [np.linalg.norm(teacher._weights) for teacher in (fitting, wrong)]
    assert sizes[0] > 2 * sizes[1]  # wrong labels want small weights
    assert fitting.key != wrong.key


def test_several_labels_are_independent(folder: Path) -> None:
    task = MultiLabel(LabelSet(("film", "good"), "multi"))
    train = Dataset.from_examples(
        Example(text, label, "memory", i)
        for i, (text, label) in enumerate(
            [("the film", ("film",)), ("good", ("good",)), ("the film is good", ("film", "good")), ("bad", ())] * 5
        )
    )
    (both,) = EncoderTeacher.fit(str(folder), train, train, task).predict(["the film is good"], task)
    assert both is not None
    assert (both > 0.6).all()


@pytest.mark.parametrize(
    ("teacher", "task", "message"),
    [
        ("encoder:nowhere", Classification, "nowhere is not a sentence encoder; allowed: encoder:DIR"),
        ("encoder:{}", Tagging, "cannot teach tagging; it gives one prediction per text"),
    ],
)
def test_mistakes_are_reported_before_training(
    folder: Path, teacher: str, task: type[Classification], message: str
) -> None:
    from mixling import DataConfig

    with pytest.raises(ConfigError, match=message):
        check_distill(
            DistillConfig(teacher=teacher.format(folder)), task=task, data=DataConfig(train=("x.csv",)), world=1
        )
