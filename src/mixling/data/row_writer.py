"""Write examples as rows that the readers of their task read again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mixling.data.config import ColumnsConfig
from mixling.data.examples import Example


def json_rows(examples: Iterable[Example], columns: ColumnsConfig, *, of_words: bool = False) -> Iterator[str]:
    """Yield the examples as lines of JSON, with the columns that they were read from.

    Args:
        of_words: the targets are a tag for each word.
    """
    for number, example in enumerate(examples):
        for row in _rows(example, number, columns, of_words=of_words):
            yield json.dumps(row, ensure_ascii=False) + "\n"


def _rows(example: Example, number: int, columns: ColumnsConfig, *, of_words: bool) -> Iterator[dict[str, Any]]:
    text = example.text
    target = example.target
    if example.answers is not None:
        answers = {"text": list(example.answers.texts), "answer_start": list(example.answers.starts)}
        row = {columns.question: text[0], columns.context: text[1], columns.answers: answers}
        yield row if example.id is None else {"id": example.id, **row}
    elif of_words and columns.sentence is not None:
        for word, tag in zip(text, target or (), strict=True):  # type: ignore[arg-type]
            yield {columns.sentence: number, columns.tokens: word, columns.slots: tag}
    elif of_words:
        yield {columns.tokens: list(text), columns.slots: list(target or ())}  # type: ignore[arg-type]
    else:
        row = {columns.text: text}
        if isinstance(text, tuple):
            row = dict(zip(columns.texts, text, strict=True))
        if columns.labels is not None:
            yield row | {name: int(name in (target or ())) for name in columns.labels}  # type: ignore[operator]
        else:
            yield row | {columns.label: list(target) if isinstance(target, tuple) else target}
