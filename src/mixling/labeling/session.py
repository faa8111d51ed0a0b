"""What a page sees and does: texts, answers, labels, and the model beside it; without HTTP."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from mixling.errors import DataError, StorageError
from mixling.labeling.agreement import agreement_of
from mixling.labeling.exports import EXPORTS, exported
from mixling.labeling.learner import FIRST_TRAINING, Learned, Lesson, Pupil
from mixling.labeling.lines import VALUES, RecordLine, labels_in_value
from mixling.labeling.queue import Queue, is_test
from mixling.labeling.record import Record
from mixling.labeling.texts import FileTexts, LabeledText, LabelValue
from mixling.metrics.intervals import wilson

_LOG = logging.getLogger("mixling.labeling")
_GUESSED = 20  # tests whose guesses are made with the model
_LISTED = 200  # texts of a list
_HISTORY = 50  # lines that a page can take back
LISTS = ("answered", "unsure", "notes", "disagreements", "contradicted")


class LabelingSession:
    """The labeling of a file.

    Args:
        strategy: how the next texts are chosen, one of `STRATEGIES`.
        call: calls a function in the thread that the other calls come from.
        learn: whether a model is trained meanwhile.
    """

    def __init__(
        self,
        texts: FileTexts,
        record: Record,
        queue: Queue,
        *,
        strategy: str,
        call: Callable[[Callable[[], None]], object],
        learn: bool = True,
    ) -> None:
        self.texts = texts
        self.record = record
        self.queue = queue
        self._strategy = strategy
        self._exports = [
            {"name": name, "suffix": one.suffix}
            for name, one in EXPORTS.items()
            if one.suffix and texts.task in one.tasks
        ]
        self._keys = list(texts.by_key)
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        self._lessons = Learned()
        self._guesses: dict[str, LabelValue] = {}
        self._given = {key: text.given for key, text in texts.by_key.items() if text.given is not None}
        self._given_counts = Counter(label for value in self._given.values() for label in labels_in_value(value))
        self._contradicted: list[str] = []
        self._review = False  # whether one is asked for
        self._reviewing = False
        self._pupil: Pupil | None = None
        if learn:
            contents = [text.text for text in texts.by_key.values()]
            self._pupil = Pupil(contents, texts.task, lambda found: call(lambda: self._take(found)))
            self._learn()

    def close(self) -> None:
        """End the training."""
        if self._pupil is not None:
            self._pupil.close()

    # The model.

    def _learn(self) -> None:
        """Begin a training if there are enough new answers, or a review is asked for."""
        answered = self._answered()
        if self._pupil is None or not (self._pupil.wants(answered) or (self._review and not self._pupil.busy)):
            return
        said = {self._numbers[key]: value for key, value in self._given.items()}
        tests: dict[int, LabelValue] = {}
        for key in self.record.texts():
            if (value := self.record.answer(key)) is not None and key in self._numbers:
                (tests if is_test(key) and key not in self._given else said)[self._numbers[key]] = value
        if len(said) < FIRST_TRAINING // 2 or (self.texts.task == "classification" and len(set(said.values())) < 2):
            return
        pool = [self._numbers[key] for key in self.queue.others if self._numbers[key] not in said]
        guessed = [self._numbers[key] for key in self.queue.upcoming_tests(_GUESSED)]
        lesson = Lesson(
            said=said, tests=tests, pool=pool, guessed=guessed, strategy=self._strategy, review=self._review
        )
        self._pupil.learn(lesson, answered)
        self._reviewing, self._review = self._review, False

    def review(self) -> None:
        """Look for labels that are likely wrong; the list `contradicted` has them later."""
        self._review = True
        self._learn()

    def _answered(self) -> int:
        return len(self._given) + sum(self.record.answer(key) is not None for key in self.record.texts())

    def _take(self, lessons: Learned) -> None:
        """Take what was learned."""
        self._lessons = lessons
        self._reviewing = False
        if lessons.problem:
            _LOG.warning("no model: %s", lessons.problem)
            return
        self.queue.chosen = [self._keys[number] for number in lessons.chosen]
        self._guesses = {self._keys[number]: value for number, value in lessons.guesses.items()}
        if lessons.contradicted is not None:
            self._contradicted = [self._keys[number] for number in lessons.contradicted]
        line = {"what": "model", "labels": lessons.labels, "right": lessons.right, "of": lessons.of}
        try:
            self.record.append({**line, "baseline": lessons.baseline})
        except StorageError as error:
            _LOG.warning("%s", error)
        self._learn()

    # What pages see.

    def state(self, annotator: str) -> dict[str, Any]:
        """Return the state of all texts together: labels, progress, the model's curve."""
        record = self.record
        counts = self._given_counts.copy()
        mine: Counter[str] = Counter()
        answered = 0
        for key in record.texts():
            if (value := record.answer(key)) is not None:
                answered += 1
                counts.update(labels_in_value(value))
                counts.subtract(labels_in_value(self._given.get(key, [])))
            if (last := record.last(key, annotator)) is not None:
                mine[last["what"]] += 1
        lessons = self._lessons
        return {
            "file": self.texts.path.name,
            "task": self.texts.task,
            "labels": [{"name": label, "count": counts[label]} for label in record.labels],
            "texts": len(self.texts.by_key),
            "given": len(self._given),
            "mine": dict(mine),
            "answered": answered,
            "points": [*map(point_of, record.models)],
            "training": self._pupil is not None and self._pupil.busy,
            "reviewing": self._review or self._reviewing,
            "problem": lessons.problem,
            "changed": lessons.changed,
            "since": lessons.since,
            "learned": lessons.labels,
            "settled": lessons.is_stable,
            "agreement": self._agreement(),
            "bias": self._bias(),
            "exports": self._exports,
            "history": record.history(annotator, _HISTORY),
        }

    def _bias(self) -> dict[str, list[int]]:
        """Return how many answers to random texts equal the model's guess, and of how many: if shown, and if not."""
        counts = {"guess": [0, 0], "hidden_guess": [0, 0]}
        for line in self.record.given():
            for name in counts.keys() & line.keys():
                if is_test(line["text"]):
                    counts[name][0] += _form(line[VALUES[self.texts.task]]) == _form(line[name])
                    counts[name][1] += 1
        return counts

    def _agreement(self) -> dict[str, Any] | None:
        shared = [answers for key in self.record.texts() if len(answers := self.record.answers(key)) > 1]
        if not shared:
            return None
        found = agreement_of(shared)
        kappas = [{"of": list(names), "kappa": kappa} for names, kappa in found.kappas.items()]
        differing, undecided = (sum(1 for _ in self.record.differing(undecided=only)) for only in (False, True))
        counts = {"differing": differing, "undecided": undecided}
        return {"texts": found.texts, "alpha": found.alpha, "kappas": kappas, **counts}

    def text(self, key: str, annotator: str | None) -> dict[str, Any]:
        """Return a text as a page shows it.

        Args:
            annotator: whose last answer it has; None: the decision, and the answers of all.

        Raises:
            DataError: there is none with this fingerprint.
        """
        text = self._text(key)
        last = self.record.last(key, annotator)
        answers = {"answers": self.record.answers(key)} if annotator is None else {}
        shown = {"pieces": text.parts} if self.texts.task == "tagging" else {"text": text.text}
        return {
            "key": key,
            "row": text.row,
            **shown,
            "test": is_test(key),
            "given": text.given,
            "last": last,
            "note": "" if annotator is None else self.record.notes.get((key, annotator), ""),
            "guess": self._guesses.get(key),
            **answers,
        }

    def _text(self, key: Any) -> LabeledText:
        if not isinstance(key, str) or key not in self.texts.by_key:
            raise DataError(f"the file has no text with the fingerprint {str(key)[:40]}")
        return self.texts.by_key[key]

    def next(self, page: str, annotator: str, count: int, holding: Iterable[str]) -> list[dict[str, Any]]:
        """Return the next texts for a page."""
        return [self.text(key, annotator) for key in self.queue.next(page, annotator, count, holding=holding)]

    def undecided(self, count: int, without: Iterable[str]) -> list[dict[str, Any]]:
        """Return texts that annotators answered differently, for somebody who decides."""
        left_out = set(without)
        keys = (key for key in self.record.differing(undecided=True) if key not in left_out)
        return [self.text(key, None) for key in islice(keys, count)]

    def list(self, kind: str, annotator: str) -> list[dict[str, Any]]:
        """Return texts to look at again: the first 200 of a kind of `LISTS`.

        `contradicted` are the likely errors of audit: models that did not learn the labels of these texts give others.
        """
        record = self.record
        keys: Iterable[str]
        if kind == "disagreements":
            keys = record.differing()
        elif kind == "notes":
            keys = (key for key, name in record.notes if record.notes[key, name])
        elif kind == "contradicted":
            keys = self._contradicted
        else:
            what = {"answered": "answer", "unsure": "unsure"}[kind]
            lines = record.history(annotator, len(record))
            keys = dict.fromkeys(line["text"] for line in lines if line["what"] == what)
            keys = (key for key in keys if (last := record.last(key, annotator)) and last["what"] == what)
        return [self.text(key, annotator) | {"answers": record.answers(key)} for key in islice(keys, _LISTED)]

    # What pages do.

    def save(self, line: RecordLine) -> RecordLine | None:
        """Add a line of a page to the record; return another answer that came between what it saw and its own.

        Raises:
            DataError: it is no line of this file.
            StorageError: it could not be written.
        """
        seen = line.pop("seen", None)
        between = None
        if "text" in line:
            text = self._text(line["text"])
            line["row"] = text.row
            if self.texts.task == "tagging":
                self._check_spans(line, len(text.parts) // 2)
            decides = line.get("what") == "decide"
            last = self.record.last(line["text"], None if decides else str(line.get("annotator")))
            if seen is not None and last is not None and last["id"] not in (seen, line.get("id")):
                between = last
        if not self.record.append(line):
            return None
        if line["what"] in ("answer", "decide", "undo", "rename"):
            self._learn()
        return between

    def _check_spans(self, line: RecordLine, words: int) -> None:
        spans = line.get("spans")
        if isinstance(spans, list) and any(isinstance(one, list) and len(one) > 1 and one[1] > words for one in spans):
            raise DataError(f"a span ends behind the last of the {words} words")

    def export(self, form: str, *, agreed: bool) -> bytes:
        """Return the rows that have labels in a format of `EXPORTS` that is one file.

        Args:
            agreed: without texts on which annotators differ and nobody decided.

        Raises:
            UserError: the format cannot hold them.
        """
        return b"".join(exported(self.texts, self.record.values(self.texts, agreed=agreed), form))


def _form(value: Any) -> Any:
    """Return a value without its order, or whatever else a page sent."""
    return sorted(map(str, value)) if isinstance(value, list) else value


def point_of(line: RecordLine) -> dict[str, Any]:
    """Return how many tests a model answered right, with the interval."""
    point = {key: line[key] for key in ("labels", "right", "of", "baseline")}
    if not line["of"]:
        return {**point, "low": 0.0, "high": 1.0}
    interval = wilson(line["right"] / line["of"], line["of"])
    return {**point, "low": interval.low, "high": interval.high}
