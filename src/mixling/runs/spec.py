"""The one way from options, a TOML file, overrides, presets and the data to the configuration of a run.

What wins, from below: the defaults of the run's kind and of the preset, what the examples suggest, the TOML file, the
options, the overrides (`--set`). A configuration is never changed after it was resolved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from mixling.config import Config, merge, parse, present, read_overrides, read_toml
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.models.model import ModelConfig
from mixling.models.presets import DEFAULT_PRESET, preset_values, with_changes
from mixling.runs.choice import choose_model
from mixling.runs.config import RunConfig
from mixling.runs.hub_names import with_commits
from mixling.runs.pretrain import DEFAULT_MODEL, DEFAULTS, PretrainConfig
from mixling.runs.pretrained import FINE_TUNING, pretrained_config
from mixling.tasks import infer_task

C = TypeVar("C", bound=Config)


class Spec(ABC, Generic[C]):
    """How the configurations of one kind of run are resolved.

    Attributes:
        schema: of the configuration.
        preset: the model where neither the user nor the examples decide.
        whole: keys of a table that make it a model of its own, not changes of another.
        vocabulary: where the option `vocabulary` belongs in the configuration.
    """

    schema: type[C]
    preset: ClassVar[str]
    whole: ClassVar[frozenset[str]]
    vocabulary: ClassVar[tuple[str, ...]] = ("model", "text", "vocabulary")

    def options(self, options: Mapping[str, Any], file: Mapping[str, Any], toml: str) -> Mapping[str, Any]:
        """Return the options as they are laid over the TOML file's values."""
        return options

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        """Return the folder of the model that the run begins with; None where it begins with none."""
        return None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of the model in `folder` with what the user gives laid over it."""
        raise NotImplementedError

    @abstractmethod
    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
        """Return the configuration of a model by name, file or table, with changes laid over it."""

    @abstractmethod
    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        """Return what the kind of run and its model suggest, below all that the user gives."""

    def complete(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the values with what the files decide, and remarks on it."""
        return values, ()

    def for_examples(self, config: C, train: Dataset) -> tuple[Mapping[str, Any], str]:
        """Return the model that fits the examples, below all that the user gives, and a remark."""
        return {}, ""


@dataclass(frozen=True, kw_only=True)
class Resolved(Generic[C]):
    """A configuration, what was decided on the way, and whether the user names a model."""

    config: C
    remarks: tuple[str, ...]
    model_named: bool
    _layers: _Layers[C]

    def for_examples(self, train: Dataset) -> Resolved[C]:
        """Return the same with the model that fits the examples; the user's own, if there is one, stays.

        The remarks are those on the model alone.
        """
        if self.model_named:
            return replace(self, remarks=())
        chosen, remark = self._layers.spec.for_examples(self.config, train)
        return replace(self, config=self._layers.config(chosen), remarks=(remark,) if remark else ())


