"""The folder of a run: the names of its files, and what its JSON files say; without torch."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open

from mixling.errors import ModelFileError, command_line
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.storage import MAX_JSON, check_sha256, read_json
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.training.files import CHECKPOINT, HISTORY

__all__ = ["ONNX_FILE"]

T = TypeVar("T")

RUN_FILE, CONFIG_FILE, WEIGHTS_FILE = "run.json", "config.json", "model.safetensors"
METRICS_FILE, CARD_FILE = "metrics.json", "README.md"
CONFUSION_FILE, CURVES_FILE = "confusion.png", "curves.png"
MAX_WEIGHTS = 2 << 30  # bytes of model.onnx, as its format allows, and of the same weights in model.safetensors
TEACHER_FOLDER = "teacher"  # of a distilled run: the fine-tuned teacher, and its answers
CORPUS_FOLDER = "corpus"  # of unlabelled text, encoded
NEXT = ".next"  # of the run that will replace the one in the folder; see `mixling.runs.replacement`
COMPLETE = "complete"  # in NEXT: its files are the folder's from now on
SETUP_FILE = "checkpoint.json"  # of an unfinished run: the model, labels and vocabulary that its checkpoint is of

# The kind of a run, as run.json and config.json have it; training on labelled rows has none there.
TRAINING, PRETRAINING, TEXT_TO_TEXT = "training", "pretraining", "text to text"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run.

    Attributes:
        command: begins and resumes such runs.
        load: MODULE:NAME of what opens a folder of it, given the path.
        inspect: MODULE:NAME of what prepares its model, and texts, for `mixling.inspect.weights`.
    """

    command: str
    load: str
    inspect: str


KINDS = {
    TRAINING: Kind(
        command="train", load="mixling.runtime.predictor:Predictor", inspect="mixling.inspect.folders:of_trained"
    ),
    PRETRAINING: Kind(
        command="pretrain",
        load="mixling.runs.pretrained:load_pretraining",
        inspect="mixling.inspect.folders:of_pretrained",
    ),
    TEXT_TO_TEXT: Kind(
        command="train",
        load="mixling.seq2seq.generator:TextGenerator",
        inspect="mixling.seq2seq.inspection:of_generator",
    ),
}

DESCRIPTIONS = {
    ONNX_FILE: "the model, its configuration, vocabulary and labels: this file alone predicts",
    WEIGHTS_FILE: "the float weights, for torch",
    CONFIG_FILE: "the configuration of the model, and its labels",
    RUN_FILE: "the complete configuration of the run",
    METRICS_FILE: "measures on the dev split",
    HISTORY: "measures of every evaluation",
}
# Beside run.json all that a run may write; of an older run they go before the new one begins.
WRITTEN = (
    *(name for name in DESCRIPTIONS if name != RUN_FILE),
    *VOCABULARY_FILES,
    SETUP_FILE,
    CHECKPOINT,
    CONFUSION_FILE,
    f"{CONFUSION_FILE}.txt",  # names of classes that no font can draw
    CURVES_FILE,
    CARD_FILE,
)


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A run that has begun and is not finished.

    folder: where its files are. step: of `total_steps`; 0 before the first checkpoint. best: the best evaluation so
    far, a record of metrics.jsonl. command: resumes the run.
    """

    folder: Path
    step: int
    total_steps: int | None
    best: dict[str, Any] | None
    command: str


def is_complete(folder: Path) -> bool:
    """Return whether a new run is replacing the one in a folder, all of whose files are in NEXT."""
    return (folder / NEXT / COMPLETE).exists()


def read_folder(path: str | Path, read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a saved model, all of it of one run, also while another run replaces that.

    Args:
        path: the folder of a run, or a file, which is given as it is.
        read: takes the folder where the files are; it is called again where they were replaced meanwhile.
    """
    folder = Path(path)

    def state() -> tuple[Any, ...]:
        return is_complete(folder), *(_identity(folder / name) for name in (RUN_FILE, CONFIG_FILE, ONNX_FILE))

    while True:
        before = state()
        try:
            found = read(folder / NEXT if before[0] else folder)
        except Exception:
            if state() == before:
                raise
        else:
            if state() == before:
                return found


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def folder_to_resume(folder: Path) -> Path:
    """Return where the run is that --resume is about: the one that replaces the folder's, if there is one."""
    return folder / NEXT if (folder / NEXT / RUN_FILE).exists() else folder


