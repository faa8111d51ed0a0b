"""The lines of a record of labels: what each kind has, and the problems of one."""

from __future__ import annotations

import json
from typing import Any

from mixling.errors import shown
from mixling.labeling.texts import LabelValue

VALUES = {"classification": "label", "multi_label": "labels", "tagging": "spans"}
"""The key of an answer's value, for each task."""
ABOUT_TEXTS = ("answer", "decide", "skip", "unsure", "note")
_GIVING = ("answer", "decide")  # the lines that have a value
_BY_PEOPLE = ("id", "annotator", "time")
# The keys that a line has, and whether their values are texts or numbers.
_KEYS: dict[str, dict[str, type]] = {
    **{what: {"text": str, "row": int} for what in ABOUT_TEXTS},
    "note": {"text": str, "row": int, "note": str},
    "undo": {"of": str},
    "add": {"label": str},
    "rename": {"label": str, "to": str},
    "task": {"task": str},
    "model": {"labels": int, "right": int, "of": int, "baseline": int},
}
_MAX_LABEL = 200  # characters
_MAX_TEXT = 10_000
RecordLine = dict[str, Any]


def labels_in_value(value: LabelValue) -> list[str]:
    """Return the labels in the value of an answer."""
    return [value] if isinstance(value, str) else [item if isinstance(item, str) else item[2] for item in value]


def canonical(value: LabelValue) -> str:
    """Return one text for all values that say the same: sets of labels, and spans, have no order."""
    return json.dumps(value if isinstance(value, str) else sorted(value))


def content_of(line: RecordLine) -> bytes:
    """Return a line as the file has it."""
    return json.dumps(line, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"


def line_problem(line: Any, task: str | None = None) -> str:
    """Return the problem of a line; "": there is none.

    Args:
        task: of the record, whose values are checked; None: of any.
    """
    what = line.get("what") if isinstance(line, dict) else None
    if not isinstance(what, str) or what not in _KEYS:
        return f"got {shown(str(line))}; allowed: an object with `what`: {', '.join(_KEYS)}"
    needed = _KEYS[what] | ({} if what in ("task", "model") else dict.fromkeys(_BY_PEOPLE, str))
    for key, kind in needed.items():
        value = line.get(key)
        if type(value) is not kind or (isinstance(value, str) and len(value) > _MAX_TEXT):
            return f"{what}: {key} is {shown(str(value))}; allowed: {'a text' if kind is str else 'a number'}"
    for key in sorted({"label", "to"} & line.keys()):
        if problem := _label_problem(line[key]):
            return f"{what}: {problem}"
    if what not in _GIVING:
        return ""
    key = next((key for key in VALUES.values() if key in line), "")
    if not key or (task is not None and key != VALUES[task]):
        return f"{what}: {VALUES.get(task or '', 'a label')} is missing"
    return _value_problem(key, line[key])


def _label_problem(label: Any) -> str:
    if not isinstance(label, str) or label.strip() != label or not 0 < len(label) <= _MAX_LABEL:
        return f"got the label {shown(str(label))}; allowed: 1 to {_MAX_LABEL} characters, without spaces at the ends"
    if any(sign in label for sign in "\0\n\r|") or any("\ud800" <= sign <= "\udfff" for sign in label):
        return f"got the label {shown(label)}; allowed: without line ends, | and characters that are no text"
    return ""


def _value_problem(key: str, value: Any) -> str:
    if key == "label":
        return _label_problem(value)
    if not isinstance(value, list):
        return f"answer: {key} is {shown(str(value))}; allowed: a list"
    if key == "labels":
        return next(filter(None, map(_label_problem, value)), "")
    if not all(isinstance(one, list) and len(one) == 3 and type(one[0]) is type(one[1]) is int for one in value):
        return f"answer: got the spans {shown(str(value))}; allowed: [first word, last word + 1, label]"
    end = 0
    for first, stop, label in sorted(value, key=lambda span: span[0]):
        if not end <= first < stop:
            return f"answer: the span {first} to {stop} is empty or overlaps with another"
        if problem := _label_problem(label):
            return problem
        end = stop
    return ""
