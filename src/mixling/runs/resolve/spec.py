"""Resolving the configuration of a run from options, a TOML file, overrides, presets and the data.

In order of increasing precedence: defaults of the kind of run and of the preset, the model chosen for the examples,
the TOML file, options, overrides (`--set`). A resolved configuration is never changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from mixling.config import Config, merge, parse, present, read_overrides, read_toml, refuse_other_types
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.networks.config import ModelConfig
from mixling.networks.presets import DEFAULT_PRESET, preset_values, with_changes
from mixling.runs.pretrained import FINE_TUNING, inherited_defaults, pretrained_config
from mixling.runs.resolve.choice import choose_batches, choose_model, choose_ngrams
from mixling.runs.resolve.config import RunConfig
from mixling.runs.resolve.hub_names import with_commits
from mixling.tasks import BY_DEFAULT, infer_task
from mixling.training.callbacks import Detail

_C = TypeVar("_C", bound=Config)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Default values of the model, of the training and of the n-gram branch that fit the examples, and a remark."""

    model: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    ngrams: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


class Spec(ABC, Generic[_C]):
    """The rules by which configurations of one kind of run are resolved.

    Attributes:
        schema: the class of the configuration.
        preset: the default model.
        whole: keys that make a `model` table a complete model rather than changes to another.
    """

    schema: type[_C]
    preset: ClassVar[str]
    whole: ClassVar[frozenset[str]]

    def options(self, options: Mapping[str, Any], file: Mapping[str, Any], toml: str) -> Mapping[str, Any]:
        """Return the options in the form in which they override the TOML file's values."""
        return options

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        """Return the folder of the pretrained model; None if there is none."""
        return None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of the model in `folder`, updated by the user's values."""
        raise NotImplementedError

    @abstractmethod
    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
        """Return the configuration of a model given by name, file or table, with changes applied."""

    @abstractmethod
    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        """Return the defaults of the kind of run and its model."""

    def complete(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the values with those inferred from the data files added, and remarks for the user."""
        return values, ()

    def for_examples(self, config: _C, train: Dataset, *, model_named: bool) -> Chosen:
        """Return default values that fit the examples; of the model none if the user named one."""
        return Chosen()


@dataclass(frozen=True, kw_only=True)
class Resolved(Generic[_C]):
    """A resolved configuration, remarks on inferred values, and whether the user named a model."""

    config: _C
    remarks: tuple[str, ...]
    model_named: bool
    _layers: _Layers[_C]

    def for_examples(self, train: Dataset) -> Resolved[_C]:
        """Return the configuration with what fits the examples: a model, unless the user named one, and batches.

        The remarks are those on the choice of the model.
        """
        chosen = self._layers.spec.for_examples(self.config, train, model_named=self.model_named)
        remarks = (chosen.remark,) if chosen.remark else ()
        return replace(self, config=self._layers.config(chosen), remarks=remarks)


@dataclass(frozen=True, kw_only=True)
class _Layers(Generic[_C]):
    """The user's values with those inferred from files; `model` and `changes` override presets."""

    spec: Spec[_C]
    values: Mapping[str, Any]
    model: Any
    changes: Mapping[str, Any]
    folder: str | None
    where: str

    @property
    def model_named(self) -> bool:
        return self.folder is not None or isinstance(self.model, str) or bool(self.spec.whole & self.model.keys())

    def model_values(self, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the model as given or chosen, and its complete configuration."""
        given = self.model
        if self.folder is None and not self.model_named:
            given = merge({"preset": self.spec.preset}, merge(chosen, given))
        if self.folder is None:
            return given, self.spec.model(given, self.changes).to_dict()
        assert isinstance(given, Mapping)
        return given, self.spec.saved_model(self.folder, given, self.changes)

    def config(self, chosen: Chosen) -> _C:
        spec = self.spec
        (given, model) = self.model_values(chosen.model)
        defaults = spec.defaults(given, self.values, self.folder)
        if not any(self.values.get("train", {}).get(key) for key in ("batch_size", "optim")):  # one needs the other
            defaults = merge(defaults, {"train": chosen.train})
        if chosen.ngrams:
            defaults = merge({"ngrams": chosen.ngrams}, defaults)  # as of a model that is trained further stay
        values = merge(defaults, self.values)
        return with_commits(parse(spec.schema, {**values, "model": model}, where=self.where))


# Keys that are read before the whole is parsed, and the types that they must have by then.
_READ_FIRST = {
    **dict.fromkeys(("data", "train", "ngrams", "decisions"), (Mapping,)),
    "model": (str, Mapping),
}


def resolve(
    options: Mapping[str, Any],
    *,
    spec: Spec[_C],
    toml: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    where: str | None = None,
) -> Resolved[_C]:
    """Return the configuration of a run.

    Args:
        options: values nested as in the configuration; None and empty values are ignored. `model` is a name or file.
        spec: the rules of the kind of run.
        toml: the path of a TOML file with values of the configuration.
        overrides: KEY=VALUE as `--set` takes them, or a nested mapping.
        where: the origin of the values, for error messages.

    Raises:
        ConfigError: a key is unknown, a value is not allowed, or values exclude each other.
        DataError: the first training file, from which the task is inferred, cannot be read.
    """
    file = read_toml(toml) if toml else {}
    given = dict(spec.options(present(options), file, toml or ""))
    changes = dict(overrides) if isinstance(overrides, Mapping) else read_overrides(overrides)
    values = {**file, "model": given.pop("model", file.get("model", {}))}
    values = merge(values, given)
    origin = where or toml or "options"
    for part in (file, values, changes):
        wrong = {name: part[name] for name, kinds in _READ_FIRST.items() if not isinstance(part.get(name, {}), kinds)}
        if wrong:
            parse(spec.schema, wrong, where=origin)
        refuse_other_types(spec.schema, _without(part, "model"), where=origin)
    model_changes = changes.pop("model", {})
    if isinstance(model_changes, str):
        model_changes = {"preset": model_changes}
    if "preset" in model_changes:  # replaces the file's model
        values["model"], model_changes = model_changes["preset"], _without(model_changes, "preset")
    values = merge(values, changes)
    model = values.pop("model")
    folder = spec.pretrained(values)
    if folder is not None and (isinstance(model, str) or spec.whole & model.keys()):
        raise ConfigError(f"--from {folder} already names the model; leave out --model")
    layers = _Layers(
        spec=spec,
        values=values,
        model=model,
        changes=model_changes,
        folder=folder,
        where=origin,
    )
    layers.model_values({})  # report errors in the options before errors in the files
    complete, remarks = spec.complete(values)
    layers = replace(layers, values=complete)
    return Resolved(config=layers.config(Chosen()), remarks=remarks, model_named=layers.model_named, _layers=layers)


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


class _Labels(Spec[RunConfig]):
    schema = RunConfig
    preset = DEFAULT_PRESET
    whole = frozenset({"preset", "layers"})

    def pretrained(self, values: Mapping[str, Any]) -> str | None:
        init = values.get("init")
        return init.get("pretrained") if isinstance(init, Mapping) else None

    def saved_model(self, folder: str, given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        if "vocabulary" in merge(given, changes).get("text", {}):
            raise ConfigError(f"--from {folder} includes its vocabulary; leave out model.text.vocabulary")
        return with_changes(merge(pretrained_config(folder), given), changes).to_dict()

    def model(self, given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
        return with_changes(given, changes)

    def defaults(
        self, model: str | Mapping[str, Any], values: Mapping[str, Any], folder: str | None
    ) -> Mapping[str, Any]:
        if folder is not None:
            return {"train": FINE_TUNING, **inherited_defaults(folder)}
        defaults = preset_values(model if isinstance(model, str) else model.get("preset", ""))
        if "init" in values:  # the user's replaces the preset's
            return _without(defaults, "init")
        return defaults

    def complete(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        if (
            values.get("ngrams", {}).get("refit")
            and values.get("data", {}).get("validation")
            and not values.get("decisions", {}).get("refit")
        ):
            raise ConfigError(
                "ngrams.refit = true would train on the validation files that are named; leave one of them out, or set "
                "decisions.refit = true (--refit), which trains on them in the end"
            )
        if "task" in values:
            return values, ()
        task, why, hint = infer_task(values.get("data", {}))
        remark = f"task: {task} ({why}; change it with --task)"
        remarks = (Detail(remark) if why == BY_DEFAULT else remark, *([hint] if hint else []))
        return {**values, "task": task}, remarks

    def for_examples(self, config: RunConfig, train: Dataset, *, model_named: bool) -> Chosen:
        ngrams = choose_ngrams(train)
        if model_named:
            batches = choose_batches(train, config, initialized=config.init.training_texts)
            return Chosen(train=batches, ngrams=ngrams)
        choice = choose_model(train, config)
        remark = f"model: {choice.name} ({choice.why}; change it with --model)"
        model = {"preset": choice.name, **choice.changes}
        return Chosen(model=model, train=choice.train, ngrams=ngrams, remark=remark)


LABELS = _Labels()
