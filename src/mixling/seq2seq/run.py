"""Training from text to text: pairs of tasks, span corruption, or both, to a folder that `mixling generate` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mixling.data.documents import PieceReader
from mixling.data.prepared import Prepared, sample_documents
from mixling.errors import ConfigError, command_line
from mixling.export.card import text_to_text_card
from mixling.export.plots import training_curves
from mixling.models.model import count_parameters
from mixling.runs.artifact import (
    CARD_FILE,
    CURVES_FILE,
    METRICS_FILE,
    TEXT_TO_TEXT,
    read_folder,
)
from mixling.runs.hub_names import with_commits
from mixling.runs.pictures import Curves, if_possible
from mixling.runs.record import begin_run, beginning, finish_run, open_run, run_corpus
from mixling.runs.weights import read_weights, write_model
from mixling.seq2seq.config import SPANS, PairRunConfig
from mixling.seq2seq.evaluation import measure_task
from mixling.seq2seq.generator import TextGenerator, read_pieces, read_saved
from mixling.seq2seq.metrics import TextMetrics
from mixling.seq2seq.mixture import draws
from mixling.seq2seq.model import EncoderDecoder, build_encoder_decoder
from mixling.seq2seq.objective import TextToText
from mixling.seq2seq.span_training import SpanPart
from mixling.seq2seq.tasks import TaskRows, encode_pairs, read_task
from mixling.seq2seq.training import PairData, PairPart, Part
from mixling.storage import write_atomic, write_sealed
from mixling.text.pieces import FILE as PIECES_FILE
from mixling.text.pieces import PieceCoder
from mixling.training.callbacks import Callback, CallbackList
from mixling.training.distributed import DistributedContext
from mixling.training.files import CHECKPOINT
from mixling.training.loop import Trainer

_ASCII = tuple(map(chr, range(33, 127)))


@dataclass(frozen=True, kw_only=True)
class PairRun:
    """What a finished run gives.

    metrics: of each task on its dev pairs, as the saved model answers them.
    held_out: measures of the best evaluation, made without a search.
    """

    folder: Path
    metrics: dict[str, TextMetrics]
    held_out: dict[str, float]
    history: list[dict[str, Any]]
    parameters: int


def fit_pairs(
    config: PairRunConfig,
    *,
    folder: Path,
    resume: bool = False,
    command: str = "mixling train",
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> PairRun | None:
    """Train an encoder-decoder and write its folder; a model in it stays until the new one is finished.

    Args:
        resume: resume the run in the folder; rows are read again, unlabelled text is not.
        command: the one that resumes an interrupted run with --resume.

    Returns:
        the run; None in processes other than the main one.

    Raises:
        UserError: of the kind that fits; see `read_task`, `encode_pairs`, `prepare` and `Trainer.fit`.
    """
    distributed = distributed or DistributedContext()
    config = config if resume else with_commits(config)
    if config.start is not None and not resume and Path(config.start).resolve() == folder.resolve():
        raise ConfigError(f"{config.start}: a run cannot replace the one that it begins with; give another folder")
    command = command_line(*command.split(), "--resume", "-o", folder)
    with open_run(folder, resume=resume, distributed=distributed, command=command) as place:
        run = _fit_pairs(config, place, resume, command, distributed, callback, say)
    return None if run is None else replace(run, folder=folder)


def _fit_pairs(
    config: PairRunConfig,
    folder: Path,
    resume: bool,
    command: str,
    distributed: DistributedContext,
    callback: Callback | None,
    say: Callable[[str], None],
) -> PairRun | None:
    begun = resume and (folder / CHECKPOINT).exists()
    rows = [read_task(task, seed=config.train.seed, say=say) for task in config.tasks]
    prepared: Prepared | None = None
    with beginning(folder, resume=resume, is_main=distributed.is_main) as place:
        if distributed.is_main:
            coder = _coder(config, rows, folder if resume else None)
            parts, rows = _pair_parts(config, rows, coder, say)
            write_atomic(place / PIECES_FILE, coder.serialise()[1])
            if config.corpus is not None:
                prepared = run_corpus(config.corpus, PieceReader(coder), place, say)
            distributed.barrier()
        else:
            distributed.barrier()
            coder = PieceCoder.load(str(place / PIECES_FILE))
            parts, rows = _pair_parts(config, rows, coder, say)
            if config.corpus is not None:
                prepared = run_corpus(config.corpus, PieceReader(coder), place, say)
        if prepared is not None:
            limits = config.model.max_source_len, config.model.max_target_len
            parts.append(SpanPart(prepared, config.spans, coder, max_source_len=limits[0], max_target_len=limits[1]))
        draws(config.mixing, {part.name: len(part) for part in parts})
        model = build_encoder_decoder(config.model, num_units=len(coder), seed=config.train.seed)
        if config.start is not None and not begun:
            load_weights(model, Path(config.start))
        distributed.barrier()  # the others have read what is moved now
    if distributed.is_main and not resume:
        begin_run(folder, config, kind=TEXT_TO_TEXT, place=place)
    say(f"{len(coder):,} pieces, {count_parameters(model):,} parameters")
    only_spans = not config.tasks
    trainer = Trainer(
        model,
        PairData(
            objective=TextToText("perplexity" if only_spans else "exact_match", config.train.loss),
            parts=parts,
            mixing=config.mixing,
            pad=coder.pad_id,
        ),
        config.train,
        folder=folder,
        command=command,
        fingerprint=_fingerprint(config, parts, coder, prepared),
        distributed=distributed,
        callback=CallbackList(callback or Callback(), Curves(folder, say)) if distributed.is_main else callback,
    )  # fmt: skip
    history = trainer.fit(resume=begun)
    if not distributed.is_main:
        return None
    model.cpu()
    run = _write_folder(config, model, coder, rows, history, folder, say)
    finish_run(folder, config, kind=TEXT_TO_TEXT, corpus=config.corpus)
    return run


def load_weights(model: EncoderDecoder, folder: Path) -> None:
    """Give a model the weights of the one in a run folder.

    Raises:
        ConfigError: the folder is of no such run, or its model has other shapes.
        ModelFileError: the weights are missing or damaged.
    """
    weights = read_folder(Path(folder), lambda place: read_weights(place, read_saved(place)))
    own = model.state_dict()
    faults = sorted(own.keys() ^ weights.keys()) or [name for name in own if own[name].shape != weights[name].shape]
    if faults:
        name = faults[0]
        shapes = [tuple(part[name].shape) if name in part else None for part in (weights, own)]
        raise ConfigError(
            f"{folder}: {name} has the shape {shapes[0]}, the model needs {shapes[1]}; leave out what changes "
            "model.* or pieces.*"
        )
    model.load_state_dict(weights)


def _coder(config: PairRunConfig, rows: Sequence[TaskRows], kept: Path | None) -> PieceCoder:
    """The vocabulary: kept in the folder of a resumed run, given, of the run that it begins with, or trained."""
    if kept is not None and (kept / PIECES_FILE).is_file():
        return PieceCoder.load(str(kept / PIECES_FILE))
    sentinels = config.pieces.sentinels if config.corpus is not None else 0
    source = config.pieces.vocabulary
    if config.start is not None:
        if source is not None:
            raise ConfigError(f"{config.start} has the pieces that it was trained with; leave out pieces.vocabulary")
        return read_folder(config.start, read_pieces)
    if config.corpus is not None and config.corpus.prepared is not None:
        source = str(Path(config.corpus.prepared) / PIECES_FILE)
    if source is not None:
        return PieceCoder.load(source, sentinels=sentinels)

    def texts() -> Iterator[str]:
        for task in rows:
            for pair in task.train:
                yield from (pair.source, *pair.right)
        if config.corpus is not None:
            yield from sample_documents(config.corpus)
            yield from _ASCII  # what labels and parses of later tasks are written with

    size = None if config.pieces.size is None else config.pieces.size + sentinels
    return PieceCoder.train(
        texts(),
        size=size,
        sentinels=sentinels,
        join_symbols=config.pieces.join_symbols,
        whole_words=config.pieces.whole_words,
    )


def _pair_parts(
    config: PairRunConfig, rows: Sequence[TaskRows], coder: PieceCoder, say: Callable[[str], None]
) -> tuple[list[Part], list[TaskRows]]:
    """The tasks as pieces, and the rows that they are of."""
    parts: list[Part] = []
    left: list[TaskRows] = []
    for number, task in enumerate(rows):
        train, kept = encode_pairs(task.train, coder, config.model, task.config, say, number=number)
        dev, measured = encode_pairs(task.dev, coder, config.model, task.config, say, number=number)
        left.append(TaskRows(config=task.config, train=kept, dev=measured))
        part = PairPart(
            name=task.config.name, train=train, dev=dev, places=kept, recombination=task.config.recombination
        )
        if part.lexicon is not None:
            say(f"{part.name}: {len(part.lexicon.source):,} words have a part of the answer, and are recombined")
        parts.append(part)
    return parts, left


def _write_folder(
    config: PairRunConfig,
    model: EncoderDecoder,
    coder: PieceCoder,
    rows: Sequence[TaskRows],
    history: list[dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
) -> PairRun:
    """All files of the folder but the record of the run; what is measured is what was saved."""
    parameters = count_parameters(model)
    tasks = [task.to_dict() for task in config.tasks]
    saved = {
        "model": config.model.to_dict(),
        "spans": config.spans.to_dict(),
        "generation": config.generation.to_dict(),
        "tasks": tasks,
    }
    head = {"parameters": parameters, "kind": TEXT_TO_TEXT, "vocabulary": PIECES_FILE}
    write_model(folder, model, {**head, **saved})
    generator = TextGenerator(folder)
    metrics = {
        task.config.name: measure_task(generator, task.dev, form=task.config.form, cut=task.config.cut)[0]
        for task in rows
    }
    best = next(record for record in reversed(history) if record["best"])
    held_out = {key.removeprefix("dev_"): value for key, value in best.items() if key.startswith("dev_")}
    report = {
        "dev": {name: item.to_dict() for name, item in metrics.items()},
        "held_out": held_out,
        "best": {key: best[key] for key in ("epoch", "step", "train_loss", "dev_loss")},
        "parameters": parameters,
    }
    write_sealed(folder / METRICS_FILE, report)
    if_possible(lambda: training_curves(history, folder / CURVES_FILE), say)
    write_atomic(folder / CARD_FILE, text_to_text_card(config.to_dict(), report))
    return PairRun(folder=folder, metrics=metrics, held_out=held_out, history=history, parameters=parameters)


def _fingerprint(config: PairRunConfig, parts: Sequence[Part], coder: PieceCoder, prepared: Prepared | None) -> str:
    """Identifies what a checkpoint belongs to: configuration and content of the data, not where the files lie."""
    values = config.model_dump(
        mode="json",
        exclude={"tasks": True, "corpus": True, "start": True, "train": {"checkpoint_seconds", "track"}},
    )
    out = hashlib.sha256(json.dumps([values, *coder.serialise()], sort_keys=True).encode())
    for part in parts:
        out.update(part.name.encode())
        if isinstance(part, PairPart):
            out.update(repr(part.recombination).encode())
            for pair in (*part.train, *part.dev):
                for pieces in pair:
                    out.update(pieces.tobytes() + b"\n")
    out.update((prepared.digest if prepared is not None else SPANS).encode())
    return out.hexdigest()
