"""Which unfinished run is in a folder, and how to resume it; without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from mixling.artifacts.files import RUN_FILE, folder_to_resume, read_run
from mixling.artifacts.kinds import RunKind, kind_of
from mixling.errors import ModelFileError
from mixling.opening import open_regular
from mixling.storage import parse_json
from mixling.training.files import CHECKPOINT


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """An unfinished run.

    Attributes:
        folder: where its files are.
        step: the last step of `total_steps` with a checkpoint; 0 before the first checkpoint.
        total_steps: None before the first checkpoint.
        best: the evaluation whose weights the checkpoint keeps, a record of metrics.jsonl: the best so far, or the
            latest if the run keeps the last one.
        command: the command line that resumes the run.
    """

    folder: Path
    step: int
    total_steps: int | None
    best: dict[str, Any] | None
    command: str


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
        open_regular(location / CHECKPOINT).close()
        with safe_open(location / CHECKPOINT, framework="np") as file:
            state = parse_json(file.metadata()["state"])
        # None is marked where the last evaluation will be kept: the latest is what there is.
        best = [item for item in state["history"] if item["best"]] or state["history"][-1:]
        step = int(state["step"])
        total_steps = int(state["total_steps"])
    except FileNotFoundError:
        best = []
        step = 0
        total_steps = None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{location / CHECKPOINT}: is damaged: {error}") from None
    kind = kind_of(record, where=location / RUN_FILE)
    return Unfinished(
        folder=location,
        step=step,
        total_steps=total_steps,
        best=best[-1] if best else None,
        command=kind.resume_command(folder, distills=bool(record["config"].get("distill"))),
    )


def kind_of_run(folder: Path) -> RunKind | None:
    """Return the kind of the run that --resume continues; None if there is none or its record is damaged."""
    try:
        location = folder_to_resume(folder)
        return kind_of(read_run(location), where=location / RUN_FILE)
    except (FileNotFoundError, ModelFileError):
        return None
