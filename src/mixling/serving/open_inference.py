"""The routes of `/v2`: the Open Inference Protocol, as clients of KServe, Triton and Seldon speak it.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Scope

from mixling.serving.generating import GenerationOptions, LoadedGenerator
from mixling.serving.models import AnyLoaded, Loaded
from mixling.serving.predicting import find_model
from mixling.serving.problems import JsonResponse, Problem
from mixling.serving.schemas import WHOLE, validated
from mixling.text.encoder import Text
from mixling.version import __version__

if TYPE_CHECKING:
    from mixling.serving.app import Handler, Service

_INPUTS = {"texts": ("text",), "pairs": ("text", "text_pair"), "questions": ("question", "context")}
_Output = tuple[str, str, Callable[[Any], Any]]  # name, data type, value of a prediction


class _Base(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Tensor(_Base):
    name: str
    shape: Annotated[list[Annotated[int, WHOLE]], Field(fail_fast=True)]
    datatype: Literal["BYTES"]
    data: Annotated[list[str], Field(fail_fast=True)]


class _Requested(_Base):
    name: str


class InferRequest(_Base):
    """An inference request."""

    id: Annotated[str, Field(max_length=1000)] | None = None
    inputs: Annotated[list[_Tensor], Field(min_length=1, max_length=2)]
    outputs: list[_Requested] | None = None
    parameters: dict[str, Any] | None = None


def inference_handlers(service: Service) -> dict[str, Handler]:
    """Return the handlers of inference by their paths."""
    scheduler, metrics = service.scheduler, service.metrics
    limits = service.settings

    async def infer(scope: Scope, body: bytes) -> Response:
        loaded = _find(service, scope)
        request = validated(InferRequest, body)
        texts = _texts(request, loaded, limits.max_texts, limits.max_chars)
        wanted = _wanted(request, loaded)
        predictions: Sequence[Any]
        if isinstance(loaded, LoadedGenerator):
            predictions = await loaded.predict(scheduler, cast(Sequence[str], texts), _options(request, loaded))
        else:
            predictions = await scheduler.predict(loaded.predictor, texts)
        metrics.predicted(loaded.name, len(texts))
        answer: dict[str, Any] = {"model_name": loaded.name, "model_version": loaded.version}
        if request.id is not None:
            answer["id"] = request.id
        return JsonResponse({**answer, "outputs": [_tensor(output, predictions, loaded) for output in wanted]})

    return {"/v2/models/{model}/infer": infer, "/v2/models/{model}/versions/{version}/infer": infer}


def descriptions(service: Service) -> dict[str, Handler]:
    """Return the handlers of metadata by their paths."""

    async def server(scope: Scope, body: bytes) -> Response:
        return JsonResponse({"name": "mixling", "version": __version__, "extensions": []})

    async def model(scope: Scope, body: bytes) -> Response:
        loaded = _find(service, scope)
        outputs = [
            {"name": name, "datatype": kind, "shape": _shape(name, -1, loaded)} for name, kind, _ in _outputs(loaded)
        ]
        inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in input_names(loaded)]
        values = {
            "name": loaded.name,
            "versions": [loaded.version],
            "platform": "mixling_torch" if isinstance(loaded, LoadedGenerator) else "mixling_onnx",
        }
        return JsonResponse({**values, "inputs": inputs, "outputs": outputs})

    return {"/v2": server, "/v2/models/{model}": model, "/v2/models/{model}/versions/{version}": model}


def health(service: Service) -> dict[str, Handler]:
    """Return the handlers of health by their paths."""

    async def live(scope: Scope, body: bytes) -> Response:
        return JsonResponse({"live": True})

    async def ready(scope: Scope, body: bytes) -> Response:
        if service.stopping:
            raise Problem(503, "the server is stopping", headers={"Retry-After": "1"}, ready=False)
        if "model" in scope["path_params"]:
            return JsonResponse({"name": _find(service, scope).name, "ready": True})
        return JsonResponse({"ready": True})

    paths = ("/v2/health/ready", "/v2/models/{model}/ready", "/v2/models/{model}/versions/{version}/ready")
    return {"/v2/health/live": live, **dict.fromkeys(paths, ready)}


def input_names(loaded: AnyLoaded) -> tuple[str, ...]:
    """Return the names of the inputs of a model; the second of two is not needed where pairs are optional."""
    return _INPUTS["pairs" if "pairs" in loaded.inputs else loaded.inputs[0]]


def _find(service: Service, scope: Scope) -> AnyLoaded:
    loaded = find_model(service.models, scope["path_params"]["model"])
    version = scope["path_params"].get("version", loaded.version)
    if version != loaded.version:
        raise Problem(404, f"model {loaded.name!r} has no version {version[:100]!r}; it has {loaded.version!r}")
    return loaded


def _texts(request: InferRequest, loaded: AnyLoaded, max_texts: int, max_chars: int) -> Sequence[Text]:
    """Return the texts of the inputs.

    Raises:
        Problem: the inputs do not fit the model, or are too large (422).
    """
    names = input_names(loaded)
    given = {tensor.name: tensor for tensor in request.inputs}
    optional = names[1:] if "texts" in loaded.inputs else ()
    if len(given) < len(request.inputs) or set(given) - set(names) or set(names) - set(given) - set(optional):
        got = ", ".join(repr(tensor.name[:50]) for tensor in request.inputs)
        raise Problem(422, f"/inputs: got {got}; the model has the inputs {', '.join(names)}")
    for index, tensor in enumerate(request.inputs):
        rows = len(tensor.data)
        if tensor.shape not in ([rows], [rows, 1]) or not 1 <= rows <= max_texts:
            raise Problem(
                422,
                f"/inputs/{index}/shape: got {str(tensor.shape)[:50]} for {rows} values; "
                f"a list of 1 to {max_texts:,} texts is allowed",
            )
        if max(map(len, tensor.data)) > max_chars:
            raise Problem(422, f"/inputs/{index}/data: texts have at most {max_chars:,} characters")
    columns = [given[name].data for name in names if name in given]
    if len({len(column) for column in columns}) > 1:
        raise Problem(422, f"/inputs: {' and '.join(names)} have different numbers of texts")
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _options(request: InferRequest, loaded: LoadedGenerator) -> GenerationOptions:
    """Return the options among the parameters; others, which clients may add, are ignored.

    Raises:
        Problem: a value is not allowed (422).
    """
    options = {name: value for name, value in (request.parameters or {}).items() if name in loaded.options}
    parsed: GenerationOptions = loaded.requests.parse(to_json({"texts": ["a"], **options}))[1]
    return parsed


def _wanted(request: InferRequest, loaded: AnyLoaded) -> list[_Output]:
    outputs = {output[0]: output for output in _outputs(loaded)}
    if request.outputs is None:
        return list(outputs.values())
    for index, item in enumerate(request.outputs):
        if item.name not in outputs:
            raise Problem(422, f"/outputs/{index}/name: got {item.name[:50]!r}; allowed: {', '.join(outputs)}")
    return [outputs[item.name] for item in request.outputs]


def _outputs(loaded: AnyLoaded) -> list[_Output]:
    """Return the outputs of a model; values that no data type holds are JSON."""
    if isinstance(loaded, LoadedGenerator):
        return [
            ("answer", "BYTES", lambda found: found["answer"]),
            ("score", "FP32", lambda found: found["score"]),
        ]
    task = loaded.predictor.task
    if task.windows:
        return [
            ("answer", "BYTES", lambda found: found.answer.text),
            ("score", "FP32", lambda found: found.answer.score),
        ]
    if task.per_word:
        return [("spans", "BYTES", lambda found: to_json(found.to_dict()["spans"]).decode())]
    if not task.has_probabilities:
        return [("value", "FP64", lambda found: found.value)]
    probabilities: _Output = ("probabilities", "FP32", lambda found: list((found.probabilities or {}).values()))
    if task.exclusive:
        label: _Output = ("label", "BYTES", lambda found: found.label)
        if task.conformal is None:
            return [label, probabilities]
        return [label, ("label_set", "BYTES", lambda found: to_json(list(found.label_set)).decode()), probabilities]
    return [("labels", "BYTES", lambda found: to_json(list(found.labels)).decode()), probabilities]


def _tensor(output: _Output, predictions: Sequence[Any], loaded: AnyLoaded) -> dict[str, Any]:
    name, kind, value = output
    data = [value(prediction) for prediction in predictions]
    if name == "probabilities":
        data = [number for row in data for number in row]
    return {"name": name, "datatype": kind, "shape": _shape(name, len(predictions), loaded), "data": data}


def _shape(name: str, rows: int, loaded: AnyLoaded) -> list[int]:
    return [rows, len(loaded.predictor.labels)] if name == "probabilities" and isinstance(loaded, Loaded) else [rows]
