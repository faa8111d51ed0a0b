"""Reading, splitting and encoding the pairs of text-to-text tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mixling.data.readers import OnBadRow
from mixling.errors import DataError
from mixling.research.seq2seq.batches import SubwordIds
from mixling.research.seq2seq.config import PairTaskConfig
from mixling.research.seq2seq.model import EncoderDecoderConfig
from mixling.research.seq2seq.pairs import Pair, read_pairs, split_pairs
from mixling.text.subwords import SubwordTokenizer

_CHUNK = 4096
_SHOWN = 3  # bad rows, or characters, that a message names


@dataclass(frozen=True, kw_only=True)
class TaskRows:
    """The pairs of a task."""

    config: PairTaskConfig
    train: Sequence[Pair]
    validation: Sequence[Pair]


def read_task(config: PairTaskConfig, *, seed: int, log: Callable[[str], None]) -> TaskRows:
    """Read and split the pairs of a task.

    Args:
        log: receives counts and warnings, such as skipped rows and duplicates.

    Raises:
        DataError: a file or row cannot be used, or there are too few pairs.
    """
    bad = OnBadRow(config.on_bad_row)

    def load(sources: Sequence[str], *, training: bool) -> list[Pair]:
        return list(
            read_pairs(
                sources,
                columns=config.columns,
                on_bad_row=bad,
                file_format=config.file_format,
                template=config.template,
                prefix=config.prefix,
                training=training,
            )
        )

    train = load(config.train, training=True)
    if config.validation:
        validation = load(config.validation, training=False)
        known = {pair.source for pair in train}
        if repeated := sum(pair.source in known for pair in validation):
            log(f"{config.name}: {repeated} of {len(validation)} validation sources are also in the training data")
    else:
        train, validation = split_pairs(train, fraction=config.validation_fraction, seed=seed)
        validation = _once(validation)
    for line in bad.lines():
        log(f"{config.name}: {line}")
    log(f"{config.name}: {len(train):,} training and {len(validation):,} validation pairs")
    return TaskRows(config=config, train=train, validation=validation)


def _once(pairs: Sequence[Pair]) -> list[Pair]:
    """Return one pair for each source with several correct targets, which are all among its references."""
    seen: set[tuple[str | None, str]] = set()
    kept: list[Pair] = []
    for pair in pairs:
        if pair.references and (pair.question, pair.source) in seen:
            continue
        seen.add((pair.question, pair.source))
        kept.append(pair)
    return kept


def encode_pairs(
    pairs: Sequence[Pair],
    coder: SubwordTokenizer,
    model: EncoderDecoderConfig,
    task: PairTaskConfig,
    log: Callable[[str], None],
    *,
    number: int,
) -> tuple[list[tuple[SubwordIds, SubwordIds]], list[Pair]]:
    """Return sources and targets as subwords with an end token, and the pairs that they belong to.

    Args:
        number: the index of the task in the run's configuration.

    Raises:
        DataError: a text is longer than the model allows, unless such rows are skipped, or no pair is left.
    """
    out: list[tuple[SubwordIds, SubwordIds]] = []
    kept: list[Pair] = []
    cut = 0
    unknown: dict[str, list[Pair]] = {"source": [], "target": []}
    long: dict[str, list[tuple[int, Pair]]] = {"source": [], "target": []}
    limits = {"source": model.max_source_len, "target": model.max_target_len}
    for first in range(0, len(pairs), _CHUNK):
        chunk = pairs[first : first + _CHUNK]
        sources = coder.encode_many([pair.source for pair in chunk])
        targets = coder.encode_many([pair.right[0] for pair in chunk])
        for pair, source, target in zip(chunk, sources, targets, strict=True):
            if task.cut and len(source) >= limits["source"]:
                cut += 1
                source = source[: limits["source"] - 1]
            for name, subwords in (("source", source), ("target", target)):
                if coder.unk_id in subwords:
                    unknown[name].append(pair)
            sizes = {"source": len(source) + 1, "target": len(target) + 1}
            problems = [name for name, size in sizes.items() if size > limits[name]]
            for name in problems:
                long[name].append((sizes[name], pair))
            if not problems:
                ends = [coder.eos_id]
                out.append((np.array(source + ends, np.int32), np.array(target + ends, np.int32)))
                kept.append(pair)
    if cut:
        log(f"{task.name}: {cut:,} of {len(pairs):,} sources are truncated at {limits['source']} subwords")
    for name, unreadable in unknown.items():
        if unreadable:
            log(f"{task.name}: {_without_subwords(name, unreadable, coder, len(pairs))}")
    for name, items in long.items():
        if not items:
            continue
        size, longest = max(items, key=lambda item: item[0])
        got = f"{len(items):,} {name}s of the task {task.name!r} are longer than the model's {limits[name]} subwords"
        if task.on_bad_row == "skip":
            log(f"{got}; their rows are skipped")
            continue
        remedy = f"--set model.max_{name}_len={size} makes room for all"
        if name == "source":
            remedy += f", --set tasks.{number}.cut=true truncates them"
        message = f"{got}; the longest, here, has {size}; {remedy}; --on-bad-row skip leaves such rows out"
        raise DataError(message, path=longest.path, line=longest.line)
    if not out:
        raise DataError("no row is left whose texts are within the model's lengths", path=pairs[0].path)
    return out, kept


def _without_subwords(name: str, pairs: Sequence[Pair], coder: SubwordTokenizer, count: int) -> str:
    """Return a warning about sources or targets with characters that are not in the vocabulary."""
    first = pairs[0]
    text = first.source if name == "source" else first.right[0]
    missing = [character for character in dict.fromkeys(text) if coder.unk_id in coder.encode(character)]
    effect = "distinguish" if name == "source" else "generate"
    shown = " ".join(map(repr, missing[:_SHOWN])) or "some"
    return (
        f"{len(pairs):,} of {count:,} {name}s have characters that are not in the vocabulary, which the model cannot "
        f"{effect}: {shown}, first at {first.path}:{first.line}; train a vocabulary on the data (without --from and "
        "--set tokenizer.vocabulary=FILE), or give another"
    )
