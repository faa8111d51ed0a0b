"""What a student learns from: the labeled rows and unlabeled text, beside what a teacher says of them.

Source: Hinton, Vinyals and Dean 2015 (soft targets, temperature); text of the task's kind that nobody labeled as in
Jiao et al. 2020. Decided here: only the teacher's probabilities are softened, the student is trained as it is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixling.config import merge, parse
from mixling.data.dataset import Dataset
from mixling.data.examples import DataConfig, Example
from mixling.data.unlabeled import choose_texts, read_unlabeled
from mixling.metrics.base import Metrics
from mixling.runs.config import RunConfig
from mixling.runs.run import Run
from mixling.runs.teacher import DistillConfig, Log, TrainMember, open_teacher
from mixling.storage import write_sealed
from mixling.tasks.base import Task
from mixling.teachers.answers import collect_answers
from mixling.teachers.base import Answer, Teacher
from mixling.teachers.saved import FileTeacher
from mixling.text.encoder import Text
from mixling.text.vectors import WordVectors
from mixling.text.vocabulary import Vocabulary

_TINY = 1e-6  # beside which a probability of a 16-bit answer is nothing


@dataclass(frozen=True, kw_only=True)
class DistillationData:
    """texts: the labeled rows, `copies` times, and the unlabeled texts. targets: float32 (C,), of words (W, C).

    rows: of each text the labeled row, or -1.
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
    train_member: TrainMember | None = None,
    log: Log = lambda message: None,
) -> DistillationData:
    """Label the texts and put them together.

    Args:
        smoothing: label smoothing of the true labels.
        folder: keeps a teacher that is fine-tuned here, and the answers; None: nowhere.
        teacher, unlabeled: objects of the caller's instead of, and beside, those that the configuration names.
        train_member: trains a model like the student with a seed, into a folder, for the teacher "self".

    Raises:
        ConfigError: no teacher is of that name.
        DataError: rows that cannot be used, or answers that are none.
    """
    if teacher is None:
        teacher = open_teacher(
            config, train, validation, task,
            columns=data.columns, seed=seed, folder=folder, train_member=train_member, log=log,
        )  # fmt: skip
    answer_folder = None if folder is None else folder / "answers"
    of_validation = collect_answers(teacher, _texts(validation), task, folder=answer_folder)
    quality = _log_quality(of_validation, validation, task, log)
    read = functools.partial(read_unlabeled, reader=task.reader, columns=data.columns, on_bad_row=data.on_bad_row)
    evaluated = [*_texts(validation), *read(config.test)]
    given = chain(read(config.unlabeled), unlabeled)
    # Students of all seeds learn from the same answers: the draw does not depend on the run's.
    chosen, left_out = choose_texts(given, train, evaluated, subwords=config.subwords, limit=config.limit, log=log)
    if isinstance(teacher, FileTeacher):  # which speaks of whole texts
        of_file, more = choose_texts(
            teacher.texts(), train, evaluated, subwords="documents", limit=config.limit, log=log
        )
        chosen, left_out = [*chosen, *of_file], left_out + more
    texts = [*_texts(train), *chosen]
    reported = _progress(len(texts), log)
    answers = collect_answers(teacher, texts[: len(train)], task, folder=answer_folder, progress=reported)
    answers += collect_answers(
        teacher, chosen, task, folder=answer_folder, progress=lambda done: reported(len(train) + done)
    )
    if missing := sum(item is None for item in answers[len(train) :]):
        log(f"{missing} unlabeled texts have no answer of the teacher and are left out")
    gold = task.targets(train.targets)
    of_rows = [
        _mixed(soften(answer, config.temperature, task), _smoothed(target, smoothing, task), config.gold)
        for answer, target in zip(answers[: len(train)], gold, strict=True)
    ]
    learnt = [i for i in range(len(train), len(texts)) if answers[i] is not None]
    store = Dataset.from_examples(
        chain(train, (Example(texts[i], None, "unlabeled", i - len(train) + 1) for i in learnt))
    )
    rows = np.tile(np.arange(len(train)), config.copies)
    order = np.concatenate([rows, np.arange(len(train), len(train) + len(learnt))])
    softened = [soften(answers[i], config.temperature, task) for i in learnt]
    if folder is not None:
        record = {"teacher": config.teacher, "validation": quality, "unlabeled": len(learnt), "left_out": left_out}
        write_sealed(folder / "teacher.json", record)
    return DistillationData(
        texts=store.subset(order),
        targets=[of_rows[i] for i in rows] + [item for item in softened if item is not None],
        rows=np.concatenate([rows, np.full(len(learnt), -1)]),
    )


