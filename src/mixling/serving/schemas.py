"""The JSON of requests: a type for each model, which has only what that model answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import ErrorDetails, from_json

from mixling.errors import DataError, near_miss, shown
from mixling.features.cells import cells_in, with_cells
from mixling.runtime.predictor import Predictor
from mixling.serving.problems import Problem
from mixling.tasks.base import Task
from mixling.text.encoder import Text

_SHOWN_ERRORS = 10
_COUNTED_ERRORS = 1000  # to describe each takes microseconds
LARGE_BODY = 8 << 10  # bytes of a body that may take long to check
_MOST_PARTS = 10_000  # of a large body: lists, objects with their keys, and values other than texts
_EXAMPLE = "play some jazz in oslo"
_CONTEXT = "The film was shot in Oslo."


# JSON Schema takes 2.0 for an integer.
WHOLE = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)


@dataclass(frozen=True, slots=True)
class Options:
    """What a request asks for besides predictions; see `request_type` for their meanings.

    Attributes:
        threshold: of all labels, or of each.
    """

    top_k: int | None = None
    threshold: float | Mapping[str, float] | None = None
    explain: bool = False


NO_OPTIONS = Options()


# What pydantic says of the length of a list.
_SIZE = re.compile(r"(?:List|Tuple) should have at (least|most) (\d+) items? after validation, not (\d+)")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Question(_Request):
    question: str
    context: str


@dataclass(frozen=True)
class RequestType:
    """Checks requests for one model.

    Attributes:
        inputs: keys that hold texts; a request has one of them.
        model: the pydantic model of a request.
        default: the options of a request that names none.
        columns: the names of the columns beside each text.
    """

    inputs: tuple[str, ...]
    model: type[BaseModel]
    default: Any = NO_OPTIONS
    columns: tuple[str, ...] = ()

    def parse(self, body: bytes) -> tuple[list[Text], Any]:
        """Return the texts and options of a request.

        Raises:
            Problem: it is not JSON (400), or not as the schema has it (422).
        """
        request: Any = validated(self.model, body)
        given = request.model_fields_set
        key = next(name for name in self.inputs if name in given)
        values = getattr(request, key)
        if key == "pairs":
            values = [tuple(pair) for pair in values]
        elif key == "questions":
            values = [(item.question, item.context) for item in values]
        if self.columns:
            values = self._beside(values, request.columns)
        if len(given) == 1 + bool(self.columns):
            return values, self.default
        options = given - {key, "columns"}
        return values, type(self.default)(**{name: getattr(request, name) for name in options})

    def _beside(self, texts: list[Text], rows: list[dict[str, Any]]) -> list[Text]:
        if len(rows) != len(texts):
            raise Problem(422, f"/columns: has {len(rows):,} items; there are {len(texts):,} texts, each with one")
        out = []
        for number, (text, row) in enumerate(zip(texts, rows, strict=True)):
            if unknown := row.keys() - set(self.columns):
                name = min(unknown)[:100]
                raise Problem(422, f"/columns/{number}: no column {name!r}; {near_miss(name, self.columns)}")
            try:
                out.append(with_cells(text, cells_in(row, self.columns)))
            except DataError as error:
                raise Problem(422, f"/columns/{number}: {error}") from None
        return out


def input_keys(task: Task, pairs: bool | None) -> tuple[str, ...]:
    """Return the keys that may hold texts; `pairs` as of `Metadata`, None if it is not known."""
    if task.windows:
        return ("questions",)
    if task.per_word:
        return ("texts", "tokens")
    return {True: ("pairs",), False: ("texts",), None: ("texts", "pairs")}[pairs]


def request_type(predictor: Predictor, max_texts: int, max_chars: int) -> RequestType:
    """Return the type of requests for a model, with limits of texts and of the characters of each."""
    task = predictor.task
    keys = input_keys(task, predictor.metadata.pairs)
    fields = input_fields(keys, max_texts, max_chars, names=predictor.metadata.texts)
    for name in option_names(predictor):
        by_label = name == "threshold" and task.has_label_thresholds
        kind, meaning = _label_thresholds(task) if by_label else _OPTIONS[name]
        fields[name] = (kind, Field(default=None, description=meaning, json_schema_extra=without_default))
    if columns := predictor.feature_names:
        values = {"type": "object", "additionalProperties": False, "required": list(columns)}
        values["properties"] = {name: {"type": ["string", "number", "boolean", "null"]} for name in columns}
        row = Annotated[dict[str, str | int | float | bool | None], WithJsonSchema(values)]
        limits = Field(min_length=1, max_length=max_texts, description="The columns beside each text, by name.")
        fields["columns"] = (Annotated[list[row], limits], ...)
    return RequestType(keys, request_model(keys, fields, names=predictor.metadata.texts), columns=columns)


def input_fields(
    keys: Sequence[str], max_texts: int, max_chars: int, *, pattern: str | None = None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the fields that may hold texts, for `request_model`; the schema has the pattern, which is not checked.

    Args:
        names: of texts that belong together, if they have names.
    """
    described = {} if pattern is None else {"json_schema_extra": {"pattern": pattern}}
    text = Annotated[str, Field(max_length=max_chars, **described)]
    kinds: dict[str, Any] = {
        "texts": text,
        "pairs": _named_texts(names, max_chars) if names else Annotated[list[text], Field(min_length=2, max_length=2)],
        "tokens": Annotated[list[Annotated[str, Field(max_length=1000)]], Field(min_length=1, max_length=1000)],
        "questions": create_model(
            "Question",
            __base__=_Question,
            question=(Annotated[str, Field(min_length=1, max_length=10_000)], ...),
            context=(text, ...),
        ),
    }
    absent = ... if len(keys) == 1 else Field(default=None, json_schema_extra=without_default)
    fields: dict[str, Any] = {}
    for key in keys:
        item = kinds[key]
        limits = Field(min_length=1, max_length=max_texts, description=_MEANINGS[key])
        fields[key] = (Annotated[list[item], limits], absent)  # type: ignore[valid-type]
    return fields


