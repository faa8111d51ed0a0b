"""A process beside the page: trains a model on what has been labeled, tests it, and chooses what to label next."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mixling.errors import Interrupted, UserError
from mixling.labeling.lines import canonical
from mixling.labeling.texts import LabelValue, example_of, value_of
from mixling.text.encoder import Text
from mixling.workers import Worker, WorkerEnded, begin_as_worker, end_workers

FIRST_TRAINING = 12  # answers before the first training
_SHARE = 0.05  # of the answers: as many more before the next one
_POOL = 3000  # texts without a label that are considered
_CHOSEN = 60
_STOP_SET = 1000  # texts whose answers are compared from model to model
_OLDER = 2 / 3  # of the answers; a model of as many is compared with
_SETTLED = 0.02  # of the texts of the stop set get other answers: more labels will help little
_FOLDS = 3  # of the search for wrong labels
_ENOUGH = 100  # answers, before that is said
_PATIENCE = 5.0  # seconds for a training to end


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is to be learned; texts are numbers in their order.

    Attributes:
        said: of the texts to train on.
        tests: of the texts to test on.
        pool: texts without labels, in a random order.
        guessed: further texts whose answers are wanted.
        review: look for labels that are wrong.
    """

    said: Mapping[int, LabelValue]
    tests: Mapping[int, LabelValue]
    pool: Sequence[int]
    guessed: Sequence[int] = ()
    strategy: str = "suggest"
    review: bool = False


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What has been learned.

    Attributes:
        labels: how many texts the model has learned.
        right, of: tests that it answers just as people did, of all.
        baseline: tests for which the most frequent answer is right.
        chosen: texts to label next, the best first.
        guesses: the model's answers, by text.
        contradicted: labeled texts that audit takes for errors, the likeliest first; None: it was not asked.
        changed: the share of other texts that a model of fewer answers, `since`, answers otherwise; None: not known.
        problem: why there is no model; "": there is one.
    """

    labels: int = 0
    right: int = 0
    of: int = 0
    baseline: int = 0
    chosen: Sequence[int] = ()
    guesses: Mapping[int, LabelValue] = field(default_factory=dict)
    contradicted: Sequence[int] | None = None
    changed: float | None = None
    since: int = 0
    problem: str = ""

    @property
    def is_stable(self) -> bool:
        """Whether more labels will help little (Bloodgood and Vijay-Shanker, CoNLL 2009: stabilized predictions)."""
        return self.labels >= _ENOUGH and self.changed is not None and self.changed <= _SETTLED


class Pupil:
    """The process that learns; `Learned` come to a function, in another thread."""

    def __init__(self, texts: Sequence[Text], task: str, report: Callable[[Learned], object]) -> None:
        self._report = report
        self._worker = Worker(_work)
        self._texts = texts
        self._task = task
        self._next: Lesson | None = None
        self._asked = threading.Event()
        self._ending = False
        self.busy = False
        self._learned = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wants(self, answers: int) -> bool:
        """Whether there are enough new answers for another training."""
        return not self.busy and answers >= max(FIRST_TRAINING, self._learned + max(4, round(_SHARE * self._learned)))

    def learn(self, lesson: Lesson, answers: int) -> None:
        """Begin a training, after this number of answers."""
        self.busy = True
        self._learned = answers
        self._next = lesson
        self._asked.set()

    def close(self) -> None:
        """End the process; the thread closes the connection, which it may be reading."""
        self._ending = True
        self._asked.set()
        self._worker.process.terminate()
        self._thread.join(_PATIENCE)
        self._worker.process.kill()
        self._thread.join()

    def _run(self) -> None:
        self._worker.send((self._texts, self._task))
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._ending:
                end_workers([self._worker])
                return
            self._worker.send(self._next)
            try:
                found = self._worker.receive()
            except WorkerEnded:
                if self._ending:
                    return
                found = Learned(problem=f"the training {self._worker.how_it_ended('label fewer texts at a time')}")
                self._worker = Worker(_work)  # for the next answers
                self._worker.send((self._texts, self._task))
            self.busy = False
            self._report(found)


def _work(connection: Connection) -> None:
    """Be the process."""
    begin_as_worker()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)  # the page, and whatever else runs, comes first
    from mixling.training.interrupts import Terminated, terminations

    texts, task = connection.recv()
    earlier: list[tuple[int, list[str]]] = []
    # The end comes as a signal, and as an exception removes the folder of a training.
    with contextlib.suppress(EOFError, OSError, Interrupted, Terminated), terminations():
        while True:
            lesson = connection.recv()
            try:
                found = learn(texts, task, lesson, earlier)
            except (UserError, OSError) as error:  # such as a full disk
                found = Learned(problem=str(error))
            connection.send(found)


def learn(texts: Sequence[Text], task: str, lesson: Lesson, earlier: list[tuple[int, list[str]]]) -> Learned:
    """Train a model with the default recipe, test it, and choose texts.

    Args:
        earlier: how many texts earlier models had learned, and the form of their answers to the same texts; this one's
            are added.

    Raises:
        UserError: it cannot be trained, as when all labels are equal.
    """
    predictor = trained([example_of(texts[index], value, task) for index, value in lesson.said.items()], task)

    def answers(indices: Sequence[int]) -> list[LabelValue]:
        found = predictor.predict_stream(map(texts.__getitem__, indices))
        if task == "classification":
            return [one.label for one in found]
        return [value_of(one.labels if task == "multi_label" else one.tags, tags=task == "tagging") for one in found]

    most = Counter(map(canonical, lesson.said.values())).most_common(1)[0][0]
    truth = [*map(canonical, lesson.tests.values())]
    right = sum(map(operator.eq, map(canonical, answers([*lesson.tests])), truth))
    baseline = truth.count(most)
    pool = lesson.pool[:_POOL]
    # Doubts of a model teach as far as it is better than the baseline; with one right and one wrong answer more.
    skill = max(0.0, (right - baseline + 1) / (len(truth) - baseline + 2))
    best = _chosen(predictor, texts, pool, task, lesson.strategy)
    counts = [math.ceil(number * skill) for number in range(len(best) + 1)]
    doubted = set(best[: counts[-1]])
    others = (index for index in pool if index not in doubted)
    chosen = [best[before] if after > before else next(others) for before, after in pairwise(counts)]
    stop_set = range(0, len(texts), max(1, len(texts) // _STOP_SET))
    now = [canonical(value) for value in answers(stop_set)]
    older = next((item for item in reversed(earlier) if item[0] <= _OLDER * len(lesson.said)), None)
    changed = None if older is None else sum(map(operator.ne, now, older[1])) / len(now)
    earlier.append((len(lesson.said), now))
    wanted = [*chosen, *lesson.guessed]
    return Learned(
        labels=len(lesson.said),
        right=right,
        of=len(lesson.tests),
        baseline=baseline,
        chosen=chosen,
        contradicted=_contradicted(texts, {**lesson.said, **lesson.tests}, task) if lesson.review else None,
        guesses=dict(zip(wanted, answers(wanted), strict=True)),
        changed=changed,
        since=0 if older is None else older[0],
    )


def trained(examples: Sequence[tuple[Any, Any]], task: str) -> Any:
    """Return a predictor of the default recipe's model for examples.

    Raises:
        UserError: it cannot be trained.
    """
    from mixling.data.splits import split_validation
    from mixling.runs.resolve.spec import LABELS, resolve
    from mixling.runs.training import fit
    from mixling.runtime.predictor import Predictor

    train, validation = split_validation(_dataset(examples), fraction=0.1, seed=0)
    overrides = {"decisions": {"precision": "float32"}, "ngrams": {"refit": True}}
    resolved = resolve({"task": task, "train": {"seed": 0}}, spec=LABELS, overrides=overrides).for_examples(train)
    with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
        fit(resolved.config, train, validation, folder=Path(folder) / "run")
        return Predictor(Path(folder) / "run", num_threads=1)


def _chosen(predictor: Any, texts: Sequence[Text], pool: Sequence[int], task: str, strategy: str) -> list[int]:
    if strategy == "random" or not pool:
        return list(pool[:_CHOSEN])
    contents = [texts[index] for index in pool]
    if task == "tagging":  # the most uncertain span decides; texts without a span are as sure as their words
        predictions = predictor.predict_stream(contents)
        sure = [min((span.score for span in one.spans), default=1.0) for one in predictions]
        return [index for _, index in sorted(zip(sure, pool, strict=True))[:_CHOSEN]]
    from mixling.audit.suggestions import suggest

    found = suggest(predictor, contents, _CHOSEN, spread=strategy == "suggest")
    return [pool[item.index] for item in found]


def _contradicted(texts: Sequence[Text], said: Mapping[int, LabelValue], task: str) -> list[int]:
    """Return the texts whose labels are likely errors, which models of the others' labels show (`mixling audit`)."""
    from mixling.audit.audit import audit

    numbers = list(said)
    rows = _dataset([example_of(texts[number], said[number], task) for number in numbers])
    try:
        found = audit(rows, task=task, folds=_FOLDS).findings()
    except UserError:  # there are too few labels
        return []
    return list(dict.fromkeys(numbers[finding.example] for finding in found))


def _dataset(examples: Sequence[tuple[Any, Any]]) -> Any:
    from mixling.data.dataset import Dataset
    from mixling.data.examples import Example

    numbered = enumerate(examples, 1)
    return Dataset.from_examples(Example(text, target, "labels", row) for row, (text, target) in numbered)