def soften(answer: Answer, temperature: float, task: Task) -> Answer:
    """Probabilities to the power of 1 / temperature, of sum 1 again; of several labels the odds to that power."""
    if answer is None:
        return None
    yes, no = (np.clip(item, _TINY, 1) ** (1 / temperature) for item in (answer.astype(np.float32), 1 - answer))
    if not task.exclusive:
        return (yes / (yes + no)).astype(np.float32)
    known = answer.any(-1, keepdims=True)  # of a word of which nothing is said all stays zero
    return (known * yes / yes.sum(-1, keepdims=True)).astype(np.float32)


def _smoothed(target: npt.NDArray, smoothing: float, task: Task) -> npt.NDArray[np.float32]:
    """The target as probabilities, as the losses of `mixling.tasks` smooth it."""
    if not task.exclusive:
        return (target * (1 - smoothing) + smoothing / 2).astype(np.float32)
    hot = np.eye(len(task.labels), dtype=np.float32)[target]
    return hot * (1 - smoothing) + smoothing / len(task.labels)


def _mixed(answer: Answer, gold: npt.NDArray[np.float32], fraction: float) -> npt.NDArray[np.float32]:
    if answer is None:
        return gold
    if answer.ndim == 1:
        return fraction * gold + (1 - fraction) * answer
    out = gold.copy()  # of a tagger: words that the teacher did not read have the true tag alone
    outputs = np.flatnonzero(answer[: len(gold)].any(-1))
    out[outputs] = fraction * gold[outputs] + (1 - fraction) * answer[outputs]
    return out


def _texts(store: Dataset) -> list[Text]:
    return list(store.texts)


def _log_quality(answers: list[Answer], validation: Dataset, task: Task, log: Log) -> dict[str, float]:
    """What the teacher is worth on validation."""
    known = [i for i, answer in enumerate(answers) if answer is not None]
    if not known:
        return {}
    logits = [task.scores(answers[i].astype(np.float32), least=_TINY) for i in known]  # type: ignore[union-attr]
    metrics = task.evaluate(logits, task.targets(validation.subset(known).targets), tables=False)
    log(f"teacher: validation {metrics.summary()}")
    return metrics.numbers()


def _progress(total: int, log: Log) -> Callable[[int], None]:
    tenths = 0

    def reported(done: int) -> None:
        nonlocal tenths
        if done * 10 // total > tenths:
            tenths = done * 10 // total
            log(f"teacher: {done:,} of {total:,} texts")

    return reported


class Member:
    """Trains a model like the student on the labeled examples alone.

    Args:
        config: of the student.
        fit: `mixling.runs.training.fit`.
    """

    def __init__(
        self,
        config: RunConfig,
        train: Dataset,
        validation: Dataset,
        vectors: WordVectors | None,
        fit: Callable[..., Run[Metrics] | None],
        log: Log,
    ) -> None:
        # The student's epochs and budget are of other rows.
        own = {
            "start": config.initialisation.to_dict(),
            "distill": None,
            "train": {"epochs": None, "time_budget": None},
            "ngrams": {"use": "never"},  # a branch has seen the validation rows, which measure a teacher
        }
        self._config = parse(RunConfig, merge(config.to_dict(), own), where="teacher")
        self._train, self._validation, self._vectors, self._fit, self._log = train, validation, vectors, fit, log
        # Of files what is in them, not where they lie.
        model = config.model
        content = [] if vectors is None else [vectors.vectors.tobytes(), "\n".join(vectors.words).encode()]
        if model.text.vocabulary is not None:
            content.append(json.dumps(Vocabulary.load(model.text.vocabulary).serialize()).encode())
        if model.embedding.embeddings is not None:
            content.append(Path(model.embedding.embeddings).read_bytes())
        kept = self._config.model_dump(mode="json", exclude={"data", "start"})
        self.record = [kept, self._config.start.kind, *(hashlib.sha256(item).hexdigest() for item in content)]

    def __call__(self, seed: int, folder: Path) -> None:
        """As `TrainMember`."""
        config = parse(RunConfig, merge(self._config.to_dict(), {"train": {"seed": seed}}), where="teacher")
        run = self._fit(config, self._train, self._validation, folder=folder, vectors=self._vectors)
        assert run is not None, "one process"
        self._log(f"teacher: its validation {run.metrics.summary()}")
