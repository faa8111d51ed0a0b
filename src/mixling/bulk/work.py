"""Predict one part of a file, as every engine does, in whatever process."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from mixling.bulk.files import FilePart, TransferError
from mixling.bulk.folder import Folder
from mixling.bulk.read import LinesUnknownError, read_part, with_line
from mixling.bulk.write import Layout, part_writer
from mixling.data.config import ColumnsConfig
from mixling.errors import UserError
from mixling.runtime.predictor import Predictor

PROGRESS = "_progress"  # a folder with a record for each part, until all are finished


@dataclass(frozen=True, kw_only=True)
class BulkJob:
    """What is the same for all parts.

    Attributes:
        model: the content of the model file, so that every process predicts with the same.
        sha256: of the model.
        skip: bad rows get an error instead of a prediction; otherwise they end the job.
    """

    model: bytes
    sha256: str
    threshold: float | Mapping[str, float] | None
    too_long: str
    columns: ColumnsConfig
    layout: Layout
    folder: Folder
    skip: bool
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """A finished part, for the manifest.

    Attributes:
        name: of the file that was written.
        source: the file that it was read from, from `start` to `stop` (rows of Parquet from 0, otherwise bytes).
        bad_rows: rows with an error.
        size: of the file that was written, in bytes.
    """

    name: str
    source: str
    start: int
    stop: int
    rows: int
    bad_rows: int
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended: with a record, or with an error.

    Attributes:
        error: a message for the user.
        again: a second attempt may succeed.
        trace: the traceback of an error that is a defect of this program.
    """

    record: PartRecord | None = None
    error: str = ""
    again: bool = False
    trace: str = ""


def output_name(part: FilePart, layout: Layout) -> str:
    """Return the name of a part's output, which follows from the part."""
    return f"{part.name}.{layout.file_format}"


def record_name(output: str) -> str:
    """Return the name of the record of an output."""
    return f"{PROGRESS}/{output}.json"


def perform(job: BulkJob, part: FilePart) -> Outcome:
    """Predict a part, and write its output and then its record. Done twice, it writes the same bytes twice."""
    try:
        try:
            return Outcome(record=_predict(job, part))
        except LinesUnknownError:
            return Outcome(record=_predict(job, with_line(part)))
    except TransferError as error:
        return Outcome(error=str(error), again=True)
    except UserError as error:
        return Outcome(error=str(error))
    except Exception as error:
        return Outcome(error=f"{part.path}: {type(error).__name__}: {error}", trace=traceback.format_exc())


def _predict(job: BulkJob, part: FilePart) -> PartRecord:
    predictor = _predictor(job)
    reader = predictor.task.reader
    columns = job.columns
    batch = job.batch_size
    rows = bad = 0

    def fill(file: BinaryIO) -> None:
        nonlocal rows, bad
        with contextlib.closing(part_writer(job.layout, file)) as writer:
            for window in read_part(part, reader=reader, columns=columns, skip=job.skip, kept=job.layout.kept or ()):
                texts = [item.text for item in window.items if item.text is not None]
                writer.write(window, predictor, texts, batch)
                rows += len(window.items)
                bad += len(window.items) - len(texts)
            writer.finish()

    name = output_name(part, job.layout)
    size, sha256 = job.folder.write(name, fill)
    record = PartRecord(name=name, source=part.path, start=part.start, stop=part.stop, rows=rows, bad_rows=bad,
                        size=size, sha256=sha256)  # fmt: skip
    job.folder.write_json(record_name(name), asdict(record))
    return record


_open: dict[Any, Predictor] = {}  # at most one, for the parts that this process predicts


def _predictor(job: BulkJob) -> Predictor:
    threshold = tuple(job.threshold.items()) if isinstance(job.threshold, Mapping) else job.threshold
    key = (job.sha256, threshold, job.too_long)
    if key not in _open:
        _open.clear()
        _open[key] = Predictor(job.model, threshold=job.threshold, too_long=job.too_long)
    return _open[key]
