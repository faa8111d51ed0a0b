"""The folder of a run: the names of its files, and what its JSON files say; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixling.errors import ModelFileError
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.storage import MAX_JSON, check_sha256, read_json
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.training.files import CHECKPOINT, HISTORY

__all__ = ["ONNX_FILE"]

RUN_FILE, CONFIG_FILE, WEIGHTS_FILE = "run.json", "config.json", "model.safetensors"
METRICS_FILE, CARD_FILE = "metrics.json", "README.md"
CONFUSION_FILE, CURVES_FILE = "confusion.png", "curves.png"
MAX_WEIGHTS = 2 << 30  # bytes of model.onnx, as its format allows, and of the same weights in model.safetensors
TEACHER_FOLDER = "teacher"  # of a distilled run: the fine-tuned teacher, and its answers
CORPUS_FOLDER = "corpus"  # of unlabelled text, encoded

# The kind of a run, as run.json and config.json have it; training on labelled rows has none there.
TRAINING, PRETRAINING, TEXT_TO_TEXT = "training", "pretraining", "text to text"

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
    CHECKPOINT,
    CONFUSION_FILE,
    f"{CONFUSION_FILE}.txt",  # names of classes that no font can draw
    CURVES_FILE,
    CARD_FILE,
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
    """Return what kind of run is in a folder; None where there is none, or its record is damaged."""
    try:
        return str(read_run(folder).get("kind", TRAINING))
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
    folder = Path(path)
    if (folder / ONNX_FILE).exists():
        return None
    try:
        kind = read_config(folder).get("kind")
    except FileNotFoundError:
        return None
    return None if kind is None else str(kind)
