"""The rows of a labeled file in the forms of annotation tools, which mixling/data/readers/annotations.py reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mixling.labeling.lines import labels_in_value
from mixling.labeling.rows import ONE, SEVERAL, SPANS, LabeledRow, RowFormat, Said, answered_rows, json_lines, json_list
from mixling.labeling.texts import FileTexts


def _doccano(row: LabeledRow, task: str) -> dict[str, Any]:
    spans = [[*span.values()] for span in row.spans()] if task == SPANS else labels_in_value(row.value)
    return {"text": row.one_text(lines=True), "label": spans, **row.meta}


def _prodigy(row: LabeledRow, task: str) -> dict[str, Any]:
    found = {"spans": row.spans()} if task == SPANS else {"accept": labels_in_value(row.value)}
    return {"text": row.one_text(lines=True), **found, "answer": "accept", **row.meta}


def _label_studio(row: LabeledRow, task: str) -> dict[str, Any]:
    text = row.one_text(lines=True)
    kind = "labels" if task == SPANS else "choices"
    values: list[dict[str, Any]] = [{kind: labels_in_value(row.value)}]
    if task == SPANS:
        values = _renamed(row, "start", "end", kind, of="text")
    result = []
    for value in values:
        value[kind] = [value[kind]] if task == SPANS else value[kind]
        result.append({"from_name": "label", "to_name": "text", "type": kind, "value": value})
    return {"data": {"text": text, **row.meta}, "annotations": [{"result": result}]}


def _argilla(row: LabeledRow, task: str) -> dict[str, Any]:
    name, value = ("spans", row.spans()) if task == SPANS else ("label", row.value)
    fields = {"text": row.one_text(lines=True)}
    return {"fields": fields, "metadata": row.others, "responses": {name: [{"value": value}]}}


def _spacy(row: LabeledRow, _: str) -> list[Any]:
    return [row.one_text(lines=True), {"entities": [[*span.values()] for span in row.spans()]}]


def _lighttag(row: LabeledRow, _: str) -> dict[str, Any]:
    text = row.one_text(lines=True)
    return {"content": text, "annotations": _renamed(row, "start", "end", "tag", of="value"), "metadata": row.others}


def _ubiai(row: LabeledRow, _: str) -> dict[str, Any]:
    found = _renamed(row, "start", "end", "entityLabel", of="text")
    return {
        "documentName": str(row.line),
        "document": row.one_text(lines=True),
        "tokens": found,
        "relations": [],
        **row.meta,
    }


def _dataturks(row: LabeledRow, task: str) -> dict[str, Any]:
    """Return a row whose spans end with their last character."""
    found: Any = {"labels": labels_in_value(row.value)}
    if task == SPANS:
        found = []
        for span in _renamed(row, "start", "end", "label", of="text"):
            label = span.pop("label")
            found.append({"label": [label], "points": [{**span, "end": span["end"] - 1}]})
    return {"content": row.one_text(lines=True), "annotation": found, "extras": row.others}


def _rasa(row: LabeledRow, task: str) -> dict[str, Any]:
    text = row.one_text(lines=True)
    if task == ONE:
        return {"text": text, "intent": row.value, **row.meta}
    return {"text": text, "entities": _renamed(row, "start", "end", "entity", of="value"), **row.meta}


def _azure(row: LabeledRow, _: str) -> dict[str, Any]:
    found = _renamed(row, "offset", "length", "category")
    for span in found:
        span["length"] -= span["offset"]
    return {"text": row.one_text(lines=True), "entities": found, **row.meta}


def _renamed(row: LabeledRow, start: str, end: str, label: str, *, of: str = "") -> list[dict[str, Any]]:
    """Return the spans with other names, and their texts where a name is given for these."""
    out = []
    for span in row.spans():
        said = {of: row.one_text(lines=True)[span["start"] : span["end"]]} if of else {}
        out.append({start: span["start"], end: span["end"], label: span["label"], **said})
    return out


def _written(
    suffix: str,
    tasks: tuple[str, ...],
    form: Callable[[LabeledRow, str], Any],
    whole: Callable[[Iterable[Any]], Iterator[str]],
) -> RowFormat:
    """Return a format whose rows have a form; `whole` puts them together."""

    def write(texts: FileTexts, said: Said) -> Iterator[str]:
        return whole(form(row, texts.task) for row in answered_rows(texts, said))

    return RowFormat(suffix, tasks, write)


def _within(begin: str, end: str) -> Callable[[Iterable[Any]], Iterator[str]]:
    return lambda rows: iter((begin, *json_list(rows), end))


_ALL = (ONE, SEVERAL, SPANS)
TOOLS = {
    "doccano": _written(".jsonl", _ALL, _doccano, json_lines),
    "prodigy": _written(".jsonl", _ALL, _prodigy, json_lines),
    "label-studio": _written(".json", _ALL, _label_studio, json_list),
    "argilla": _written(".jsonl", _ALL, _argilla, json_lines),
    "spacy": _written(".json", (SPANS,), _spacy, json_list),
    "lighttag": _written(".json", (SPANS,), _lighttag, _within('{\n"examples": ', "}\n")),
    "ubiai": _written(".json", (SPANS,), _ubiai, json_list),
    "dataturks": _written(".jsonl", _ALL, _dataturks, json_lines),
    "rasa": _written(".json", (ONE, SPANS), _rasa, _within('{\n"rasa_nlu_data": {"common_examples": ', "}}\n")),
    "azure": _written(".jsonl", (SPANS,), _azure, json_lines),
}
"""The formats of annotation tools, by their names."""
