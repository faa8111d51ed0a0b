"""A run's beginning and end in its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from mixling.config import Config
from mixling.data.prepared import CorpusConfig
from mixling.runs.config import RUN_FILE, provenance
from mixling.runs.folder import WRITTEN
from mixling.storage import remove, write_json
from mixling.training.loop import CHECKPOINT
from mixling.training.tracking import TENSORBOARD_FOLDER, remove_curves

CORPUS_FOLDER = "corpus"  # of unlabelled text, encoded


def begin_run(folder: Path, config: Config, *, kind: str | None = None) -> None:
    """Record a run as it is given, and remove what an older one left.

    Args:
        kind: None of what `mixling train` makes of labelled rows.
    """
    remove(folder / CHECKPOINT)  # first: it must not be taken for that of the run which run.json speaks of
    _record(folder, config, kind, finished=False)
    for name in WRITTEN:
        remove(folder / name)
    shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove_curves(folder / TENSORBOARD_FOLDER)


def finish_run(folder: Path, config: Config, *, kind: str | None = None, corpus: CorpusConfig | None = None) -> None:
    """Record that a run is finished, when all its files are there, and tidy its folder."""
    _record(folder, config, kind, finished=True)
    tidy(folder, corpus)


def tidy(folder: Path, corpus: CorpusConfig | None = None) -> None:
    """Remove what a finished run needs no more, also where one was cut off between its last acts."""
    if corpus is not None and not corpus.keep:
        shutil.rmtree(folder / CORPUS_FOLDER, ignore_errors=True)
    remove(folder / CHECKPOINT)  # last: a run cut off before must not begin anew


def corpus_folder(config: CorpusConfig, folder: Path) -> Path:
    """Where the encoded text of a run is: its own folder, or that of the run that kept it."""
    return Path(config.prepared or folder) / CORPUS_FOLDER


def _record(folder: Path, config: Config, kind: str | None, *, finished: bool) -> None:
    own = {} if kind is None else {"kind": kind}
    write_json(folder / RUN_FILE, {**provenance(), **own, "config": config.to_dict(), "finished": finished})
