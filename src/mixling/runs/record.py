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
from mixling.errors import Interrupted, StorageError, TrainingError, UserError, command_line
from mixling.runs.artifact import CORPUS_FOLDER, NEXT, RUN_FILE, SETUP_FILE, WRITTEN, folder_to_resume, is_complete
from mixling.runs.config import provenance
from mixling.runs.replacement import commit, complete, holds_model
from mixling.storage import locked, remove, remove_leftovers, write_sealed
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT, TENSORBOARD_FOLDER
from mixling.training.tracking import remove_curves

_BEGINNING = ".beginning"


@contextlib.contextmanager
def held(folder: Path, *, is_main: bool) -> Iterator[None]:
    """Hold a run's folder in the main process, and put in place what a killed process had finished there.

    Raises:
        StorageError: another process writes to the folder, or it cannot be written to.
    """
    if not is_main:
        yield
        return
    with locked(folder):
        complete(folder)
        yield


def conclude(folder: Path, config: Config, *, is_main: bool) -> None:
    """Do the last acts of a finished run that was cut off between them."""
    if not is_main:
        return
    location = folder_to_resume(folder)
    tidy(location, config)
    if location != folder:
        commit(folder)


@contextlib.contextmanager
def open_run(folder: Path, *, resume: bool, distributed: DistributedContext, command: str) -> Iterator[Path]:
    """Yield where the files of a run go: the folder, or one inside it while the folder holds a model to replace.

    The main process holds the folder's lock. A run that fails leaves the model as it was, which its error states.

    Args:
        command: resumes the run.

    Raises:
        StorageError: another process writes to the folder, or it cannot be written to.
        TrainingError: the run to resume is finished.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(folder, is_main=distributed.is_main))
        replaces = False
        if distributed.is_main:
            replaces = folder_to_resume(folder) != folder if resume else holds_model(folder)
            if resume and not replaces and holds_model(folder) and not (folder / CHECKPOINT).exists():
                raise TrainingError(f"{folder / CHECKPOINT}: there is no checkpoint to resume from")
            if not replaces:
                shutil.rmtree(folder / NEXT, ignore_errors=True)  # of a model that was deleted meanwhile
        location = folder / NEXT if distributed.broadcast([replaces])[0] else folder
        if distributed.is_main:
            remove_leftovers(folder)
            remove_leftovers(location)
        try:
            yield location
            if distributed.is_main and replaces:
                commit(folder)
        except (UserError, Interrupted) as error:
            if replaces and (kept := _kept(folder, command, interrupted=isinstance(error, Interrupted))):
                error.args = (f"{error}\n{kept}",)
            raise


def _kept(folder: Path, command: str, *, interrupted: bool) -> str:
    """Return what a message says of the model that a run did not replace, and of the run."""
    if is_complete(folder):  # it is replaced; what was left to do is in the message
        return ""
    if folder_to_resume(folder) == folder:
        return f"{folder}: its model is unchanged"
    discard = command_line("rm", "-r", folder / NEXT)
    resume = "" if interrupted else f"resume the new run with: {command}; "
    return f"{folder}: its model is unchanged; {resume}discard the new run with: {discard}"


@contextlib.contextmanager
def beginning(folder: Path, *, resume: bool, is_main: bool) -> Iterator[Path]:
    """Where a run's first files are written while it is found out whether it can begin: the folder, if it is resumed.

    Args:
        folder: that of `open_run`.

    Of a new run nothing is left where that fails, and of an older one in the folder all; else `begin_run` takes them.
    """
    location, new = folder / _BEGINNING, not folder.exists()
    if is_main:
        shutil.rmtree(location, ignore_errors=True)  # of one that was killed
    if resume or not is_main:
        yield folder if resume else location
        return
    try:
        yield location
    except BaseException:
        shutil.rmtree(location, ignore_errors=True)
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def begin_run(folder: Path, config: Config, *, kind: str, first: Path) -> None:
    """Record a run that begins, and remove what an older one left.

    Args:
        first: that of `beginning`, whose files become the folder's.
    """
    remove(folder / CHECKPOINT)  # first: it must not be taken for that of the run which run.json is of
    _record(folder, config, kind, finished=False)
    for name in WRITTEN:
        remove(folder / name)
    shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove_curves(folder / TENSORBOARD_FOLDER)
    if first == folder or not first.exists():
        return
    try:
        for path in first.iterdir():
            os.replace(path, folder / path.name)
        first.rmdir()
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error


def finish_run(folder: Path, config: Config, *, kind: str) -> None:
    """Record that a run is finished, when all its files are there, and tidy its folder."""
    _record(folder, config, kind, finished=True)
    tidy(folder, config)


def tidy(folder: Path, config: Config) -> None:
    """Remove what a finished run needs no more, also where one was cut off between its last acts."""
    corpus: CorpusConfig | None = getattr(config, "corpus", None)
    if corpus is not None and not corpus.keep:
        shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove(folder / SETUP_FILE)
    remove(folder / CHECKPOINT)  # last: a run cut off before must not begin anew


def run_corpus(config: CorpusConfig, reader: DocumentReader, folder: Path, log: Callable[[str], None]) -> Prepared:
    """The encoded text of a run, of its own folder or of the run that kept it; it is made where there is none.

    Raises:
        UserError: of the kind that fits; see `prepare` and `open_prepared`.
    """
    location = Path(config.prepared or folder) / CORPUS_FOLDER
    if config.prepared is not None or is_prepared(location):
        return open_prepared(location, reader)
    return prepare(config, reader, location, log)


def _record(folder: Path, config: Config, kind: str, *, finished: bool) -> None:
    write_sealed(folder / RUN_FILE, {**provenance(), "kind": kind, "config": config.to_dict(), "finished": finished})
