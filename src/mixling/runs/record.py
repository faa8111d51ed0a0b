"""A run's beginning and end in its folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from mixling.config import Config
from mixling.data.documents import DocumentReader
from mixling.data.prepared import CorpusConfig, Prepared, is_prepared, open_prepared, prepare
from mixling.errors import StorageError
from mixling.runs.artifact import CORPUS_FOLDER, RUN_FILE, WRITTEN
from mixling.runs.config import provenance
from mixling.storage import remove, write_sealed
from mixling.training.files import CHECKPOINT, TENSORBOARD_FOLDER
from mixling.training.tracking import remove_curves

_BEGINNING = ".beginning"


@contextlib.contextmanager
def beginning(folder: Path, *, resume: bool, is_main: bool) -> Iterator[Path]:
    """Where a run's first files are written while it is found out whether it can begin: the folder, if it goes on.

    Of a new run nothing is left where that fails, and of an older one in the folder all; else `begin_run` takes them.
    """
    place, new = folder / _BEGINNING, not folder.exists()
    if is_main:
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed
    if resume or not is_main:
        yield folder if resume else place
        return
    try:
        yield place
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def begin_run(folder: Path, config: Config, *, kind: str | None = None, place: Path | None = None) -> None:
    """Record a run as it is given, and remove what an older one left.

    Args:
        kind: None of what `mixling train` makes of labelled rows.
        place: that of `beginning`, whose files become the folder's.
    """
    remove(folder / CHECKPOINT)  # first: it must not be taken for that of the run which run.json speaks of
    _record(folder, config, kind, finished=False)
    for name in WRITTEN:
        remove(folder / name)
    shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove_curves(folder / TENSORBOARD_FOLDER)
    if place is None or place == folder:
        return
    try:
        for path in place.iterdir():
            os.replace(path, folder / path.name)
        place.rmdir()
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error


def finish_run(folder: Path, config: Config, *, kind: str | None = None, corpus: CorpusConfig | None = None) -> None:
    """Record that a run is finished, when all its files are there, and tidy its folder."""
    _record(folder, config, kind, finished=True)
    tidy(folder, corpus)


def tidy(folder: Path, corpus: CorpusConfig | None = None) -> None:
    """Remove what a finished run needs no more, also where one was cut off between its last acts."""
    if corpus is not None and not corpus.keep:
        shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove(folder / CHECKPOINT)  # last: a run cut off before must not begin anew


def run_corpus(config: CorpusConfig, reader: DocumentReader, folder: Path, say: Callable[[str], None]) -> Prepared:
    """The encoded text of a run, of its own folder or of the run that kept it; it is made where there is none.

    Raises:
        UserError: of the kind that fits; see `prepare` and `open_prepared`.
    """
    place = Path(config.prepared or folder) / CORPUS_FOLDER
    if config.prepared is not None or is_prepared(place):
        return open_prepared(place, reader)
    return prepare(config, reader, place, say)


def _record(folder: Path, config: Config, kind: str | None, *, finished: bool) -> None:
    own = {} if kind is None else {"kind": kind}
    write_sealed(folder / RUN_FILE, {**provenance(), **own, "config": config.to_dict(), "finished": finished})
