"""Saved models: reading the folder of a finished run consistently; without torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mixling.artifacts.files import CONFIG_FILE, NEXT, RUN_FILE, WRITTEN, is_complete, read_config
from mixling.artifacts.kinds import TRAINING, RunKind, kind_named, kind_of
from mixling.errors import ConfigError, ModelFileError
from mixling.hub import fetch_folder, on_hub
from mixling.runtime.hub_model import check_copy
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import MAX_JSON, check_sha256, sha256_of
from mixling.training.files import CHECKPOINT

if TYPE_CHECKING:
    from mixling.config import Config

_C = TypeVar("_C", bound="Config")
_T = TypeVar("_T")


def read_folder(path: str | Path, read: Callable[[Path], _T]) -> _T:
    """Read a saved model consistently, even while another run is replacing it.

    Args:
        path: the folder of a run, also one on the hub (`hf:NAME[@REVISION]`); or a file, which is passed on unchanged.
        read: receives the folder that holds the files; called again if they were replaced meanwhile.

    Returns:
        The result of `read`, with all files from one run.
    """
    folder = fetch_run(str(path)) if on_hub(path) else Path(path)

    def state() -> tuple[Any, ...]:
        return is_complete(folder), *(_identity(folder / name) for name in (RUN_FILE, CONFIG_FILE, ONNX_FILE))

    while True:
        before = state()
        try:
            result = read(folder / NEXT if before[0] else folder)
        except Exception:
            if state() == before:
                raise
        else:
            if state() == before:
                return result


def fetch_run(name: str) -> Path:
    """Return a folder with local copies of the files of a run on the hub.

    Raises:
        UserError: see `mixling.hub.fetch_folder`.
        ModelFileError: it holds no model, or its model.onnx is damaged.
    """
    folder = fetch_folder(name, [RUN_FILE, *(file for file in WRITTEN if file != CHECKPOINT)])
    if (folder / ONNX_FILE).exists():
        check_copy(folder / ONNX_FILE, name)
    elif not (folder / CONFIG_FILE).exists():
        raise ModelFileError(f"{name}: holds no model of mixling: neither {ONNX_FILE} nor {CONFIG_FILE}")
    return folder


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


@dataclass(frozen=True)
class Artifact:
    """The folder of a finished run; `saved` is the content of its config.json."""

    folder: Path
    saved: Mapping[str, Any]

    @property
    def kind(self) -> RunKind:
        """The kind of run that wrote the folder; raises as `kind_of`."""
        return kind_of(self.saved, where=self.folder / CONFIG_FILE)

    @property
    def digest(self) -> str:
        """The SHA-256 of config.json, which has the checksums of the other files."""
        return sha256_of(self.folder / CONFIG_FILE)

    def parse(self, schema: type[_C], values: Any) -> _C:
        """Return `values` of config.json as a configuration.

        Raises:
            ConfigError: they do not fit the schema.
        """
        from mixling.config import parse

        return parse(schema, values, where=str(self.folder / CONFIG_FILE))

    def vocabulary(self) -> Path:
        """Return the path of the vocabulary that the model was trained with.

        Raises:
            ModelFileError: it is missing, too large or has another checksum.
        """
        name = self.saved.get("vocabulary")
        if not isinstance(name, str) or not Path(name).name:
            raise ModelFileError(f"{self.folder / CONFIG_FILE}: is damaged: it names no vocabulary")
        path = self.folder / Path(name).name
        if path.is_file() and path.stat().st_size > MAX_JSON:
            raise ModelFileError(f"{path}: has {path.stat().st_size:,} bytes; allowed: up to {MAX_JSON:,}")
        check_sha256(path, self.saved.get("vocabulary_sha256"))
        return path


def read_artifact(
    path: str | Path, read: Callable[[Artifact], _T], *, hint: str, kinds: Collection[str] | None = None
) -> _T:
    """Read the folder of a finished run consistently, as `read_folder`.

    Args:
        read: receives the artifact; its result is returned.
        hint: which command makes such a folder, for error messages.
        kinds: the names of the accepted kinds; None: all.

    Raises:
        ConfigError: the folder holds no finished run, or one of another kind.
        ModelFileError: a file is missing or damaged.
    """

    def attempt(folder: Path) -> _T:
        try:
            artifact = Artifact(folder, read_config(folder))
        except FileNotFoundError:
            raise ConfigError(f"{path}: is not the folder of a finished run; {hint}") from None
        if kinds is not None and artifact.kind.name not in kinds:
            raise ConfigError(f"{path}: its model {artifact.kind.does}; {hint}")
        try:
            return read(artifact)
        except (OSError, KeyError, TypeError, ValueError, RuntimeError, ConfigError) as error:
            missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            reason = missing.splitlines()[0] if missing else type(error).__name__
            raise ModelFileError(f"{path}: is not a complete run folder: {reason}") from None

    return read_folder(path, attempt)


def load(path: str | Path) -> Any:
    """Load the model of a run folder or a `model.onnx`.

    Returns:
        A `Predictor` for models that predict labels or answers, a `TextGenerator` for models that generate text, an
        `ImageClassifier` for models of images, or a `PretrainedModel` for models of `mixling pretrain`.

    Raises:
        ModelFileError: there is no model, or a file is damaged.
    """
    return kind_of_model(path).load(path)


def kind_of_model(path: str | Path) -> RunKind:
    """Return the kind of the finished run in a folder; a model.onnx has the kind of labeled texts.

    Raises:
        ModelFileError: config.json is damaged or has a kind that this version does not know.
    """

    def read(folder: Path) -> RunKind:
        if (folder / ONNX_FILE).exists():
            return kind_named(TRAINING)
        try:
            return Artifact(folder, read_config(folder)).kind
        except FileNotFoundError:
            return kind_named(TRAINING)

    return read_folder(path, read)