@dataclass(frozen=True, kw_only=True)
class _Layers(Generic[C]):
    """What the user gives, with the task that the files decide; `model` and `changes` of it are laid over presets."""

    spec: Spec[C]
    values: Mapping[str, Any]
    model: Any
    changes: Mapping[str, Any]
    folder: str | None
    where: str

    @property
    def model_named(self) -> bool:
        return self.folder is not None or isinstance(self.model, str) or bool(self.spec.whole & self.model.keys())

    def model_values(self, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the model as it is given, or as it was chosen, and its whole configuration."""
        spec, given = self.spec, self.model
        if self.folder is not None:
            return given, spec.saved_model(self.folder, given, self.changes)
        if not self.model_named:
            given = merge({"preset": spec.preset}, merge(chosen, given))
        return given, spec.model(given, self.changes).to_dict()

    def config(self, chosen: Mapping[str, Any]) -> C:
        spec, (given, model) = self.spec, self.model_values(chosen)
        values = merge(spec.defaults(given, self.values, self.folder), self.values)
        return with_commits(parse(spec.schema, {**values, "model": model}, where=self.where))


def resolve(
    options: Mapping[str, Any],
    *,
    spec: Spec[C],
    toml: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    where: str | None = None,
) -> Resolved[C]:
    """Return the configuration of a run.

    Args:
        options: nested values laid out as the configuration is; None and empty ones are not given. `model` is a name
            or a file, and `vocabulary` beside it a vocabulary.
        toml: the path of a TOML file with values of the configuration.
        overrides: KEY=VALUE as `--set` takes them, or a nested mapping.
        where: the origin of the values in messages.

    Raises:
        ConfigError: an unknown key, a value that is not allowed, or values that exclude each other.
        DataError: the first training file, looked at for the task, cannot be read.
    """
    file = read_toml(toml) if toml else {}
    given = dict(spec.options(present(options), file, toml or ""))
    changes = dict(overrides) if isinstance(overrides, Mapping) else read_overrides(overrides)
    beside: dict[str, Any] = {}
    if (vocabulary := given.pop("vocabulary", None)) is not None:
        beside = _nested(spec.vocabulary, vocabulary)
    values = {**file, "model": given.pop("model", file.get("model", {}))}
    values = merge(values, given)
    model_changes = changes.pop("model", {})
    if isinstance(model_changes, str):
        model_changes = {"preset": model_changes}
    if "preset" in model_changes:  # which takes the place of the file's model
        values["model"], model_changes = model_changes["preset"], _without(model_changes, "preset")
    model_changes = merge(beside.pop("model", {}), model_changes)
    values = merge(merge(values, beside), changes)
    model = values.pop("model")
    if not isinstance(model, str | Mapping):
        parse(spec.schema, {"model": model}, where=where or toml or "options")
    folder = spec.pretrained(values)
    if folder is not None and (isinstance(model, str) or spec.whole & model.keys()):
        raise ConfigError(f"--from {folder} is the model; leave out --model")
    layers = _Layers(
        spec=spec, values=values, model=model, changes=model_changes, folder=folder, where=where or toml or "options"
    )
    layers.model_values({})  # what is wrong with the options comes before what is wrong with the files
    complete, remarks = spec.complete(values)
    layers = replace(layers, values=complete)
    return Resolved(config=layers.config({}), remarks=remarks, model_named=layers.model_named, _layers=layers)


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value


class _Labels(Spec[RunConfig]):
    schema = RunConfig
    preset = DEFAULT_PRESET
    whole = frozenset({"preset", "layers"})

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        start = values.get("start")
        return start.get("pretrained") if isinstance(start, Mapping) else None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        if "vocabulary" in merge(given, changes).get("text", {}):
            raise ConfigError(f"--from {folder} has the subwords that it was trained with; leave out --vocabulary")
        return with_changes(merge(pretrained_config(folder), given), changes).to_dict()

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
        return with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        if folder is not None:
            return {"train": FINE_TUNING}
        defaults = preset_values(model if isinstance(model, str) else model.get("preset", ""))
        if "start" in values:  # the user's own takes its place
            return _without(defaults, "start")
        return defaults

    def complete(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        if "task" in values:
            return values, ()
        task, why = infer_task(values.get("data", {}))
        return {**values, "task": task}, (f"task: {task} ({why}; --task chooses another)",)

    def for_examples(self, config: RunConfig, train: Dataset) -> tuple[Mapping[str, Any], str]:
        choice = choose_model(train, config)
        remark = f"model: {choice.name} ({choice.why}; --model takes another)"
        return {"preset": choice.name, **choice.changes}, remark


class _Pretraining(Spec[PretrainConfig]):
    schema = PretrainConfig
    preset = DEFAULT_MODEL
    whole = frozenset({"preset", "layers"})

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
        return with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        return {"train": DEFAULTS.to_dict()}


LABELS, MASKED_LM = _Labels(), _Pretraining()
