"""Run folders: the names of the files and readers of the JSON files, without torch."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError, safe_open

from mixling.errors import ConfigError, ModelFileError, command_line
from mixling.hub import fetch_folder, on_hub
from mixling.runtime.hub_model import check_copy
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.storage import MAX_JSON, check_sha256, read_json
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.training.files import CHECKPOINT, HISTORY

if TYPE_CHECKING:
    from torch import nn

    from mixling.config import Config

__all__ = ["ONNX_FILE"]

_C = TypeVar("_C", bound="Config")
_M = TypeVar("_M", bound="nn.Module")
_T = TypeVar("_T")

RUN_FILE, CONFIG_FILE, WEIGHTS_FILE = "run.json", "config.json", "model.safetensors"
METRICS_FILE, CARD_FILE = "metrics.json", "README.md"
CONFUSION_FILE, CURVES_FILE = "confusion.png", "curves.png"
MAX_WEIGHTS = 2 << 30  # bytes; the limit of the ONNX format, applied to model.safetensors as well
TEACHER_FOLDER = "teacher"  # the fine-tuned teacher and its probabilities, in runs with distillation
CORPUS_FOLDER = "corpus"  # encoded unlabeled text
REFIT_FOLDER = "refit"  # an unfinished second training on all examples
NEXT = ".next"  # the run that will replace the one in the folder; see `mixling.runs.replacement`
COMPLETE = "complete"  # marker in NEXT: its files belong to the folder from now on
SETUP_FILE = "checkpoint.json"  # model configuration, labels and vocabulary of an unfinished run

# Values of `kind` in run.json and config.json.
TRAINING, PRETRAINING, TEXT_TO_TEXT, IMAGES = "training", "pretraining", "text to text", "images"


@dataclass(frozen=True, kw_only=True)
class ArtifactKind:
    """A kind of run.

    Attributes:
        command: the subcommand that starts and resumes such runs.
        model: what the model does, for messages.
        load: MODULE:NAME of the loader, which takes the path of a folder.
        inspect: MODULE:NAME of the function that prepares model and texts for `mixling.inspect.weights`.
    """

    command: str
    model: str
    load: str
    inspect: str


KINDS = {
    TRAINING: ArtifactKind(
        command="train",
        model="predicts labels or answers",
        load="mixling.runtime.predictor:Predictor",
        inspect="mixling.inspect.folders:of_trained",
    ),
    PRETRAINING: ArtifactKind(
        command="pretrain",
        model="is pretrained, for `mixling train --from`",
        load="mixling.runs.pretrained:load_pretraining",
        inspect="mixling.inspect.folders:of_pretrained",
    ),
    TEXT_TO_TEXT: ArtifactKind(
        command="train",
        model="generates text",
        load="mixling.seq2seq.generator:TextGenerator",
        inspect="mixling.seq2seq.inspection:of_generator",
    ),
    IMAGES: ArtifactKind(
        command="train",
        model="classifies images",
        load="mixling.vision.classifier:ImageClassifier",
        inspect="mixling.vision.inspection:of_classifier",
    ),
}

DESCRIPTIONS = {
    ONNX_FILE: "the model, its configuration, vocabulary and labels: this file alone predicts",
    WEIGHTS_FILE: "the float weights of the network, for torch",
    CONFIG_FILE: "the configuration of the model, and its labels",
    RUN_FILE: "the complete configuration of the run",
    METRICS_FILE: "metrics on the validation split",
    HISTORY: "metrics of every evaluation",
}
_REQUIRED: dict[str, dict[str, type]] = {
    RUN_FILE: {"config": dict, "finished": bool},
    CONFIG_FILE: {"format_version": int},
}
# All files that a run may write besides run.json; those of an older run are removed before a new one begins.
WRITTEN = (
    *(name for name in DESCRIPTIONS if name != RUN_FILE),
    *VOCABULARY_FILES,
    SETUP_FILE,
    CHECKPOINT,
    CONFUSION_FILE,
    f"{CONFUSION_FILE}.txt",  # class names, where no font has their characters
    CURVES_FILE,
    CARD_FILE,
)


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """An unfinished run.

    Attributes:
        folder: where its files are.
        step: the last step of `total_steps` with a checkpoint; 0 before the first checkpoint.
        total_steps: None before the first checkpoint.
        best: the best evaluation so far, a record of metrics.jsonl.
        command: the command line that resumes the run.
    """

    folder: Path
    step: int
    total_steps: int | None
    best: dict[str, Any] | None
    command: str


def is_complete(folder: Path) -> bool:
    """Return whether a new run, whose files are all in NEXT, is replacing the one in a folder."""
    return (folder / NEXT / COMPLETE).exists()


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


def folder_to_resume(folder: Path) -> Path:
    """Return the folder of the run that --resume continues: the replacing run's, if there is one."""
    return folder / NEXT if (folder / NEXT / RUN_FILE).exists() else folder


