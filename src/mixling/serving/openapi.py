"""The description of the routes for `/openapi.json`, made of the models that are served."""

from __future__ import annotations

from typing import Any

from mixling.serving.models import AnyLoaded, Loaded, ModelStore
from mixling.serving.schemas import input_keys
from mixling.serving.settings import ServerSettings
from mixling.tasks.base import Task
from mixling.version import __version__

_Json = dict[str, Any]


class OpenApiDocument:
    """The OpenAPI document of a server, which changes when a model is replaced."""

    def __init__(self, models: ModelStore, settings: ServerSettings, *, keys: bool) -> None:
        self._models = models
        self._settings = settings
        self._keys = keys
        self._made: tuple[tuple[str, ...], _Json] | None = None

    def get(self) -> _Json:
        """Return the document of the models that are in use."""
        if self._made is None or self._made[0] != self._models.version:
            self._made = (self._models.version, self._make())
        return self._made[1]

    def _make(self) -> _Json:
        paths: _Json = {
            "/v1/models": {"get": self._operation("The models", _MODELS)},
            "/healthz": {"get": self._operation("Whether the process answers", _STATUS, public=True)},
            "/readyz": {"get": self._operation("Whether models answer", _STATUS, public=True, also=(503,))},
        }
        for loaded in self._models:
            paths[f"/v1/models/{loaded.name}"] = {"get": self._operation(f"The model {loaded.name}", _MODEL)}
            paths[f"/v1/models/{loaded.name}/predict"] = {"post": self._predict(loaded)}
        document: _Json = {
            "openapi": "3.1.0",
            "info": {"title": "mixling", "version": __version__, "description": "Predictions of small text models."},
            "paths": paths,
            "components": {"schemas": {"Problem": _PROBLEM}},
        }
        if self._keys:
            document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        return document

    def _predict(self, loaded: AnyLoaded) -> _Json:
        schema = _inline(loaded.requests.model.model_json_schema())
        summary = f"Predictions of {loaded.name} ({loaded.task})"
        return self._operation(summary, _prediction_schema(loaded), body=schema)

    def _operation(
        self,
        summary: str,
        schema: _Json,
        *,
        body: _Json | None = None,
        also: tuple[int, ...] = (),
        public: bool = False,
    ) -> _Json:
        problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        statuses = {*also, 413, 415, *((401,) if self._keys and not public else ())}
        out: _Json = {"summary": summary}
        if body is not None:
            statuses |= {400, 422, 503, 504}
            out["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        if self._keys:
            out["security"] = [] if public else [{"key": []}]
        out["responses"] = {
            "200": {"description": "The answer", "content": {"application/json": {"schema": schema}}},
            **{str(status): {"description": _STATUSES[status], "content": problem} for status in sorted(statuses)},
        }
        return out


def _inline(schema: _Json) -> _Json:
    """Return a schema with its definitions where they are referred to: an operation then needs no components."""
    definitions = schema.pop("$defs", {})

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return put(definitions[value["$ref"].rpartition("/")[2]])
            return {key: put(item) for key, item in value.items() if key != "title" or not isinstance(item, str)}
        return [put(item) for item in value] if isinstance(value, list) else value

    made: _Json = put(schema)
    return made


def _prediction_schema(loaded: AnyLoaded) -> _Json:
    properties = _prediction(loaded.predictor.task) if isinstance(loaded, Loaded) else loaded.answer
    required = ["truncated"] if isinstance(loaded, Loaded) else list(properties)
    prediction = {"type": "object", "properties": properties, "required": required}
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {"model": text, "version": text, "predictions": {"type": "array", "items": prediction}},
        "required": ["model", "version", "predictions"],
    }


def _prediction(task: Task) -> _Json:
    number = {"type": "number"}
    text = {"type": "string"}
    properties: _Json = {"truncated": {"type": "boolean"}, "empty": {"type": "boolean"}}
    if task.has_probabilities:
        properties["probabilities"] = {"type": "object", "additionalProperties": number}
        if task.exclusive:
            properties |= {"label": text, "abstained": {"type": "boolean"}}
            properties["label_set"] = {"type": "array", "items": text}
            properties["path"] = {"type": "object", "additionalProperties": number}
        else:
            properties["labels"] = {"type": "array", "items": text}
    elif "questions" in input_keys(task, None):
        index = {"type": ["integer", "null"], "description": "In code points."}
        properties |= {"answer": text, "start": index, "end": index, "score": number, "no_answer": {"type": "boolean"}}
    elif task.per_word:
        strings = {"type": "array", "items": text}
        index = {"type": "integer", "description": "In code points."}
        span = {"type": "object", "properties": {"label": text, "start": index, "end": index, "score": number}}
        properties |= {"tokens": strings, "tags": strings, "spans": {"type": "array", "items": span}}
    else:
        properties["value"] = number
    return properties


_STATUS: _Json = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_TEXT = {"type": "string"}
_LIST = {"type": "array"}
_MODEL: _Json = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "version": _TEXT,
        "task": _TEXT,
        "engine": _TEXT,
        "inputs": _LIST,
        "options": _LIST,
        "labels": _LIST,
        "texts": _LIST,
        "examples": _LIST,
    },
    "required": ["name", "version", "task"],
}
_MODELS: _Json = {
    "type": "object",
    "properties": {"models": {"type": "array", "items": _MODEL}},
    "required": ["models"],
}
_PROBLEM: _Json = {
    "type": "object",
    "description": "RFC 9457.",
    "properties": {"title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"}},
    "required": ["title", "status", "detail"],
}
_STATUSES = {
    400: "The body is not JSON",
    401: "An API key is needed",
    413: "The body is too large",
    415: "The body is compressed",
    422: "The request is not as its schema allows",
    503: "Too much to do, or stopping; try again after the seconds of Retry-After",
    504: "The prediction took too long",
}
