"""Starting and finishing a run in its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mixling.artifacts.files import (
    CORPUS_FOLDER,
    NEXT,
    REFIT_FOLDER,
    RUN_FILE,
    SETUP_FILE,
    WRITTEN,
    folder_to_resume,
    is_complete,
)
from mixling.artifacts.replacement import commit, complete, holds_model
from mixling.config import Config
from mixling.errors import Interrupted, StorageError, TrainingError, UserError, command_line
from mixling.folders import move, refuse_linked_folders, remove, remove_folder
from mixling.runs.resolve.config import run_provenance
from mixling.storage import locked, remove_leftovers, write_sealed
from mixling.training.backends.context import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.tracking import remove_tracking

_BEGINNING = ".beginning"


@contextlib.contextmanager
def held(folder: Path, *, is_main: bool) -> Iterator[None]:
    """Lock a run's folder in the main process, and complete a replacement that was killed there.

    Raises:
        StorageError: another process writes to the folder, or the folder is not writable.
    """
    if not is_main:
        yield
        return
    with locked(folder):
        for name in (NEXT, _BEGINNING):
            refuse_linked_folders(folder / name / "any")
        complete(folder)
        yield


def conclude(folder: Path, config: Config, *, is_main: bool) -> None:
    """Complete the last steps of a finished run that was killed between them."""
    if not is_main:
        return
    location = folder_to_resume(folder)
    tidy(location, config)
    if location != folder:
        commit(folder)


@contextlib.contextmanager
def open_run(folder: Path, *, resume: bool, distributed: DistributedContext, command: str) -> Iterator[Path]:
    """Lock a run's folder and yield where its files go: the folder, or one inside it if there is a model to replace.

    A run that fails leaves an older model unchanged, which its error states.

    Args:
        command: the command line that resumes the run.

    Raises:
        StorageError: another process writes to the folder, or the folder is not writable.
        TrainingError: there is no checkpoint to resume from.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(folder, is_main=distributed.is_main))
        replaces = False
        if distributed.is_main:
            replaces = folder_to_resume(folder) != folder if resume else holds_model(folder)
            if resume and not replaces and holds_model(folder) and not (folder / CHECKPOINT).exists():
                raise TrainingError(f"{folder / CHECKPOINT}: there is no checkpoint to resume from")
            if not replaces:
                remove_folder(folder / NEXT)  # the model that it was to replace was deleted
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
    """Return what to add to an error about the older model and the run that did not replace it."""
    if is_complete(folder):  # replaced; the error itself states what remains to be done
        return ""
    if folder_to_resume(folder) == folder:
        return f"{folder}: its model is unchanged"
    discard = command_line("rm", "-r", folder / NEXT)
    resume = "" if interrupted else f"resume the new run with: {command}; "
    return f"{folder}: its model is unchanged; {resume}discard the new run with: {discard}"


@contextlib.contextmanager
def beginning(folder: Path, *, resume: bool, is_main: bool) -> Iterator[Path]:
    """Yield where a run writes files before it is known that it can begin; a resumed run uses its folder.

    If the block fails, a new run's files are removed and an older run in the folder is unchanged; otherwise `begin_run`
    moves the files.

    Args:
        folder: the folder that `open_run` yields.
    """
    location = folder / _BEGINNING
    new = not folder.exists()
    if is_main:
        remove_folder(location)  # left by a killed process
    if resume or not is_main:
        yield folder if resume else location
        return
    try:
        yield location
    except BaseException:
        remove_folder(location)
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def begin_run(folder: Path, config: Config, *, kind: str, first: Path) -> None:
    """Record a run that begins, and remove the files of an older one.

    Args:
        first: the folder that `beginning` yields; its files are moved to `folder`.

    Raises:
        StorageError: a file cannot be written.
    """
    remove(folder / CHECKPOINT)  # before run.json is written: it belongs to the older run
    _record(folder, config, kind, finished=False)
    for name in WRITTEN:
        remove(folder / name)
    for name in (CORPUS_FOLDER, REFIT_FOLDER):
        remove_folder(folder / name)
    remove_tracking(folder)
    if first == folder or not first.exists():
        return
    try:
        for path in first.iterdir():
            move(path, folder / path.name)
        first.rmdir()
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error


def finish_run(folder: Path, config: Config, *, kind: str) -> None:
    """Record that a run is finished, all of whose files are written, and tidy its folder."""
    _record(folder, config, kind, finished=True)
    tidy(folder, config)


def tidy(folder: Path, config: Config) -> None:
    """Remove files that a finished run no longer needs; may be repeated after a kill."""
    corpus = getattr(config, "corpus", None)  # of runs on unlabeled text
    if corpus is not None and not corpus.keep:
        remove_folder(folder / CORPUS_FOLDER)
    remove(folder / SETUP_FILE)
    remove_folder(folder / REFIT_FOLDER)
    remove(folder / CHECKPOINT)  # last: a run killed before this line must not start over


def _record(folder: Path, config: Config, kind: str, *, finished: bool) -> None:
    write_sealed(
        folder / RUN_FILE, {**run_provenance(), "kind": kind, "config": config.to_dict(), "finished": finished}
    )