def request_model(
    keys: Sequence[str],
    fields: dict[str, Any],
    needed: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] = (),
) -> type[BaseModel]:
    """Return the pydantic model of requests with these fields; exactly one of `keys` is required.

    Args:
        needed: examples of options that the schema requires; that they are there is not checked.
        names: as of `input_fields`.
    """
    needed = needed or {}
    extra: dict[str, Any] = {"examples": [{key: _EXAMPLES[key], **needed} for key in keys]}
    if names:
        extra["examples"] = [{"pairs": [dict.fromkeys(names, _EXAMPLE)]}]
    if needed:
        extra["required"] = [*keys, *needed]
    if len(keys) > 1:
        extra["oneOf"] = [{"required": [key]} for key in keys]
    base: type[BaseModel] = type(
        "_Of", (_Request,), {"model_config": ConfigDict(extra="forbid", strict=True, json_schema_extra=extra)}
    )
    validators: dict[str, Any] = {}
    if len(keys) > 1:

        def one_input(self: Any) -> Any:
            if len(self.model_fields_set & set(keys)) != 1:
                raise ValueError(f"give exactly one of {', '.join(keys)}")
            return self

        validators["one_input"] = model_validator(mode="after")(one_input)
    return create_model("PredictRequest", __base__=base, __validators__=validators, **fields)


def _named_texts(names: Sequence[str], max_chars: int) -> Any:
    """Return the type of texts that belong together: an object by name, or a list in their order."""
    allowed = f"allowed: an object with {', '.join(map(shown, names))}, or a list of these {len(names)} texts"

    def read(value: Any) -> list[str]:
        if isinstance(value, dict):
            if unknown := sorted(value.keys() - {*names}):
                raise ValueError(f"has no text {shown(unknown[0][:100])}; {near_miss(unknown[0][:100], names)}")
            if missing := [name for name in names if name not in value]:
                raise ValueError(f"the text {shown(missing[0])} is missing; {allowed}")
            value = [value[name] for name in names]
        if not isinstance(value, list) or len(value) != len(names) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"is something else; {allowed}")
        if max(map(len, value)) > max_chars:
            raise ValueError(f"has a text of more than {max_chars:,} characters")
        return value

    text = {"type": "string", "maxLength": max_chars}
    listed = {"type": "array", "items": text, "minItems": len(names), "maxItems": len(names)}
    by_name = {"type": "object", "properties": dict.fromkeys(names, text), "required": list(names)}
    schema = {"anyOf": [{**by_name, "additionalProperties": False}, listed]}
    return Annotated[Any, PlainValidator(read), WithJsonSchema(schema)]


def option_names(predictor: Predictor) -> tuple[str, ...]:
    """Return the options that make sense for a model."""
    task = predictor.task
    names = []
    if task.has_probabilities:
        names.append("top_k")
    if task.has_probabilities or task.per_word or task.windows:
        names.append("threshold")
    if not task.windows:
        names.append("explain")
    return tuple(names)


