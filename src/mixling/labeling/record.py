"""The file that keeps each answer: lines of JSON that are only ever added, and what they say together."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mixling.errors import ConfigError, DataError, StorageError, shown
from mixling.folders import open_no_link, sync_folder
from mixling.labeling.lines import (
    ABOUT_TEXTS,
    VALUES,
    RecordLine,
    canonical,
    content_of,
    labels_in_value,
    line_problem,
)
from mixling.labeling.texts import FileTexts, LabelValue
from mixling.opening import read_regular
from mixling.storage import MAX_JSON, parse_json


class Record:
    """The answers of a file, beside it in FILE.labels.jsonl: whole lines are added, which are on disk at once.

    A line has `what`: answer, decide, skip, unsure or note (of the text with the fingerprint `text`, first in row
    `row`), undo (of the line with the id `of`), add (a label), rename (a label; to one that there is: both become one),
    task (the first line) or model (how many texts a model answered right). Lines of people have an `id`, `annotator`
    and `time`. The last answer of an annotator to a text counts, and before all answers the last decision of anyone.

    Attributes:
        labels: that can be given, in their order.
        torn: what was dropped of the last line, which was not written to its end.
        models: the lines of models.
        notes: by text and annotator.
    """

    def __init__(self, path: Path, task: str | None, labels: list[str]) -> None:
        self.path = path
        self.torn = ""
        self._initial = list(labels)
        self._lines: list[RecordLine] = []
        self._undone: set[str] = set()
        self._file = -1
        self._lock: Any = None
        self.task = task
        self._clear()

    def __enter__(self) -> Self:
        """Lock the file, and read it.

        Raises:
            StorageError: another process has it, or it cannot be written.
            DataError: a line is not of this file.
            ConfigError: it is of another task.
        """
        from filelock import FileLock, Timeout

        self._lock = FileLock(f"{self.path}.lock", is_singleton=False)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise StorageError(f"{self.path}: another process is writing to it; use its page, or stop it") from None
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close and unlock the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock.release()

    def _open(self) -> None:
        try:
            is_new = not os.path.lexists(self.path)
            self._file = open_no_link(str(self.path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
            content = read_regular(self.path, MAX_JSON)
            if is_new:
                sync_folder(self.path.parent)
            whole = self._read(content)
            if whole < len(content):
                os.ftruncate(self._file, whole)
            elif content and not content.endswith(b"\n"):
                self._write(b"\n")
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        first = next((line["task"] for line in self._lines if line["what"] == "task"), None)
        if first is not None and self.task not in (None, first):
            raise ConfigError(
                f"{self.path}: has answers for --task {first}, not {self.task}; move it away to begin anew"
            )
        self.task = first or self.task

    def begin(self, texts: FileTexts) -> None:
        """Take the task and the labels of a file, before answers add some."""
        self.task = texts.task
        for text in texts.by_key.values():
            for label in () if text.given is None else labels_in_value(text.given):
                if label not in self._initial:
                    self._initial.append(label)
        self._replay()

    def _replay(self) -> None:
        self._clear()
        for line in self._lines:
            self._apply(line)

    def _read(self, content: bytes) -> int:
        """Read the lines; return where the last whole one ends."""
        end = 0
        *lines, last = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            end += len(line) + 1
            if line.strip():
                self._take(self._parsed(line, number))
        if not last.strip():
            return end
        try:
            parse_json(last)
        except ValueError:
            self.torn = last.decode(errors="replace")
            return end
        self._take(self._parsed(last, len(lines) + 1))
        return len(content)

    def _parsed(self, line: bytes, number: int) -> RecordLine:
        try:
            value = parse_json(line)
        except ValueError as error:
            raise DataError(f"is no line of a record of labels: {error}", path=self.path, line=number) from None
        if problem := line_problem(value):
            raise DataError(f"is no line of a record of labels: {problem}", path=self.path, line=number)
        return value  # type: ignore[no-any-return]

    # What the lines say together.

    def _clear(self) -> None:
        self.labels = list(self._initial)
        self.models: list[RecordLine] = []
        self.notes: dict[tuple[str, str], str] = {}
        self._renamed: dict[str, str] = {}
        # By text and annotator, the last line last; decisions are None's.
        self._said: dict[str, dict[str | None, list[RecordLine]]] = defaultdict(dict)
        self._ids: set[str] = set()

    def _take(self, line: RecordLine) -> None:
        self._lines.append(line)
        self._apply(line)

    def _apply(self, line: RecordLine) -> None:
        what = line["what"]
        if "id" in line:
            self._ids.add(line["id"])
        if line.get("id") in self._undone:
            return
        if what == "note":
            self.notes[line["text"], line["annotator"]] = line["note"]
        elif what in ABOUT_TEXTS:
            line = self._now_called(line)
            self._said[line["text"]].setdefault(_owner(line), []).append(line)
            for label in labels_in_value(line.get(VALUES.get(self.task or "", ""), [])):
                if label not in self.labels:
                    self.labels.append(label)
        elif what == "add":
            self.add(line["label"])
        elif what == "rename":
            self._rename(self.called(line["label"]), line["to"])
        elif what == "model":
            self.models.append(line)
        elif what == "undo":
            self._undo(line["of"])

    def _undo(self, identifier: str) -> None:
        if identifier in self._undone:  # while all lines are applied again
            return
        self._undone.add(identifier)
        line = next((line for line in reversed(self._lines) if line.get("id") == identifier), None)
        if line is not None and line["what"] in ABOUT_TEXTS and line["what"] != "note":
            lines = self._said[line["text"]][_owner(line)]
            lines[:] = [other for other in lines if other["id"] != identifier]
        elif line is not None:  # what labels are called since then has changed
            self._replay()

    def add(self, label: str) -> None:
        """Add a label that can be given."""
        self._renamed.pop(label, None)
        if label not in self.labels:
            self.labels.append(label)

    def _rename(self, old: str, new: str) -> None:
        if old == new:
            return
        self._renamed.pop(new, None)
        self._renamed[old] = new
        if new in self.labels:
            self.labels = [label for label in self.labels if label != old]
        else:
            self.labels = [new if label == old else label for label in self.labels]
        for lines in self._said.values():
            for of_one in lines.values():
                of_one[:] = map(self._now_called, of_one)

    def called(self, label: str) -> str:
        """Return what a label is called now."""
        while label in self._renamed:
            label = self._renamed[label]
        return label

    def value_called(self, value: LabelValue) -> LabelValue:
        """Return the value of an answer with the labels as they are called now."""
        if isinstance(value, str):
            return self.called(value)
        named = [self.called(item) if isinstance(item, str) else [*item[:2], self.called(item[2])] for item in value]
        return [item for number, item in enumerate(named) if item not in named[:number]]

    def _now_called(self, line: RecordLine) -> RecordLine:
        key = next((key for key in VALUES.values() if key in line), None)
        return line if key is None else {**line, key: self.value_called(line[key])}

    def last(self, text: str, annotator: str | None) -> RecordLine | None:
        """Return the line of an annotator's last answer to a text, which may be that they skip it; None: a decision."""
        lines = self._said.get(text, {}).get(annotator)
        return lines[-1] if lines else None

    def answers(self, text: str) -> dict[str, LabelValue]:
        """Return the values of the annotators' answers that count."""
        key = VALUES[self.task or ""]
        last = {name: lines[-1] for name, lines in self._said.get(text, {}).items() if lines and name is not None}
        return {name: line[key] for name, line in last.items() if line["what"] == "answer"}

    def answer(self, text: str) -> LabelValue | None:
        """Return what was decided of a text, else what most annotators say; of as many, the earliest.

        Returns:
            The value; None: there is none.
        """
        if (decision := self.last(text, None)) is not None:
            return decision[VALUES[self.task or ""]]
        values = list(self.answers(text).values())
        forms = [*map(canonical, values)]
        return values[forms.index(max(forms, key=forms.count))] if values else None

    def values(self, texts: FileTexts, *, agreed: bool = False) -> dict[str, LabelValue]:
        """Return the values of all texts that have one: the answer, or what the file says.

        Args:
            agreed: without the texts on which annotators differ and nobody decided.
        """
        left_out = frozenset(self.differing(undecided=True) if agreed else ())
        out = {}
        for key, text in texts.by_key.items():
            value = self.answer(key)
            value = text.given if value is None else value
            if value is not None and key not in left_out:
                out[key] = value
        return out

    def differing(self, *, undecided: bool = False) -> Iterator[str]:
        """Yield the fingerprints of the texts that annotators answered differently.

        Args:
            undecided: without the texts that somebody decided.
        """
        for text in self._said:
            if len(set(map(canonical, self.answers(text).values()))) > 1 and not (undecided and self.last(text, None)):
                yield text

    def texts(self) -> Iterator[str]:
        """Yield the fingerprints of the texts that were answered or skipped."""
        return (text for text, lines in self._said.items() if any(lines.values()))

    def given(self) -> Iterator[RecordLine]:
        """Yield the lines of answers that are not undone, as they were given."""
        return (line for line in self._lines if line["what"] == "answer" and line["id"] not in self._undone)

    def history(self, annotator: str, number: int) -> list[RecordLine]:
        """Return the last lines of an annotator that are not undone, the last one first."""
        mine = (line for line in reversed(self._lines) if line.get("annotator") == annotator and line["what"] != "undo")
        return list(islice((line for line in mine if line["id"] not in self._undone), number))

    def __len__(self) -> int:
        return len(self._lines)

    # Writing.

    def append(self, line: RecordLine) -> bool:
        """Add a line; return False if it is there already, as when a page did not hear that it was written.

        Raises:
            DataError: it is no line of this file.
            StorageError: it cannot be written; the file is as before.
        """
        if problem := line_problem(line, self.task):
            raise DataError(problem)
        if line.get("id") in self._ids:
            return False
        if line["what"] == "undo" and line["of"] not in self._ids:
            raise DataError(f"there is no answer {shown(line['of'])} that could be undone")
        if not any(old["what"] == "task" for old in self._lines):
            first = {"what": "task", "task": self.task}
            self._write(content_of(first))
            self._take(first)
        self._write(content_of(line))
        self._take(line)
        return True

    def _write(self, content: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            done = os.write(self._file, content)
            if done < len(content):
                raise OSError(28, "No space left on device")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, size)
            raise StorageError(f"{self.path}: could not be written: {error.strerror or error}") from error


def _owner(line: RecordLine) -> str | None:
    """Return whose last answer a line may be."""
    return None if line["what"] == "decide" else line["annotator"]
