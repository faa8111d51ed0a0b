"""Predict for files of any size, part by part, into a folder that can be resumed."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixling.bulk import plan as cutting
from mixling.bulk.engines import InProcess, PartEngine, ProcessPool
from mixling.bulk.files import FilePart
from mixling.bulk.folder import Folder
from mixling.bulk.plan import make_plan
from mixling.bulk.state import close_state, open_state
from mixling.bulk.work import BulkJob, Outcome, PartRecord, output_name
from mixling.bulk.write import make_layout
from mixling.data.config import ColumnsConfig
from mixling.data.readers import OnBadRow
from mixling.errors import ConfigError, DataError, near_miss
from mixling.runtime.inputs import BATCH_SIZE
from mixling.runtime.predictor import Predictor
from mixling.storage import locked
from mixling.tasks.presentation import DEFAULT_SHOWN, Shown
from mixling.workers import available_cpus

_ENGINES = ("processes", "ray")
RETRIES = 3  # of a part whose process died, or whose store failed


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A finished job.

    Attributes:
        rows: of all outputs; `bad_rows` of them have an error instead of a prediction.
        parts: outputs; `kept` of them were there before.
    """

    rows: int
    bad_rows: int
    parts: int
    kept: int


def predict_files(
    model: str | Path,
    inputs: Sequence[str],
    out: str,
    *,
    columns: ColumnsConfig,
    engine: str = "processes",
    workers: int | None = None,
    resume: bool = False,
    threshold: float | Mapping[str, float] | None = None,
    too_long: str = "windows",
    output_format: str | None = None,
    on_bad_row: str = "error",
    escape: bool = False,
    batch_size: int = BATCH_SIZE,
    keep: Sequence[str] | None = None,
    shown: Shown = DEFAULT_SHOWN,
    progress: Callable[[int, int, int], None] = lambda done, parts, rows: None,
    report: Callable[[str], None] = lambda message: None,
) -> Summary:
    """Predict for the rows of files, and write them with their predictions into a folder.

    Each file is cut into parts; the output of each has a name that follows from the file and where the part begins, and
    appears when it is complete. `_manifest.json`, with rows and checksums, appears when all are. With several workers,
    call it under `if __name__ == "__main__":`, since they are started as new processes.

    Args:
        model: a run folder, or a model.onnx.
        inputs: Parquet, JSONL, CSV or TSV files: paths or URLs, also with wildcards.
        out: a folder: a path or a URL.
        columns: the columns of the inputs.
        engine: "processes" (on this machine), or "ray".
        workers: processes or tasks at a time; by default one for each CPU.
        resume: continue what the folder has, or begin if it has nothing.
        threshold, too_long: as of `Predictor`; "error" is not allowed.
        output_format: "parquet", "jsonl" or "csv"; by default the inputs'.
        on_bad_row: "error": raise the first error; "skip": write it instead of a prediction.
        escape: CSV: put an apostrophe before cells that look like formulas.
        keep: the columns of the inputs that are written; None: all.
        shown: the probabilities of labels that are written.
        progress: called with finished parts, all parts, and finished rows.
        report: called with what a user should know.

    Raises:
        ConfigError: options contradict each other, or the folder; nothing has been changed.
        DataError: an input is missing or has a bad row; finished parts are kept.
        ModelFileError: the model cannot be opened, or the folder has predictions of another.
        StorageError: an output cannot be written; finished parts are kept.
    """
    if engine not in _ENGINES:
        raise ConfigError(f"--engine: got {engine!r}; {near_miss(engine, _ENGINES)}")
    if too_long == "error":
        raise ConfigError("--too-long error: is not for folders; use truncate, and look at the truncated predictions")
    skip = OnBadRow(on_bad_row).mode == "skip"  # type: ignore[arg-type]
    predictor = Predictor(model, threshold=threshold, too_long=too_long)
    plan = make_plan(inputs, reader=predictor.task.reader, columns=columns)
    layout = make_layout(predictor, plan.schema, plan.file_format, output_format, escape=escape, shown=shown,
                         kept=keep)  # fmt: skip
    content = predictor.content
    sha256 = hashlib.sha256(content).hexdigest()
    settings = {
        "model": sha256,
        "threshold": dict(threshold) if isinstance(threshold, Mapping) else threshold,
        "too_long": too_long,
        "columns": columns.to_dict(),
        "format": layout.file_format,
        "escape_formulas": escape,
        "batch_size": batch_size,
        "kept": None if keep is None else list(keep),
        "shown": [shown.top_k, shown.probabilities],
        "cut": [cutting.PARTS, cutting.MIN_PART_BYTES, cutting.MAX_PART_BYTES, cutting.MAX_ROWS, cutting.GROUP_PARTS],
    }
    folder = Folder(out)
    local = folder.local
    if local is not None and local.exists() and not local.is_dir():
        raise ConfigError(f"{out}: is a file; give a folder")
    with locked(local) if local is not None else contextlib.nullcontext():
        state = open_state(folder, settings, plan, resume=resume)
        for name in state.again:
            report(f"{name} has changed since its predictions were written; they are made again")
        done = dict(state.records)
        kept = len(done)
        parts = plan.parts
        left = [part for part in parts if output_name(part, layout) not in done]
        if left:
            job = BulkJob(model=content, sha256=sha256, threshold=threshold, too_long=too_long,
                      columns=columns, layout=layout, folder=folder,
                      skip=skip, batch_size=batch_size)  # fmt: skip
            rows = sum(record.rows for record in done.values())
            progress(kept, len(parts), rows)
            with _open_engine(job, engine, workers, len(left)) as running:
                for record in run_parts(running, left):
                    done[record.name] = record
                    rows += record.rows
                    progress(len(done), len(parts), rows)
        records = [done[output_name(part, layout)] for part in parts]
        close_state(folder, settings, plan, records)
    return Summary(
        rows=sum(record.rows for record in records),
        bad_rows=sum(record.bad_rows for record in records),
        parts=len(records),
        kept=kept,
    )


def _open_engine(job: BulkJob, engine: str, workers: int | None, parts: int) -> PartEngine:
    if engine == "ray":
        from mixling.bulk.ray_engine import RayTasks

        return RayTasks(job, workers)
    number = min(workers or available_cpus(), parts)
    return ProcessPool(job, number) if number > 1 else InProcess(job)


def run_parts(engine: PartEngine, parts: Sequence[FilePart]) -> Iterator[PartRecord]:
    """Predict parts and yield the records of those that are finished, in the order in which they are.

    After an error no part is started, those that are running are finished, and the error of the first part in order is
    raised: the same one, however many workers there are.
    """
    index = {part.name: number for number, part in enumerate(parts)}
    waiting = deque((part, 0.0) for part in parts)
    attempts = Counter[str]()
    failed: dict[int, Outcome] = {}
    running = 0
    while running or (waiting and not failed):
        while waiting and running < engine.slots and not failed:
            engine.start(*waiting.popleft())
            running += 1
        for part, outcome in engine.wait():
            running -= 1
            if outcome.record is not None:
                yield outcome.record
            elif outcome.again and attempts[part.name] < RETRIES:
                attempts[part.name] += 1
                waiting.appendleft((part, 0.5 * 2 ** attempts[part.name]))
            else:
                failed[index[part.name]] = outcome
    if not failed:
        return
    first = failed[min(failed)]
    if first.trace:
        raise RuntimeError(f"{first.error}\n{first.trace}")
    raise DataError(f"{first.error}; finished parts are kept: correct it and pass --resume")
