"""The kinds of runs. Each is an object in a file of its own, which is imported when a run of the kind is met."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mixling.errors import ModelFileError, command_line

# Values of `kind` in run.json and config.json.
TRAINING = "training"
PRETRAINING = "pretraining"
TEXT_TO_TEXT = "text to text"
IMAGES = "images"

# Where each kind is. The product knows the research side by this table only.
_HOMES = {
    TRAINING: "mixling.runs.kind",
    PRETRAINING: "mixling.research.pretraining.kind",
    TEXT_TO_TEXT: "mixling.research.seq2seq.kind",
    IMAGES: "mixling.research.vision.kind",
}
_KINDS: dict[str, RunKind] = {}


@dataclass(frozen=True, kw_only=True)
class Clues:
    """What shows which kind of run a user asks for, where no task is named.

    Attributes:
        model: the name of a preset.
        options: whether options are given that only pairs of texts have.
        toml: the values of a configuration.
        pretrained: the kind of the run that is trained further.
        folder: the first training file, if it is a folder.
        columns: of the first row, if no option names one.
    """

    model: str | None = None
    options: bool = False
    toml: Mapping[str, Any] = field(default_factory=dict)
    pretrained: RunKind | None = None
    folder: Path | None = None
    columns: frozenset[str] = frozenset()


class RunKind(ABC):
    """A kind of run: what its folder holds, and what can be done with its model.

    Attributes:
        name: the value of `kind` in run.json and config.json.
        command: the subcommand that starts such runs.
        task: the name of --task that asks for such a run, beside the names of `mixling.tasks`.
        data_keys: the keys of the configuration that name data, which a fingerprint identifies by its content instead.
        option_keys: the keys of the configuration that options became, by the option's name without its hyphens.
        does: what the model does, for messages.
        commands: the module of its part of the command line, see `mixling.cli.kinds`; "": the module of labeled texts.
        labeled: it trains on labeled texts, whose labels a later run can keep.
        generates: the model generates text.
    """

    name: ClassVar[str]
    command: ClassVar[str] = "train"
    task: ClassVar[str | None] = None
    data_keys: ClassVar[frozenset[str]]
    option_keys: ClassVar[Mapping[str, str]] = {}
    does: ClassVar[str]
    commands: ClassVar[str] = ""
    labeled: ClassVar[bool] = False
    generates: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            _KINDS[cls.name] = cls()

    @abstractmethod
    def load(self, path: str | Path) -> Any:
        """Load the model of a folder."""

    def serve(self, name: str, path: Path, *, max_texts: int, max_chars: int) -> Any:
        """Return a model that `generates`, for the server (`mixling.serving.models.LoadedOther`)."""
        raise NotImplementedError(f"{self.name}: the server answers with its model.onnx")

    @abstractmethod
    def describe(self, folder: Path) -> dict[str, Any]:
        """Return facts about the model of a folder, without torch; see `mixling.artifacts.description`."""

    @abstractmethod
    def toml(self, model: str | None = None) -> str:
        """Return the default configuration of such a run, with the default or another model; see `default_toml`."""

    def presets(self) -> Collection[str]:
        """Return the names of the models that only such runs have."""
        return ()

    @abstractmethod
    def summary(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the lines of `mixling show`, given what `describe` returned."""

    def fits(self, clues: Clues) -> bool:
        """Whether a user asks for such a run."""
        return False

    def resume_command(self, folder: str | Path, *, distills: bool) -> str:
        """Return the command line that resumes a run in a folder; `distills`: with a teacher."""
        command = "distill" if distills else self.command
        return command_line("mixling", command, "--resume", "-o", folder)


def kind_named(name: str) -> RunKind:
    """Return a kind by its name, a key of the table in this file."""
    importlib.import_module(_HOMES[name])
    return _KINDS[name]


def all_kinds() -> Iterator[RunKind]:
    """Yield all kinds, labeled texts first."""
    return map(kind_named, _HOMES)


def kind_of(saved: Mapping[str, Any], *, where: Path) -> RunKind:
    """Return the kind of run from the content of config.json or run.json.

    Args:
        where: the file, for error messages.

    Raises:
        ModelFileError: this version does not know the kind.
    """
    name = saved.get("kind", TRAINING)
    if name not in _HOMES:
        raise ModelFileError(f"{where}: got kind {name!r}; this version reads {', '.join(_HOMES)}")
    return kind_named(name)