def unfinished_run(path: str | Path) -> Unfinished | None:
    """Return the unfinished run of a folder, which may be one that replaces a finished one; None where there is none.

    Raises:
        ModelFileError: its record or its checkpoint is damaged.
    """
    folder = Path(path)
    place = folder_to_resume(folder)
    try:
        record = read_run(place)
    except FileNotFoundError:
        return None
    if record["finished"]:
        return None
    commands = {PRETRAINING: "pretrain"}
    name = commands.get(record.get("kind", TRAINING), "train")
    state: dict[str, Any] = {}
    try:
        with safe_open(place / CHECKPOINT, framework="np") as file:
            state = json.loads(file.metadata()["state"])
        best = [item for item in state["history"] if item["best"]]
        step, total_steps = int(state["step"]), int(state["total_steps"])
    except FileNotFoundError:
        best, step, total_steps = [], 0, None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{place / CHECKPOINT}: is damaged: {error}") from None
    return Unfinished(
        folder=place,
        step=step,
        total_steps=total_steps,
        best=best[-1] if best else None,
        command=command_line("mixling", name, "--resume", "-o", folder),
    )


def read_run(folder: Path) -> dict[str, Any]:
    """Return the record of the run in a folder.

    Raises:
        FileNotFoundError: there is none.
        ModelFileError: it is damaged.
    """
    record = read_json(folder / RUN_FILE)
    for key, kind in (("config", dict), ("finished", bool)):
        if not isinstance(record.get(key), kind):
            raise ModelFileError(f"{folder / RUN_FILE}: is damaged: {key!r} is missing or of the wrong type")
    return record


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder, of any kind, is finished.

    Raises:
        ModelFileError: its record is missing or damaged.
    """
    try:
        return bool(read_run(folder)["finished"])
    except FileNotFoundError:
        raise ModelFileError(f"{folder / RUN_FILE}: is missing") from None


def kind_of_run(folder: Path) -> str | None:
    """Return the kind of run that --resume is about; None where there is none, or its record is damaged."""
    try:
        return str(read_run(folder_to_resume(folder)).get("kind", TRAINING))
    except (FileNotFoundError, ModelFileError):
        return None


def read_config(folder: Path) -> dict[str, Any]:
    """Return what config.json records of the model in a folder; its `kind` is missing where it gives texts labels.

    Raises:
        FileNotFoundError: there is none.
        ModelFileError: it is damaged, or of another format.
    """
    saved = read_json(folder / CONFIG_FILE)
    if not isinstance(saved.get("format_version"), int):
        raise ModelFileError(f"{folder / CONFIG_FILE}: is damaged: 'format_version' is missing or no number")
    return saved


def kind_of(saved: Mapping[str, Any]) -> Kind:
    """Return the kind of run whose config.json or run.json has this content.

    Raises:
        ModelFileError: this version knows no such kind.
    """
    name = saved.get("kind", TRAINING)
    if name not in KINDS:
        raise ModelFileError(f"got kind {name!r}; this version reads {', '.join(KINDS)}")
    return KINDS[name]


def load_object(name: str) -> Any:
    """Return the object MODULE:NAME; its module, which may need torch, is imported now."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def vocabulary_file(folder: Path, saved: Mapping[str, Any]) -> Path:
    """Return the path of the vocabulary in a folder, which is the one that the model was trained with.

    Args:
        saved: the content of config.json.

    Raises:
        ModelFileError: it is missing, or another.
    """
    name = saved.get("vocabulary")
    if not isinstance(name, str) or not Path(name).name:
        raise ModelFileError(f"{folder / CONFIG_FILE}: is damaged: it names no vocabulary")
    path = folder / Path(name).name
    if path.is_file() and path.stat().st_size > MAX_JSON:
        raise ModelFileError(f"{path}: has {path.stat().st_size:,} bytes; allowed: up to {MAX_JSON:,}")
    check_sha256(path, saved.get("vocabulary_sha256"))
    return path


def run_files(folder: Path) -> dict[str, bytes]:
    """Return the content of the files that a finished run wrote into a folder; other files and links are left out.

    A `model.onnx` that is a link is followed: what is not a model is refused where it is opened.

    Raises:
        OSError: a file cannot be read.
        ModelFileError: a file is too large to be of a model.
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


def kind_of_model(path: str | Path) -> str | None:
    """Return the kind of the finished run in a folder that holds no file which predicts; None of all else.

    Raises:
        ModelFileError: its config.json is damaged.
    """

    def read(folder: Path) -> str | None:
        if (folder / ONNX_FILE).exists():
            return None
        try:
            kind = read_config(folder).get("kind")
        except FileNotFoundError:
            return None
        return None if kind is None else str(kind)

    return read_folder(path, read)
