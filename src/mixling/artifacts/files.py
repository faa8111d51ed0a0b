"""The files of a run folder: their names, and the one reader of those in JSON; without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixling.errors import ModelFileError
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import MAX_JSON, read_json
from mixling.text.vocabulary import FILES as VOCABULARY_FILES
from mixling.training.files import CHECKPOINT, HISTORY

RUN_FILE = "run.json"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
METRICS_FILE = "metrics.json"
CARD_FILE = "README.md"
CONFUSION_FILE = "confusion.png"
CURVES_FILE = "curves.png"
MAX_WEIGHTS = 2 << 30  # bytes; the limit of the ONNX format, applied to model.safetensors as well
TEACHER_FOLDER = "teacher"  # the fine-tuned teacher and its probabilities, in runs with distillation
CORPUS_FOLDER = "corpus"  # encoded unlabeled text
REFIT_FOLDER = "refit"  # an unfinished second training on all examples
NEXT = ".next"  # the run that will replace the one in the folder; see `mixling.artifacts.replacement`
COMPLETE = "complete"  # marker in NEXT: its files belong to the folder from now on
SEEN_FILE = "seen_rows.bin"  # hashes of the rows that the model was fitted on; never leaves the folder
TEST_FILE = "test.jsonl"  # the rows that were held out to test on; they never leave the folder
SETUP_FILE = "checkpoint.json"  # model configuration, labels and vocabulary of an unfinished run

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
# All files that a run may write besides run.json; an older run's are removed before a new one begins.
WRITTEN = (
    *(name for name in DESCRIPTIONS if name != RUN_FILE),
    *VOCABULARY_FILES,
    SETUP_FILE,
    CHECKPOINT,
    CONFUSION_FILE,
    f"{CONFUSION_FILE}.txt",  # class names, where no font has their characters
    CURVES_FILE,
    CARD_FILE,
    SEEN_FILE,
    TEST_FILE,
)


def read_file(folder: Path, name: str) -> dict[str, Any]:
    """Return the content of a JSON file of a run folder.

    Raises:
        FileNotFoundError: the file does not exist.
        ModelFileError: it is damaged or has another format.
    """
    saved = read_json(folder / name)
    for key, kind in _REQUIRED.get(name, {}).items():
        if not isinstance(saved.get(key), kind):
            raise ModelFileError(f"{folder / name}: is damaged: {key!r} is missing or of the wrong type")
    return saved


def read_run(folder: Path) -> dict[str, Any]:
    """Return the record of the run in a folder; raises as `read_file`."""
    return read_file(folder, RUN_FILE)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json in a folder; raises as `read_file`."""
    return read_file(folder, CONFIG_FILE)


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return the content of metrics.json in a folder; raises as `read_file`."""
    return read_file(folder, METRICS_FILE)


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder is finished.

    Raises:
        ModelFileError: the record is missing or damaged.
    """
    try:
        return bool(read_run(folder)["finished"])
    except FileNotFoundError:
        raise ModelFileError(f"{folder / RUN_FILE}: is missing") from None


def is_complete(folder: Path) -> bool:
    """Return whether a new run, whose files are all in NEXT, is replacing the one in a folder."""
    return (folder / NEXT / COMPLETE).exists()


def folder_to_resume(folder: Path) -> Path:
    """Return the folder of the run that --resume continues: the replacing run's, if there is one."""
    return folder / NEXT if (folder / NEXT / RUN_FILE).exists() else folder


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
        most = MAX_WEIGHTS if name in (ONNX_FILE, WEIGHTS_FILE, SEEN_FILE, TEST_FILE) else MAX_JSON
        if (size := path.stat().st_size) > most:
            raise ModelFileError(f"{path}: has {size:,} bytes; allowed: up to {most:,}")
        out[name] = path.read_bytes()
    return out
