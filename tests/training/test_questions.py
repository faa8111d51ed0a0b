"""Training on questions: what a batch holds, and that a small model learns to answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mixling import Dataset, Example, TextEncoder, TrainConfig, build_model
from mixling.answers import Answers, Found
from mixling.tasks import ANSWER_ENDS, LossConfig, QuestionAnswering
from mixling.text import ReadingConfig, train_vocabulary
from mixling.training import OptimConfig, Trainer, WindowSet
from mixling.training.questions import QuestionData, question_data

from .conftest import model_config

NAMES = ["anna", "bob", "carla", "dora", "emil", "fred", "gina", "hugo"]


def questions(*, unanswerable: bool = False) -> Dataset:
    """Who has what, in contexts of two windows of the tiny model; with `unanswerable` also who has nothing."""

    def example(i: int) -> Example:
        owner, other = NAMES[i % 8], NAMES[(i + 3) % 8]
        context = f"the {other} has one dog . so the {owner} has {i % 8} cats . and that is all"
        if unanswerable and i >= 8:
            return Example((f"what has {NAMES[(i + 1) % 8]}", context), None, "a", i + 1, None, Answers((), ()))
        answer = Answers((f"{i % 8} cats",), (context.index("cats") - 2,))
        return Example((f"what has {owner}", context), None, "a", i + 1, None, answer)

    return Dataset.from_examples(map(example, range(16 if unanswerable else 8)))


def data_of(store: Dataset, *, reading: ReadingConfig | None = None, token_dropout: float = 0.0) -> QuestionData:
    config = model_config().text
    encoder = TextEncoder(config, train_vocabulary(store.sample_texts(1 << 16, 0), config))
    task = QuestionAnswering(ANSWER_ENDS, LossConfig(label_smoothing=0))
    return question_data(
        task, store, store, encoder, reading or ReadingConfig(), token_dropout=token_dropout, log=lambda message: None
    )


def test_word_dropout_spares_the_separator() -> None:
    data = data_of(questions(), token_dropout=0.9)
    indices = np.arange(len(data))
    batch, targets, weights = data.batch(indices, indices, seed=0, step=1)
    assert weights is None
    assert targets.tolist() == data.train.targets.tolist()
    dropped = (batch.index == 0) & batch.mask
    assert dropped.sum() > 0.5 * batch.mask.sum()
    assert not dropped[np.arange(len(data)), targets[:, 0]].any()


def test_a_process_works_on_its_part_of_the_batch() -> None:
    data = data_of(questions(), token_dropout=0.5)
    indices = np.array([3, 1, 2, 0])
    whole, targets, _ = data.batch(indices, np.arange(4), seed=0, step=1)
    part, of_part, _ = data.batch(indices, np.array([1, 3]), seed=0, step=1)
    assert of_part.tolist() == targets[[1, 3]].tolist()
    width = part.mask.shape[1]
    assert ((part.index == 0) == (whole.index[[1, 3], :width] == 0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("unanswerable", [False, True])
def test_a_small_model_learns_the_answers(unanswerable: bool, run_folder: Path) -> None:
    data = data_of(questions(unanswerable=unanswerable))
    config = TrainConfig(steps=150, evaluations=3, batch_size=64, optim=OptimConfig(lr=0.02))
    model = build_model(model_config(dropout=0), num_outputs=2, output="tokens", seed=0)
    history = Trainer(model, data, config, folder=run_folder).fit()
    assert history[-1]["val_f1"] > 0.95
    assert history[-1]["val_loss"] < 0.2 * history[0]["val_loss"] + 0.1
    assert ("val_unanswerable_accuracy" in history[-1]) == unanswerable


def test_a_threshold_is_chosen_only_where_questions_lack_answers_and_none_is_given() -> None:
    found = [Found(span=(0, 3), margin=margin, probability=0.5, no_answer=0.5) for margin in np.linspace(-1, 1, 16)]
    assert data_of(questions()).resolved(found[:8]).threshold is None
    chosen = data_of(questions(unanswerable=True)).resolved(found)
    assert chosen.threshold is not None
    given = ReadingConfig(threshold=7.0)
    assert data_of(questions(unanswerable=True), reading=given).resolved(found) == given


def test_windows_know_their_rows() -> None:
    data = data_of(questions())
    assert isinstance(data.train, WindowSet)
    assert len(data) > 8
    assert {data.where(i) for i in range(len(data))} == {("a", line) for line in range(1, 9)}