def _label_thresholds(task: Task) -> tuple[Any, str]:
    """Return the type and the meaning of the threshold of a model with thresholds of labels."""
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    names = {"enum": list(task.labels.names)}
    by_label = {"type": "object", "propertyNames": names, "additionalProperties": probability}
    schema = {"anyOf": [probability, by_label]}
    meaning = "Predict labels from this probability on: a number for all, or an object with some labels' numbers."
    return Annotated[Any, PlainValidator(_read_thresholds(task)), WithJsonSchema(schema)], meaning


def _read_thresholds(task: Task) -> Callable[[Any], float | dict[str, float]]:
    names = task.labels.names
    own = task.thresholds()

    def read(value: Any) -> float | dict[str, float]:
        if isinstance(value, dict):
            for name, number in value.items():
                if name not in own:
                    raise ValueError(f"the model has no label {shown(name[:100])}; {near_miss(name[:100], names)}")
                if not _is_probability(number):
                    raise ValueError(f"of {shown(name[:100])}: a number from 0 to 1 is allowed")
            return {**own, **value}
        if not _is_probability(value):
            raise ValueError("a number from 0 to 1 is allowed, or an object with such numbers by label")
        return float(value)

    return read


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


_M = TypeVar("_M", bound=BaseModel)


def validated(model: type[_M], body: bytes) -> _M:
    """Return the request in a body.

    Raises:
        Problem: it is not JSON (400), or not as the schema has it (422).
    """
    if len(body) > LARGE_BODY and _num_parts(body) > _MOST_PARTS:  # pydantic would take seconds for a megabyte
        try:
            from_json(body[:LARGE_BODY], allow_partial=True)
        except ValueError as error:
            raise Problem(400, f"the body is not JSON: {error}") from None
        raise Problem(422, f"the body has more than {_MOST_PARTS:,} lists, objects and numbers; send it in parts")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise problem_of(error, model.model_fields) from None


def _num_parts(body: bytes) -> int:
    """Return about how many lists, objects, keys, and values other than texts JSON has; it is not parsed."""
    pieces = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    outside = b"".join(pieces[::2])
    numbers = max(0, outside.count(b",") - len(pieces) // 2)
    return outside.count(b"[") + outside.count(b"{") + outside.count(b":") + numbers


def problem_of(error: ValidationError, keys: Iterable[str] = ()) -> Problem:
    """Return the problem of a request that a schema does not allow, which may have these keys."""
    if (count := error.error_count()) > _COUNTED_ERRORS:
        return Problem(422, f"{count:,} values are not allowed; /openapi.json has the schema")
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"the body is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}")
    shown = [{"pointer": _pointer(item["loc"]), "detail": _detail(item, keys)} for item in errors[:_SHOWN_ERRORS]]
    at = f"{shown[0]['pointer']}: " if shown[0]["pointer"] else ""
    return Problem(422, at + shown[0]["detail"], errors=shown)


def _detail(item: ErrorDetails, keys: Iterable[str]) -> str:
    if item["type"] == "missing":
        return "is missing"
    if found := _SIZE.fullmatch(item["msg"]):
        bound, allowed, got = found.groups()
        return "is empty; give at least one item" if got == "0" else f"has {got} items; allowed: at {bound} {allowed}"
    if item["type"] == "extra_forbidden":
        key, *inner = map(str, item["loc"])
        return "is not allowed" if inner else f"is not allowed; {near_miss(key[:100], keys)}"
    return item["msg"].removeprefix("Value error, ")


def _pointer(location: Sequence[int | str]) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part)[:100].replace("~", "~0").replace("/", "~1") for part in location)


def without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_EXAMPLES: dict[str, list[Any]] = {
    "texts": [_EXAMPLE],
    "pairs": [["A man sleeps.", "Nobody sleeps."]],
    "tokens": [_EXAMPLE.split()],
    "questions": [{"question": "Where was the film shot?", "context": _CONTEXT}],
}
_MEANINGS = {
    "texts": "Texts to predict for.",
    "pairs": "Pairs of texts.",
    "tokens": "Sentences as lists of words.",
    "questions": "Questions, each with the text that may contain its answer.",
}
_OPTIONS: dict[str, tuple[Any, str]] = {
    "top_k": (
        Annotated[int, Field(ge=1, le=1_000_000), WHOLE],
        "Return the probabilities of this number of labels only, the most probable first.",
    ),
    "threshold": (
        Annotated[float, Field(ge=0, le=1)],
        "Leave out labels, spans and answers whose probability is lower; mark a single label as abstained.",
    ),
    "explain": (bool, "Return the effect of each word on the answer."),
}
