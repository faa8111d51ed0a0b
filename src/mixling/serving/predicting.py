"""The routes of `/v1`: models and predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from mixling.answers.predictions import Prediction, certain_part, most_probable
from mixling.errors import ConfigError, near_miss
from mixling.serving.body import Handler
from mixling.serving.metrics import ServerMetrics
from mixling.serving.models import AnyLoaded, Loaded, ModelStore
from mixling.serving.problems import JsonResponse, Problem
from mixling.serving.scheduling import Scheduler, num_chars
from mixling.serving.schemas import NO_OPTIONS, Options
from mixling.text.encoder import Text

_EXPLAINED_CHARS = 10_000  # of all texts of a request that are explained: each is predicted again for each word


def prediction_handlers(models: ModelStore, scheduler: Scheduler, metrics: ServerMetrics) -> dict[str, Handler]:
    """Return the handler of predictions by its path."""

    async def predict(scope: Scope, body: bytes) -> Response:
        loaded = find_model(models, scope["path_params"]["model"])
        texts, options = loaded.requests.parse(body)
        values: list[dict[str, Any]]
        if not isinstance(loaded, Loaded):
            values = await loaded.predict(scheduler, texts, options)
            metrics.predicted(loaded.name, len(texts))
            return JsonResponse({"model": loaded.name, "version": loaded.version, "predictions": values})
        predictions = await scheduler.predict(loaded.predictor, texts)
        metrics.predicted(loaded.name, len(texts))
        metrics.drift.predicted(loaded, texts, predictions)
        if options is NO_OPTIONS:
            values = [prediction.to_dict() for prediction in predictions]
        else:
            values = [answer(prediction, options) for prediction in predictions]
            if options.explain:
                for value, explanation in zip(values, await _explain(scheduler, loaded, texts), strict=True):
                    value["explanation"] = explanation
        return JsonResponse({"model": loaded.name, "version": loaded.version, "predictions": values})

    return {"/v1/models/{model}/predict": predict}


def answer(prediction: Prediction, options: Options) -> dict[str, Any]:
    """Return the JSON values of a prediction; see `mixling.serving.schemas` for the options."""
    out = prediction.to_dict()
    if (threshold := options.threshold) is not None:
        _leave_out(out, prediction, threshold)
    if options.top_k is not None and prediction.probabilities is not None:
        out["probabilities"] = most_probable(prediction.probabilities, options.top_k)
    return out


def _leave_out(out: dict[str, Any], prediction: Prediction, threshold: float | Mapping[str, float]) -> None:
    """Leave out labels less probable than the threshold; a single label is marked as abstained."""
    if isinstance(threshold, Mapping):
        assert prediction.probabilities is not None
        out["labels"] = [label for label, value in prediction.probabilities.items() if value >= threshold[label]]
        return
    if prediction.labels is not None and prediction.probabilities is not None:
        out["labels"] = [label for label, value in prediction.probabilities.items() if value >= threshold]
    elif prediction.path is not None:
        out["label"], out["abstained"] = certain_part(prediction.path, threshold)
    elif prediction.label is not None:
        out["abstained"] = prediction.probability < threshold
    if prediction.spans is not None:
        out["spans"] = [span for span in out["spans"] if span["score"] >= threshold]
    if prediction.answer is not None and not prediction.answer.is_none and prediction.answer.score < threshold:
        out |= {"answer": "", "start": None, "end": None, "no_answer": True}


def find_model(models: ModelStore, name: str) -> AnyLoaded:
    """Return the model of that name.

    Raises:
        Problem: there is none (404).
    """
    loaded = models.get(name)
    if loaded is None:
        raise Problem(404, f"there is no model {name[:100]!r}; {near_miss(name[:100], models.names)}")
    return loaded


def description(loaded: AnyLoaded) -> dict[str, Any]:
    """Return the JSON description of a model."""
    names = {"name": loaded.name, "version": loaded.version, "task": loaded.task, "engine": loaded.engine}
    return {**names, "inputs": list(loaded.inputs), **loaded.description()}


async def _explain(scheduler: Scheduler, loaded: Loaded, texts: Sequence[Text]) -> list[dict[str, Any] | None]:
    if (size := sum(map(num_chars, texts))) > _EXPLAINED_CHARS:
        raise Problem(422, f"/explain: texts of at most {_EXPLAINED_CHARS:,} characters are explained, got {size:,}")
    return await scheduler.large(len(texts), [_explanation(loaded, text) for text in texts], kind="explanation")


def _explanation(loaded: Loaded, text: Text) -> Callable[[], list[dict[str, Any] | None]]:
    def explain() -> list[dict[str, Any] | None]:
        try:
            values = loaded.predictor.explain(text, method="leave_one_out").to_dict()
        except ConfigError:  # a tagger has no answer to a text without words
            return [None]
        del values["text"], values["truncated"]  # the client has them
        return [values]

    return explain
