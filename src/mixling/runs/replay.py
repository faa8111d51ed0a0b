"""Learning more with a trained model: its labels stay, because examples that it was trained on are replayed.

The new model begins with all weights of the old one, including its labels', and is trained on the new examples
and a sample of the old ones (experience replay: Robins, "Catastrophic Forgetting, Rehearsal and Pseudorehearsal",
Connection Science 1995; Rolnick et al., NeurIPS 2019). How many were chosen in experiments/late_labels.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mixling.answers.labels import LabelSet
from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.files import RUN_FILE, read_run
from mixling.artifacts.kinds import TRAINING, kind_of
from mixling.artifacts.weights import read_weights
from mixling.config import parse
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, names_of
from mixling.data.splits import few_per_label
from mixling.errors import ConfigError, DataError, ModelFileError
from mixling.features.cells import cells_of, with_cells
from mixling.networks.network import TRANSITION_SCORES, NamedWeights, TextNetwork
from mixling.runs.resolve.config import InitConfig, RunConfig
from mixling.tasks import task_type

_LEAST = 50  # examples of each label

Splits = tuple[Dataset, Dataset]


def replayed_run(init: InitConfig, task: str, log: Callable[[str], None] | None = None) -> RunConfig | None:
    """Return the configuration of the run whose labels a run keeps; None if it starts with labels of its own.

    Args:
        log: receives the reason, where the run has another task.

    Raises:
        ModelFileError: the record of the run is damaged.
    """
    folder = init.pretrained
    number = init.replay
    if folder is None or number == 0:
        return None
    path = Path(folder) / RUN_FILE
    try:
        saved = read_run(path.parent)
    except FileNotFoundError:
        saved = {}
    labeled = bool(saved) and kind_of(saved, where=path).labeled
    if problem := _problem(saved, task) if labeled else "is not of `mixling train`":
        if number is not None:
            raise ConfigError(f"init.replay: the run in {folder} {problem}; leave it out")
        if labeled and log is not None:
            log(f"{folder} {problem}: the training begins with its weights, without its labels")
        return None
    return parse(RunConfig, saved["config"], where=str(path))


def _problem(saved: dict[str, Any], task: str) -> str:
    """Return why the labels of a run cannot be kept; empty if they can."""
    if saved["config"].get("task") != task:
        return f"has the task {saved['config'].get('task')}, not {task}"
    return "" if task_type(task).has_labels else f"has no labels; its task is {task}"


def with_replay(
    init: InitConfig,
    new: Splits,
    read: Callable[[RunConfig], Splits],
    log: Callable[[str], None],
    *,
    task: str,
    beside: Sequence[str],
    seed: int,
    spool_dir: Path | None,
) -> Splits:
    """Return training and validation examples with a sample from the continued run.

    Args:
        init: names the run.
        new: the new examples.
        read: reads and splits the examples of a run, which may itself continue another.
        beside: the columns beside the new texts; of the old ones those that the old run did not read are missing.
        spool_dir: as of `read_data`.

    Raises:
        ConfigError: the examples of the old run cannot be read.
    """
    old = replayed_run(init, task, log)
    if old is None:
        return new
    folder = init.pretrained
    remedy = f"--set init.replay=0 continues without them, and {folder}'s labels are forgotten"
    if not old.data.train:
        raise ConfigError(f"--from {folder}: its run does not record the files that it was trained on; {remedy}")
    try:
        parts = read(old)
    except DataError as error:
        raise ConfigError(f"--from {folder}: its training data cannot be read: {error}; {remedy}") from None
    per_label = len(new[0]) / max(len(new[0].label_counts()), 1)
    count = max(round(per_label / 2), _LEAST) if init.replay is None else init.replay
    fractions = (1.0, len(parts[1]) / max(len(parts[0]), 1))
    samples = [
        _sample(part, max(round(count * fraction), 1), seed=seed)
        for part, fraction in zip(parts, fractions, strict=True)
    ]
    labels = parts[0].label_counts()
    log(
        f"{folder}: its {len(labels):,} labels stay; {len(samples[0]):,} of its {len(parts[0]):,} training examples "
        f"are replayed, {count:,} of each label (--set init.replay=N)"
    )
    known = old.data.columns.beside
    if without := [name for name in beside if name not in known]:
        log(f"{folder} did not read {', '.join(without)}: no value of a replayed example")
    train, validation = (
        Dataset.from_examples(chain(fresh, _with_columns(sample, known, beside)), spool_dir=spool_dir)
        for fresh, sample in zip(new, samples, strict=True)
    )
    return train, validation


def _with_columns(examples: Iterable[Example], known: Sequence[str], beside: Sequence[str]) -> Iterator[Example]:
    """Yield examples with the columns of another run in the order of these, None where it has none."""
    for example in examples:
        if known == beside:
            yield example
            continue
        cells = dict(zip(known, cells_of(example.text) or (), strict=True))
        text = example.text
        plain = str(text) if isinstance(text, str) else tuple(text) if isinstance(text, tuple) else text
        yield replace(example, text=with_cells(plain, tuple(map(cells.get, beside)) or None))


def _sample(data: Dataset, count: int, *, seed: int) -> Dataset:
    """Return about `count` examples of each label."""
    if data.schema.targets == "label":
        return few_per_label(data, count, seed=seed)
    chosen = []
    left: Counter[str | None] = Counter(dict.fromkeys((*data.label_counts(), None), count))  # None: without labels
    for index in np.random.default_rng(seed).permutation(len(data)).tolist():
        names: set[str | None] = {name for name in names_of(data.targets[index]) if name != "O"}
        names = names or {None}
        if any(left[name] > 0 for name in names):
            chosen.append(index)
            left.subtract(names)
    return data.subset(sorted(chosen))


def load_head(network: TextNetwork, labels: LabelSet, folder: str) -> None:
    """Give a network the head of a trained one; labels that are new keep their initial weights.

    Raises:
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[NamedWeights, LabelSet]:
        return read_weights(artifact.folder, artifact.saved), LabelSet.from_dict(artifact.saved["labels"])

    weights, known = read_artifact(folder, read, hint="`mixling train` makes one", kinds=(TRAINING,))
    at = {name: index for index, name in enumerate(known.names)}
    pairs = [(new, at[name]) for new, name in enumerate(labels.names) if name in at]
    if not pairs:
        return
    rows, sources = (np.array(part) for part in zip(*pairs, strict=True))
    own = network.weights()
    for name, value in own.items():
        if not name.startswith("head."):
            continue
        if (saved := weights.get(name)) is None:
            raise ModelFileError(f"{folder}: its head has no {name.removeprefix('head.')}")
        if name == TRANSITION_SCORES:
            value[rows[:, None], rows] = saved[sources[:, None], sources]
        elif name.startswith("head.output."):
            value[rows] = saved[sources]
        else:
            value[...] = saved
    network.restore(own)
