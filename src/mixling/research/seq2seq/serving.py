"""Models that generate text: opened where torch is installed, and run on the worker thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mixling.artifacts.artifact import kind_of_model
from mixling.errors import DataError, MissingPackage, near_miss
from mixling.installation import install_command
from mixling.serving.scheduling import Scheduler
from mixling.serving.schemas import WHOLE, RequestType, input_fields, request_model, without_default
from mixling.serving.settings import GENERATION

if TYPE_CHECKING:
    from mixling.research.seq2seq.config import PairTaskConfig
    from mixling.research.seq2seq.generation import GenerationConfig
    from mixling.research.seq2seq.generator import Generation, TextGenerator

_PART = 8  # texts that are generated without a pause
_MAX_BEAMS = 16
NOT_EMPTY = r"[^\s\x1c-\x1f\x85]"  # what texts match; others have no subwords, since Python splits at these too
_MAX_SOURCE = 512  # subwords, if neither the model nor its training has a higher limit


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What a request asks for besides texts; None: as the run has it."""

    num_beams: int | None = None
    max_len: int | None = None
    task_name: str | None = None


@dataclass(frozen=True)
class LoadedGenerator:
    """A model that generates text; see `mixling.serving.models.Loaded`.

    Attributes:
        version: the first 12 hexadecimal digits of the SHA-256 of config.json, which holds the other files' digests.
    """

    name: str
    version: str
    generator: TextGenerator
    requests: RequestType
    task: str = GENERATION
    engine: str = "torch"

    @property
    def answer(self) -> dict[str, Any]:
        """The properties of an answer, as JSON schema."""
        return {
            "answer": {"type": "string"},
            "score": {"type": "number", "description": "Log-probability, normalized by length."},
            "stopped": {"type": "boolean", "description": "Whether the answer is complete."},
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """The keys of a request that hold texts."""
        return self.requests.inputs

    @property
    def options(self) -> tuple[str, ...]:
        """The keys of a request that are no texts."""
        return tuple(name for name in self.requests.model.model_fields if name not in self.inputs)

    def description(self) -> dict[str, Any]:
        """Return the fields specific to this kind of model in its description."""
        generator = self.generator
        out: dict[str, Any] = {"options": list(self.options)}
        if generator.tasks:
            out["tasks"] = list(generator.tasks)
        return out | {
            "parameters": sum(parameter.numel() for parameter in generator.model.parameters()),
            "max_tokens": generator.model.max_source_len,
        }

    async def predict(
        self, scheduler: Scheduler, texts: Sequence[str], options: GenerationOptions | None = None
    ) -> list[dict[str, Any]]:
        """Return the JSON values of a generated text for each source.

        Raises:
            Problem: too many texts are waiting (503), or this took too long (504).
            DataError: a text is empty or too long, or an option is not one of the model.
        """
        generator = self.generator
        options = options or GenerationOptions()
        task = self._task(options.task_name)
        config = self._config(options)
        sources: list[Any] = []

        def encode() -> list[Generation]:
            sources.extend(self._encode(texts, task))
            return []

        def part(first: int) -> Callable[[], list[Generation]]:
            return lambda: generator.generate_encoded(sources[first : first + _PART], config=config)

        parts = [encode, *(part(first) for first in range(0, len(texts), _PART))]
        found = await scheduler.large(len(texts), parts, kind="generation")
        return [{"answer": item.text, "score": item.score, "stopped": item.stopped} for item in found]

    def _task(self, name: str | None) -> PairTaskConfig:
        tasks = self.generator.tasks
        if name is None and len(tasks) > 1:
            raise DataError(f"/task_name: is missing; the model has the tasks {', '.join(tasks)}")
        if name is not None and name not in tasks:
            raise DataError(f"/task_name: got {name[:50]!r}; {near_miss(name[:50], tasks)}")
        return self.generator.task(name)

    def _config(self, options: GenerationOptions) -> GenerationConfig:
        given = {"num_beams": options.num_beams, "max_len": options.max_len}
        changes = {name: value for name, value in given.items() if value is not None}
        return self.generator.generation.model_copy(update=changes)

    def _encode(self, texts: Sequence[str], task: PairTaskConfig) -> list[Any]:
        """Return the subwords of the sources, with the task's prefix.

        Raises:
            DataError: see `predict`.
        """
        generator = self.generator
        whole = [generator.source(text, task) if text.strip() else "" for text in texts]
        sources = generator.encode(whole, cut=task.cut)
        for index, source in enumerate(sources):
            problem = generator.problem(source)
            if not problem and len(source) > (most := max(_MAX_SOURCE, generator.config.max_source_len)):
                problem = f"has {len(source)} subwords; at most {most} are allowed here; shorten it"
            if problem:
                raise DataError(f"/texts/{index}: {problem}")
        return sources


def open_generator(name: str, path: Path, *, max_texts: int, max_chars: int) -> LoadedGenerator:
    """Open a run folder.

    Raises:
        MissingPackage: torch is not installed.
        ModelFileError: a file is missing or damaged.
    """
    try:
        generator: TextGenerator = kind_of_model(path).load(path)
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"{path}: the model generates text, which needs {error.name}; "
            f"run {install_command('serve', 'torch')}, or leave the model out"
        ) from None
    return LoadedGenerator(name, generator.digest[:12], generator, _request_type(generator, max_texts, max_chars))


def _described(extra: Mapping[str, Any], schema: dict[str, Any]) -> None:
    without_default(schema)
    schema.update(extra)


def _request_type(generator: TextGenerator, max_texts: int, max_chars: int) -> RequestType:
    longest = generator.model.max_target_len or max(generator.generation.max_len, 512)
    tasks = list(generator.tasks)
    options: dict[str, tuple[Any, str, dict[str, Any]]] = {
        "num_beams": (Annotated[int, Field(ge=1, le=_MAX_BEAMS), WHOLE], "Width of the beam search; 1 is greedy.", {}),
        "max_len": (Annotated[int, Field(ge=1, le=longest), WHOLE], "Maximum number of subwords of an answer.", {}),
    }
    if tasks:
        options["task_name"] = (str, "The task; needed if the model has several.", {"enum": tasks})
    fields: dict[str, Any] = input_fields(("texts",), max_texts, max_chars, pattern=NOT_EMPTY)
    for name, (kind, meaning, schema) in options.items():
        fields[name] = (kind, Field(None, description=meaning, json_schema_extra=partial(_described, schema)))
    needed = {"task_name": tasks[0]} if len(tasks) > 1 else {}
    return RequestType(("texts",), request_model(("texts",), fields, needed), GenerationOptions())