def unfinished_run(path: str | Path) -> Unfinished | None:
    """Return the unfinished run of a folder, which may be replacing a finished one; None if there is none.

    Raises:
        ModelFileError: the record or checkpoint is damaged.
    """
    folder = Path(path)
    location = folder_to_resume(folder)
    try:
        record = read_run(location)
    except FileNotFoundError:
        return None
    if record["finished"]:
        return None
    state: dict[str, Any] = {}
    try:
        with safe_open(location / CHECKPOINT, framework="np") as file:
            state = json.loads(file.metadata()["state"])
        best = [item for item in state["history"] if item["best"]]
        step, total_steps = int(state["step"]), int(state["total_steps"])
    except FileNotFoundError:
        best, step, total_steps = [], 0, None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{location / CHECKPOINT}: is damaged: {error}") from None
    return Unfinished(
        folder=location,
        step=step,
        total_steps=total_steps,
        best=best[-1] if best else None,
        command=command_line("mixling", kind_of(record, where=location / RUN_FILE).command, "--resume", "-o", folder),
    )


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of a run folder.

    Raises:
        FileNotFoundError: the file does not exist.
        ModelFileError: it is damaged or has another format.
    """
    saved = read_json(path)
    for key, kind in _REQUIRED.get(path.name, {}).items():
        if not isinstance(saved.get(key), kind):
            raise ModelFileError(f"{path}: is damaged: {key!r} is missing or of the wrong type")
    return saved


def read_run(folder: Path) -> dict[str, Any]:
    """Return the record of the run in a folder; raises as `read_file`."""
    return read_file(folder / RUN_FILE)


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder is finished.

    Raises:
        ModelFileError: the record is missing or damaged.
    """
    try:
        return bool(read_run(folder)["finished"])
    except FileNotFoundError:
        raise ModelFileError(f"{folder / RUN_FILE}: is missing") from None


def kind_of_run(folder: Path) -> str | None:
    """Return the kind of the run that --resume continues; None if there is none or its record is damaged."""
    try:
        return str(read_run(folder_to_resume(folder)).get("kind", TRAINING))
    except (FileNotFoundError, ModelFileError):
        return None


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json in a folder; raises as `read_file`."""
    return read_file(folder / CONFIG_FILE)


def kind_of(saved: Mapping[str, Any], *, where: Path) -> ArtifactKind:
    """Return the kind of run from the content of config.json or run.json.

    Args:
        where: the file, for error messages.

    Raises:
        ModelFileError: this version does not know the kind.
    """
    name = saved.get("kind", TRAINING)
    if name not in KINDS:
        raise ModelFileError(f"{where}: got kind {name!r}; this version reads {', '.join(KINDS)}")
    return KINDS[name]


def load_object(name: str) -> Any:
    """Import and return the object MODULE:NAME."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Artifact:
    """The folder of a finished run; `saved` is the content of its config.json."""

    folder: Path
    saved: Mapping[str, Any]

    @property
    def kind(self) -> ArtifactKind:
        """The kind of run that wrote the folder; raises as `kind_of`."""
        return kind_of(self.saved, where=self.folder / CONFIG_FILE)

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

    def model(self, build: Callable[[], _M]) -> _M:
        """Return the model that `build` creates, with the weights of the folder; raises as `read_model`."""
        from mixling.runs.weights import read_model

        return read_model(self.folder, self.saved, build)


def read_artifact(
    path: str | Path, read: Callable[[Artifact], _T], *, hint: str, kinds: Collection[str] = KINDS.keys()
) -> _T:
    """Read the folder of a finished run consistently, as `read_folder`.

    Args:
        read: receives the artifact; its result is returned.
        hint: which command makes such a folder, for error messages.
        kinds: the accepted names of `KINDS`.

    Raises:
        ConfigError: the folder holds no finished run, or one of another kind.
        ModelFileError: a file is missing or damaged.
    """

    def attempt(folder: Path) -> _T:
        try:
            artifact = Artifact(folder, read_config(folder))
        except FileNotFoundError:
            raise ConfigError(f"{path}: is not the folder of a finished run; {hint}") from None
        if artifact.kind not in [KINDS[name] for name in kinds]:
            raise ConfigError(f"{path}: its model {artifact.kind.model}; {hint}")
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
    return load_object(KINDS[kind_of_model(path)].load)(path)


def run_files(folder: Path) -> dict[str, bytes]:
    """Return the content of the files that a finished run wrote into a folder, without other files and links.

    A `model.onnx` that is a link is followed; its content is validated when it is opened.

    Raises:
        OSError: a file cannot be read.
        ModelFileError: a file is too large.
    """
    out = {}
    for name in sorted({RUN_FILE, *WRITTEN} - {CHECKPOINT}):
        path = folder / name
        if not path.is_file() or (path.is_symlink() and name != ONNX_FILE):
            continue
        most = MAX_WEIGHTS if name in (ONNX_FILE, WEIGHTS_FILE) else MAX_JSON
        if (size := path.stat().st_size) > most:
            raise ModelFileError(f"{path}: has {size:,} bytes; allowed: up to {most:,}")
        out[name] = path.read_bytes()
    return out


def kind_of_model(path: str | Path) -> str:
    """Return the kind of the finished run in a folder; TRAINING for a model.onnx and if there is no config.json.

    Raises:
        ModelFileError: config.json is damaged or has a kind that this version does not know.
    """

    def read(folder: Path) -> str:
        if (folder / ONNX_FILE).exists():
            return TRAINING
        try:
            artifact = Artifact(folder, read_config(folder))
        except FileNotFoundError:
            return TRAINING
        return next(name for name, kind in KINDS.items() if kind is artifact.kind)

    return read_folder(path, read)
