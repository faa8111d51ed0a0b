"""Distillation data: labeled and unlabeled texts with the probabilities of a teacher.

Source: Hinton, Vinyals and Dean 2015 (soft targets, temperature); unlabeled in-domain text as in Jiao et al. 2020.
Differs from the former in that only the teacher's probabilities are softened, not the student's.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.artifacts.seen_rows import count_seen, describe_seen, read_seen
from mixling.data.config import DataConfig
from mixling.data.dataset import Dataset
from mixling.data.examples import Example
from mixling.data.unlabeled import choose_texts, fragments, read_unlabeled
from mixling.features.cells import cells_of, with_missing
from mixling.metrics.base import Metrics
from mixling.runs.distillation.ensemble import TrainMember
from mixling.runs.distillation.teacher import DistillConfig, open_teacher
from mixling.runs.resolve.config import RunConfig
from mixling.runs.run import Run
from mixling.runs.shared import Shared
from mixling.storage import write_sealed
from mixling.tasks.base import Task
from mixling.teachers.base import Probabilities, Teacher
from mixling.teachers.cache import collect_predictions
from mixling.teachers.saved import FileTeacher
from mixling.text.encoder import Text
from mixling.text.vectors import WordVectors
from mixling.text.vocabulary import Vocabulary
from mixling.training.callbacks import Log

_TINY = 1e-6  # below the resolution of 16-bit probabilities


@dataclass(frozen=True, kw_only=True)
class DistillationData:
    """Texts with soft targets.

    Attributes:
        texts: the labeled texts, repeated `copies` times, followed by the unlabeled texts.
        targets: one array for each text, float32 (C,), or (W, C) for token labels.
        rows: for each text the index of the labeled example, -1 for unlabeled texts.
    """

    texts: Dataset
    targets: list[npt.NDArray[np.float32]]
    rows: npt.NDArray[np.int64]


def make_distillation_data(
    config: DistillConfig,
    train: Dataset,
    validation: Dataset,
    task: Task,
    *,
    data: DataConfig,
    smoothing: float,
    seed: int,
    folder: Path | None,
    teacher: Teacher | None = None,
    unlabeled: Iterable[Text] = (),
    test_texts: Sequence[Text] = (),
    train_member: TrainMember | None = None,
    log: Log = lambda message: None,
) -> DistillationData:
    """Compute the teacher's probabilities and combine them with the labels.

    Args:
        smoothing: label smoothing of the true labels.
        folder: stores a fine-tuned teacher and the probabilities; None: nothing is stored.
        teacher: used instead of the one that the configuration names.
        unlabeled: texts in addition to those that the configuration names.
        test_texts: texts that are left out of them, beside the texts of files that the configuration names.
        train_member: trains the models of the teacher "self".

    Raises:
        ConfigError: the teacher does not exist.
        DataError: a row or a prediction of the teacher cannot be used.
    """
    if teacher is None:
        teacher = open_teacher(
            config, train, validation, task,
            columns=data.columns, seed=seed, folder=folder, train_member=train_member, log=log,
        )  # fmt: skip
    answer_folder = None if folder is None else folder / "answers"
    of_validation = collect_predictions(teacher, _texts(validation), task, folder=answer_folder)
    quality = _log_quality(of_validation, validation, task, log)
    hashes = read_seen(config.teacher)
    seen = 0 if hashes is None else count_seen(hashes, validation)
    whose = "its metrics, and the student's,"
    if line := describe_seen(seen, len(validation), what="validation examples", whose=whose):
        log(f"teacher: {line}")
    read = functools.partial(read_unlabeled, reader=task.reader, columns=data.columns, on_bad_row=data.on_bad_row)
    evaluated = [*_texts(validation), *test_texts, *read(config.test)]
    texts = chain(read(config.unlabeled), unlabeled)
    # The sample does not depend on the run's seed, so that students of all seeds share the stored probabilities.
    choose = functools.partial(choose_texts, limit=config.limit, choice=config.choice, log=log)
    chosen, left_out = choose(texts, train, evaluated, split=config.split)
    if isinstance(teacher, FileTeacher):  # its probabilities describe whole texts
        more, out = choose(teacher.texts(), train, evaluated, split="documents")
        chosen = [*chosen, *more]
        left_out = left_out + out
    elif config.fragments and not (task.per_word or train.schema.pairs):
        parts = list(fragments(train.texts, config.fragments))
        log(f"{len(parts):,} fragments of labeled texts")
        chosen += parts
    beside = data.columns.beside
    chosen = [text if cells_of(text) else with_missing(text, beside) for text in chosen]
    progress = _progress(len(train) + len(chosen), log)
    answers = collect_predictions(teacher, _texts(train), task, folder=answer_folder, progress=progress)
    answers += collect_predictions(
        teacher, chosen, task, folder=answer_folder, progress=lambda done: progress(len(train) + done)
    )
    if missing := sum(item is None for item in answers[len(train) :]):
        log(f"{missing} unlabeled texts without a prediction of the teacher are left out")
    gold = task.targets(train.targets)
    labeled = [
        _mixed(soften(answer, config.temperature, task), _smoothed(target, smoothing, task), config.gold)
        for answer, target in zip(answers[: len(train)], gold, strict=True)
    ]
    softened = [soften(answer, config.temperature, task) for answer in answers[len(train) :]]
    kept = [i for i, answer in enumerate(softened) if answer is not None]
    examples = Dataset.from_examples(chain(train, (Example(chosen[i], None, "unlabeled", i + 1) for i in kept)))
    rows = np.tile(np.arange(len(train)), config.copies)
    if folder is not None:
        record = {"teacher": config.teacher, "validation": quality, "validation_trained_on": seen}
        record |= {"unlabeled": len(kept), "left_out": left_out}
        write_sealed(folder / "teacher.json", record)
    return DistillationData(
        texts=examples.subset(np.concatenate([rows, np.arange(len(train), len(examples))])),
        targets=[labeled[i] for i in rows] + [answer for answer in softened if answer is not None],
        rows=np.concatenate([rows, np.full(len(kept), -1)]),
    )


def soften(answer: Probabilities, temperature: float, task: Task) -> Probabilities:
    """Raise probabilities to the power of 1 / temperature and renormalize; with independent labels, raise the odds."""
    if answer is None:
        return None
    yes, no = (np.clip(item, _TINY, 1) ** (1 / temperature) for item in (answer.astype(np.float32), 1 - answer))
    if not task.exclusive:
        return (yes / (yes + no)).astype(np.float32)
    known = answer.any(-1, keepdims=True)  # words without a prediction stay all zero
    targets: Probabilities = (known * yes / yes.sum(-1, keepdims=True)).astype(np.float32)
    return targets


def _smoothed(target: npt.NDArray[Any], smoothing: float, task: Task) -> npt.NDArray[np.float32]:
    """Return the target as probabilities, smoothed as by the losses of `mixling.tasks`."""
    if not task.exclusive:
        return (target * (1 - smoothing) + smoothing / 2).astype(np.float32)
    hot = np.eye(len(task.labels), dtype=np.float32)[target]
    smoothed: npt.NDArray[np.float32] = hot * (1 - smoothing) + smoothing / len(task.labels)
    return smoothed


def _mixed(answer: Probabilities, gold: npt.NDArray[np.float32], fraction: float) -> npt.NDArray[np.float32]:
    if answer is None:
        return gold
    if answer.ndim == 1:
        return fraction * gold + (1 - fraction) * answer
    out = gold.copy()  # words that the teacher did not read keep the true tag alone
    read = np.flatnonzero(answer[: len(gold)].any(-1))
    out[read] = fraction * gold[read] + (1 - fraction) * answer[read]
    return out


def _texts(examples: Dataset) -> list[Text]:
    return list(examples.texts)


def _log_quality(answers: list[Probabilities], validation: Dataset, task: Task, log: Log) -> dict[str, float]:
    """Log and return the teacher's metrics on the validation examples."""
    known = [i for i, answer in enumerate(answers) if answer is not None]
    if not known:
        return {}
    logits = [task.scores(answers[i].astype(np.float32), least=_TINY) for i in known]  # type: ignore[union-attr]
    task = task.with_unknown(validation.targets)
    metrics = task.evaluate(logits, task.targets(validation.subset(known).targets), tables=False)
    log(f"teacher: validation {metrics.summary()}")
    return metrics.numbers()


