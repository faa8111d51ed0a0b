"""The state of a job, which is the content of its output folder: finished parts, the model and the inputs.

Each finished part has its output and, written after it, a record in `_progress`. Once all parts are finished,
`_manifest.json` has all records, and `_progress` is removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mixling.bulk.files import InputFile
from mixling.bulk.folder import Folder
from mixling.bulk.plan import PartPlan, stem_of
from mixling.bulk.work import PROGRESS, PartRecord, record_name
from mixling.errors import ConfigError, DataError, ModelFileError, shown
from mixling.storage import remove_leftovers
from mixling.version import __version__

JOB = f"{PROGRESS}/job.json"
MANIFEST = "_manifest.json"
FORMAT = 1
_LOCKS = (".lock", ".lock.json")


@dataclass(frozen=True)
class _Journal:
    """What the file of a job and the manifest have."""

    format: int
    settings: dict[str, Any]
    inputs: dict[str, dict[str, Any]]
    parts: list[PartRecord]


_JOURNAL = TypeAdapter(_Journal)
_RECORD = TypeAdapter(PartRecord)


@dataclass(frozen=True, kw_only=True)
class FolderState:
    """What an output folder has.

    Attributes:
        records: of the finished parts, by the name of the output.
        again: the inputs that have changed since their parts were written, which have been removed.
    """

    records: Mapping[str, PartRecord]
    again: Sequence[str] = ()


def open_state(folder: Folder, settings: Mapping[str, Any], plan: PartPlan, *, resume: bool) -> FolderState:
    """Check what an output folder has, and prepare it for a job.

    Args:
        settings: what outputs depend on, except for the inputs; JSON values.
        resume: continue the job of the folder, if there is one.

    Raises:
        ConfigError: the folder is not empty, and not to be resumed; or it belongs to other settings or inputs.
        DataError: its journal is damaged.
        ModelFileError: it belongs to another model.
    """
    sizes = folder.sizes()
    for name in [name for name in sizes if _is_leftover(name)]:
        folder.remove(name)
        del sizes[name]
    inputs = {file.name: _input(file) for file, _ in plan.files}
    job = {"format": FORMAT, "settings": dict(settings), "inputs": inputs}
    nothing_finished = folder.local is not None and sizes.keys() <= {JOB, *_LOCKS}  # and, locked, no one is at it
    if nothing_finished or (JOB not in sizes and MANIFEST not in sizes):
        if others := [name for name in sizes if name not in (JOB, *_LOCKS)]:
            raise ConfigError(
                f"{folder.url}: has files that are not of a prediction, such as {others[0]}; choose an empty folder"
            )
        folder.write_json(JOB, {**job, "parts": []})
        return FolderState(records={})
    manifest = _read(folder, MANIFEST) if MANIFEST in sizes else None
    old = _read(folder, JOB) if JOB in sizes or manifest is None else manifest
    if not resume:
        finished = sum(name.startswith(PROGRESS) and name != JOB for name in sizes)
        raise ConfigError(
            f"{folder.url}: has {finished} finished parts of a prediction; continue it with --resume, or choose "
            "another folder"
            if manifest is None
            else f"{folder.url}: has a complete prediction; add new inputs with --resume, or choose another folder"
        )
    _check(folder, old, job)
    names = [name for name in sizes if name.startswith(f"{PROGRESS}/") and name != JOB]
    found = [*old.parts, *(() if manifest is None else manifest.parts), *_records(folder, names)]
    records = {record.name: record for record in found}
    if (outside := next((name for name in records if not _is_inside(name)), None)) is not None:
        raise DataError(f"is damaged (it names the part {shown(outside)}); choose another folder", path=folder.url)
    if JOB not in sizes and old.inputs == inputs:
        return FolderState(records={name: record for name, record in records.items() if sizes.get(name) == record.size})
    # The manifest is removed before anything that it lists; what it lists is in the file of the job before that.
    parts = list(map(asdict, records.values()))
    if JOB not in sizes:
        folder.write_json(JOB, {**asdict(old), "parts": parts})
    folder.remove(MANIFEST)
    again = [name for name, values in old.inputs.items() if values != inputs[name]]
    for name, record in list(records.items()):
        if any(_belongs(record.name, stem_of(source)) for source in again):
            folder.remove(name)
            folder.remove(record_name(name))
            del records[name]
    folder.write_json(JOB, {**job, "parts": list(map(asdict, records.values()))})
    return FolderState(
        records={name: record for name, record in records.items() if sizes.get(name) == record.size}, again=again
    )


def close_state(folder: Folder, settings: Mapping[str, Any], plan: PartPlan, records: Sequence[PartRecord]) -> None:
    """Write the manifest of a finished job, and remove what killed processes left.

    Args:
        records: of all parts, in order.
    """
    rows = sum(record.rows for record in records)
    bad = sum(record.bad_rows for record in records)
    manifest = {
        "format": FORMAT,
        "mixling": __version__,
        "settings": dict(settings),
        "rows": rows,
        "bad_rows": bad,
        "inputs": {file.name: _input(file) for file, _ in plan.files},
        "parts": list(map(asdict, records)),
    }
    folder.write_json(MANIFEST, manifest)
    folder.remove_folder(PROGRESS)
    if folder.local is not None:
        remove_leftovers(folder.local)


def _input(file: InputFile) -> dict[str, Any]:
    return {"path": file.path, "size": file.size, "version": file.version}


def _belongs(output: str, stem: str) -> bool:
    """Return whether an output is of a file; between its name and its extension is the start of a part."""
    return stem_of(output).rpartition("-")[0] == stem


def _is_leftover(name: str) -> bool:
    """Return whether a file is what a killed process was writing."""
    name = name.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".part")


def _read(folder: Folder, name: str) -> _Journal:
    try:
        return _JOURNAL.validate_python(folder.read_json(name))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "it"
        raise DataError(f"is damaged ({where} is wrong); choose another folder", path=folder.at(name)) from None


def _records(folder: Folder, names: Sequence[str]) -> Iterator[PartRecord]:
    """Yield the sound records of finished parts; the others are left out, and their parts are predicted again."""
    for values in folder.read_records(names):
        with contextlib.suppress(ValidationError):
            yield _RECORD.validate_python(values)


def _is_inside(name: str) -> bool:
    """Return whether the name of a part, which anyone may have written, stays within the folder."""
    parts = name.replace("\\", "/").split("/")
    return all(parts) and ".." not in parts and ":" not in parts[0]


def _check(folder: Folder, old: _Journal, job: Mapping[str, Any]) -> None:
    before = old.settings
    now = job["settings"]
    if old.format != FORMAT or before.get("cut") != now["cut"]:
        raise ConfigError(f"{folder.url}: was begun with another version of mixling; choose another folder")
    if (model := str(before.get("model"))) != now["model"]:
        raise ModelFileError(
            f"{folder.url}: has predictions of another model (SHA-256 {shown(model[:12])}..., this one has "
            f"{now['model'][:12]}...); choose another folder"
        )
    for key, value in now.items():
        if before.get(key) != value:
            raise ConfigError(
                f"{folder.url}: was begun with {key} {shown(before.get(key))}, now it is {shown(value)}; pass the same "
                "options, or choose another folder"
            )
    if missing := [values.get("path", name) for name, values in old.inputs.items() if name not in job["inputs"]]:
        raise ConfigError(
            f"{folder.url}: has predictions for {missing[0]}, which is not an input any more; name it again, or choose "
            "another folder"
        )
