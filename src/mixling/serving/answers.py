"""The answers of a server as a client reads them: each part is checked, or a wrong one would be written as right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from mixling.answers.predictions import Prediction
from mixling.answers.spans import Answer, Span
from mixling.errors import shown
from mixling.tasks.base import Task
from mixling.text.encoder import Text


class WrongAnswer(Exception):
    """An answer that no server of mixling gives, with the reason."""


def parse_answer(content: bytes) -> Any:
    """Return the values of JSON in UTF-8.

    Raises:
        WrongAnswer: it is none, or ambiguous.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise WrongAnswer("not with JSON; is it mixling?") from None


def read_models(values: Any) -> dict[str, Mapping[str, Any]]:
    """Return the descriptions of a server's models by their names.

    Raises:
        WrongAnswer: they are none.
    """
    models = values.get("models") if isinstance(values, dict) else None
    if not isinstance(models, list):
        raise WrongAnswer("not with a list of models; is it mixling?")
    out: dict[str, Mapping[str, Any]] = {}
    for model in models:
        sound = isinstance(model, dict) and all(isinstance(model.get(key), str) for key in ("name", "task"))
        if not sound or not _is_texts(model.get("inputs")) or model["name"] in out:
            raise WrongAnswer("with a model that has no name, task and inputs of its own; is it mixling?")
        out[model["name"]] = model
    return out


def read_predictions(
    values: Any, texts: list[Text], *, model: str, task: type[Task], whole: bool = True
) -> list[Prediction]:
    """Return the predictions of an answer, one for each text.

    Args:
        texts: as they were sent.
        model: that was asked.
        whole: all labels have a probability.

    Raises:
        WrongAnswer: there are fewer or more predictions, one lacks a field of the task's predictions, or one names
            words or characters that are not in its text.
    """
    found = values.get("predictions") if isinstance(values, dict) else None
    if not isinstance(found, list):
        raise WrongAnswer("without predictions; is it mixling?")
    if values.get("model", model) != model:
        raise WrongAnswer(f"for the model {shown(str(values['model'])[:50])} instead of {shown(model)}")
    if len(found) != len(texts):
        raise WrongAnswer(f"with {len(found)} predictions for {len(texts)} texts")
    out = []
    for index, (item, text) in enumerate(zip(found, texts, strict=True)):
        if not isinstance(item, dict):
            raise WrongAnswer(f"with a prediction {index} that is no object")
        try:
            out.append(_Reader(item).prediction(text, task, whole=whole))
        except _Wrong as error:
            key = str(error)
            got = shown(json.dumps(item.get(key))[:60]) if key in item else "nothing"
            raise WrongAnswer(f"with a prediction {index} that has {got} as {key!r}") from None
    return out


class _Wrong(Exception):
    """The value of a key is wrong."""


class _Reader:
    """Reads a prediction that `Prediction.to_dict` made."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def prediction(self, text: Text, task: type[Task], *, whole: bool) -> Prediction:
        values = self._values
        probabilities = self._probabilities("probabilities")
        path = self._probabilities("path")
        label = self._of("label", str)
        labels = self._texts("labels")
        label_set = self._texts("label_set")
        tokens = self._texts("tokens")
        tags = self._texts("tags")
        if task.has_probabilities:
            self._check("probabilities", probabilities is not None)
            self._check("label" if task.exclusive else "labels", (label if task.exclusive else labels) is not None)
        for key, names in (("label", (label,)), ("labels", labels or ()), ("label_set", label_set or ())):
            names = tuple(name for name in names if name is not None)
            checked = names if whole or key == "label" else ()
            among = probabilities if path is None or key != "label" else path
            known = among is None or all(name in among for name in checked)
            self._check(key, known and len(set(names)) == len(names))
        if task.per_word:
            self._check("tokens", tokens is not None and _are_words_of(tokens, text))
            self._check("tags", tags is not None and len(tags) == len(tokens or ()))
            self._check("spans", "spans" in values)
        if task.kind == "number":
            self._check("value", "value" in values)
        if task.windows:
            self._check("answer", "answer" in values)
        self._check("truncated", "truncated" in values)
        return Prediction(
            truncated=bool(self._of("truncated", bool)),
            empty=bool(self._of("empty", bool)),
            label=label,
            abstained=self._of("abstained", bool),
            label_set=label_set,
            path=path,
            labels=labels,
            probabilities=probabilities,
            spans=self._spans(text),
            tokens=tokens,
            tags=tags,
            answer=self._answer(text),
            value=None if "value" not in values else self._number("value"),
        )

    def _check(self, key: str, sound: bool) -> None:
        if not sound:
            raise _Wrong(key)

    def _of(self, key: str, kind: type) -> Any:
        value = self._values.get(key)
        self._check(key, value is None or type(value) is kind)
        return value

    def _number(self, key: str, *, least: float = -1e308, most: float = 1e308) -> float:
        value = self._values.get(key)
        self._check(key, _is_number(value, least, most))
        return float(value)  # type: ignore[arg-type]

    def _texts(self, key: str) -> tuple[str, ...] | None:
        if (value := self._values.get(key)) is None:
            return None
        self._check(key, _is_texts(value))
        return tuple(value)

    def _probabilities(self, key: str) -> dict[str, float] | None:
        if (values := self._of(key, dict)) is not None:
            self._check(key, len(values) > 0 and all(_is_number(item, 0, 1) for item in values.values()))
        found: dict[str, float] | None = values
        return found

    def _spans(self, text: Text) -> tuple[Span, ...] | None:
        if (values := self._of("spans", list)) is None:
            return None
        length = len(text) if isinstance(text, str) else len(" ".join(text))
        for item in values:
            sound = isinstance(item, dict) and set(item) == {"label", "start", "end", "score"}
            self._check("spans", sound and type(item["label"]) is str and _is_number(item["score"], 0, 1))
            self._check("spans", _is_range(item["start"], item["end"], length))
        return tuple(Span(**item) for item in values)

    def _answer(self, text: Text) -> Answer | None:
        if (found := self._of("answer", str)) is None:
            return None
        start, end = (self._values.get(key) for key in ("start", "end"))
        if start is None and end is None:
            self._check("answer", not found)
        else:
            self._check("start", not isinstance(text, str) and _is_range(start, end, len(text[1])))
            self._check("answer", text[1][start:end] == found)
        return Answer(text=found, start=start, end=end, score=self._number("score", least=0, most=1))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key twice")
    return out


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is str for item in value)


def _is_number(value: Any, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most and isfinite(value)


def _is_range(start: Any, end: Any, length: int) -> bool:
    return type(start) is int and type(end) is int and 0 <= start <= end <= length


def _are_words_of(tokens: tuple[str, ...], text: Text) -> bool:
    """Return whether tokens are words of a text, in order; of given words, they are the first of these."""
    if not isinstance(text, str):
        return list(tokens) == list(text)[: len(tokens)]
    place = 0
    for token in tokens:
        if (found := text.find(token, place)) < 0:
            return False
        place = found + len(token)
    return True