def _progress(total: int, log: Log) -> Callable[[int], None]:
    tenths = 0

    def report(done: int) -> None:
        nonlocal tenths
        if done * 10 // total > tenths:
            tenths = done * 10 // total
            log(f"teacher: {done:,} of {total:,} texts")

    return report


class Member:
    """A `TrainMember` that trains a model like the student on the labeled examples alone.

    Args:
        config: the student's.
        vectors: initial word vectors, as the student's.
        fit: `mixling.runs.training.fit`.
    """

    def __init__(
        self,
        config: RunConfig,
        train: Dataset,
        validation: Dataset,
        vectors: WordVectors | None,
        fit: Callable[..., Run[Metrics] | None],
    ) -> None:
        # Epochs and time budget of the student are for more texts.
        own = {
            "init": config.initialization.to_dict(),
            "distill": None,
            "train": {"epochs": None, "time_budget": None, "seed": 0},
            # The validation examples evaluate the teacher, so that no member may have seen them.
            "ngrams": config.ngrams.to_dict() | {"refit": False, "cross_fit": False},
            # What follows from probabilities is fitted for the student; a member gives its probabilities only.
            "decisions": {"abstain_at": None, "out_of_scope": (), "conformal": None, "label_thresholds": None},
        }
        self._config = config.with_changes(own, where="teacher")
        self._train = train
        self._validation = validation
        self._vectors = vectors
        self._fit = fit
        self._shared = Shared()
        # Files are identified by content, not by path.
        model = config.model
        content = [] if vectors is None else [vectors.vectors.tobytes(), "\n".join(vectors.words).encode()]
        if model.text.vocabulary is not None:
            content.append(json.dumps(Vocabulary.load(model.text.vocabulary).serialize()).encode())
        if model.embedding.embeddings is not None:
            content.append(Path(model.embedding.embeddings).read_bytes())
        kept = self._config.model_dump(mode="json", exclude={"data", "init"})
        self.record = [kept, self._config.init.kind, *(hashlib.sha256(item).hexdigest() for item in content)]

    def __call__(self, seed: int, folder: Path, log: Log) -> None:
        log(f"training on {len(self._train):,} examples")
        config = self._config.with_changes({"train": {"seed": seed}}, where="teacher")
        data = {"vectors": self._vectors, "shared": self._shared}
        run = self._fit(config, self._train, self._validation, folder=folder, **data)
        assert run is not None, "one process"
        log(f"validation {run.metrics.summary()}")
