"""What a row says of the answers to its question."""

from __future__ import annotations

from typing import Any

from mixling.text.answers import Answers

_FORM = 'allowed: {"text": [...], "start": [...]}, or SQuAD\'s [{"text": ..., "answer_start": ...}, ...]; [] for none'
_STARTS = ("start", "answer_start")


def read_answers(value: Any, context: str) -> Answers | str:
    """The answers that a column holds, or what is wrong with them.

    Each must stand in the context, character for character, at its start (counted in characters, from 0).
    """
    pairs = _pairs(value)
    if isinstance(pairs, str):
        return pairs
    for number, (text, start) in enumerate(pairs, 1):
        if not isinstance(text, str) or not text.strip():
            return f"answer {number} is empty or no text ({str(text)[:40]!r}); a stretch of the context is needed"
        if isinstance(start, bool) or not isinstance(start, int):
            return f"answer {number} ({text[:40]!r}) starts at {str(start)[:40]!r}; the number of a character is needed"
        there = context[start : start + len(text)] if start >= 0 else ""
        if there != text:
            found = context.find(text)
            hint = f"it stands at {found}" if found >= 0 else "it stands nowhere in it"
            got = f"answer {number}, {text[:40]!r}, does not stand at character {start} of the context"
            return f"{got}, where {there[:40]!r} is; {hint}"
    return Answers(tuple(text for text, _ in pairs), tuple(start for _, start in pairs))


def _pairs(value: Any) -> list[tuple[Any, Any]] | str:
    if isinstance(value, dict):
        name = next((name for name in _STARTS if name in value), None)
        texts, starts = value.get("text"), value.get(name) if name else None
        if not isinstance(texts, list) or not isinstance(starts, list):
            return f"the answers are {str(value)[:60]}; {_FORM}"
        if len(texts) != len(starts):
            return f"the answers have {len(texts)} texts but {len(starts)} starts; give each text one"
        return list(zip(texts, starts, strict=True))
    if isinstance(value, list):
        if all(isinstance(item, dict) and {"text", "answer_start"} <= item.keys() for item in value):
            return [(item["text"], item["answer_start"]) for item in value]
        return f"the answers are {str(value)[:60]}; {_FORM}"
    return f"the answers are {'missing' if value is None else repr(value)[:60]}; {_FORM}"
