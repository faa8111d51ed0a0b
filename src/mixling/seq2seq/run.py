"""Training from text to text: pairs of tasks, span corruption, or both, to a folder that `mixling generate` reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from mixling.data.documents import SubwordReader
from mixling.data.prepared import Prepared, sample_documents
from mixling.errors import ConfigError
from mixling.export.card import text_to_text_card
from mixling.runs.artifact import (
    TEXT_TO_TEXT,
    Artifact,
    read_artifact,
)
from mixling.runs.record import run_corpus
from mixling.runs.run import Parts, Run, Stage, execute
from mixling.runs.weights import load_weights, read_weights
from mixling.seq2seq.config import SPANS, PairRunConfig
from mixling.seq2seq.evaluation import evaluate_task
from mixling.seq2seq.generator import HINT, TextGenerator, read_coder
from mixling.seq2seq.metrics import TextMetrics
from mixling.seq2seq.mixture import draws
from mixling.seq2seq.model import EncoderDecoder, build_encoder_decoder
from mixling.seq2seq.objective import TextToText
from mixling.seq2seq.span_training import SpanPart
from mixling.seq2seq.tasks import TaskRows, encode_pairs, read_task
from mixling.seq2seq.training import PairData, PairPart, Part
from mixling.storage import write_atomic
from mixling.text.subwords import FILE as TOKENIZER_FILE
from mixling.text.subwords import SubwordTokenizer
from mixling.training.callbacks import Callback
from mixling.training.distributed import DistributedContext

_REMEDY = "; leave out what changes model.* or subwords.*"
_ASCII = tuple(map(chr, range(33, 127)))


def fit_pairs(
    config: PairRunConfig,
    *,
    folder: Path,
    resume: bool = False,
    command: str = "train",
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Run[dict[str, TextMetrics]] | None:
    """Train an encoder-decoder and write its folder; a model in it stays until the new one is finished.

    Args:
        config: resolved (`mixling.runs.spec`); of a resumed run that of its record.
        resume: resume the run in the folder; rows are read again, unlabeled text is not.
        command: the subcommand that resumes an interrupted run with --resume.

    Returns:
        the run, with the metrics of each task on its validation pairs, as the saved model answers them; None in
        processes other than the main one.

    Raises:
        UserError: of the kind that fits; see `read_task`, `encode_pairs`, `prepare` and `Trainer.fit`.
    """
    if config.start is not None and not resume and Path(config.start).resolve() == folder.resolve():
        raise ConfigError(f"{config.start}: a run cannot replace the one that it begins with; give another folder")
    return execute(
        TEXT_TO_TEXT, config, lambda stage: _Pairs(config, stage),
        elsewhere=frozenset({"tasks", "corpus", "start"}), folder=folder, resume=resume, command=command,
        distributed=distributed, callback=callback, log=log,
    )  # fmt: skip


class _Pairs(Parts[dict[str, TextMetrics]]):
    """A model that writes text, and the tasks that it learns: pairs of texts, span corruption, or both."""

    model: EncoderDecoder
    data: PairData

    def __init__(self, config: PairRunConfig, stage: Stage) -> None:
        self.config, self.training = config, config.train
        tasks = [read_task(task, seed=config.train.seed, log=stage.log) for task in config.tasks]
        self.prepared: Prepared | None = None

        def read() -> tuple[SubwordTokenizer, list[Part], list[TaskRows]]:
            kept = stage.first if stage.resume or not stage.distributed.is_main else None
            coder = _coder(config, tasks, kept)
            parts, rows = _pair_parts(config, tasks, coder, stage.log)
            if stage.distributed.is_main:
                write_atomic(stage.first / TOKENIZER_FILE, coder.serialize()[1])
            if config.corpus is not None:
                self.prepared = run_corpus(config.corpus, SubwordReader(coder), stage.first, stage.log)
            return coder, parts, rows

        self.coder, parts, self.rows = stage.in_turn(read)
        if self.prepared is not None:
            limits = config.model.max_source_len, config.model.max_target_len
            spans = SpanPart(
                self.prepared, config.spans, self.coder, max_source_len=limits[0], max_target_len=limits[1]
            )
            parts.append(spans)
        draws(config.mixing, {part.name: len(part) for part in parts})
        self.model = build_encoder_decoder(config.model, vocab_size=len(self.coder), seed=config.train.seed)
        if config.start is not None and not stage.begun:
            weights = read_artifact(config.start, _weights, hint=HINT, kinds=(TEXT_TO_TEXT,))
            load_weights(self.model, weights, folder=config.start, remedy=_REMEDY)
        self.data = PairData(
            objective=TextToText("exact_match" if config.tasks else "perplexity", config.train.loss),
            parts=parts,
            mixing=config.mixing,
            pad=self.coder.pad_id,
        )
        stage.log(f"{len(self.coder):,} subwords, {self.parameters:,} parameters")

    def content(self) -> Iterator[bytes]:
        yield json.dumps(self.coder.serialize()).encode()
        for part in self.data.parts:
            yield part.name.encode()
            if isinstance(part, PairPart):
                yield repr(part.recombination).encode()
                for pair in (*part.train, *part.validation):
                    yield from (subwords.tobytes() + b"\n" for subwords in pair)
        yield (self.prepared.digest if self.prepared is not None else SPANS).encode()

    def save(self, folder: Path) -> dict[str, Any]:
        return {
            "vocabulary": TOKENIZER_FILE,
            "model": self.config.model.to_dict(),
            "spans": self.config.spans.to_dict(),
            "generation": self.config.generation.to_dict(),
            "tasks": [task.to_dict() for task in self.config.tasks],
        }

    def evaluate(
        self, folder: Path, best: dict[str, Any], log: Callable[[str], None]
    ) -> tuple[dict[str, TextMetrics], dict[str, Any]]:
        generator = TextGenerator(folder)
        metrics = {
            task.config.name: evaluate_task(
                generator, task.validation, template=task.config.template, cut=task.config.cut
            )[0]
            for task in self.rows
        }
        return metrics, {
            "validation": {name: item.to_dict() for name, item in metrics.items()},
            "held_out": {key.removeprefix("val_"): value for key, value in best.items() if key.startswith("val_")},
        }

    def card(self, report: dict[str, Any]) -> str:
        return text_to_text_card(self.config.to_dict(), report)


def _weights(artifact: Artifact) -> dict[str, Tensor]:
    return read_weights(artifact.folder, artifact.saved)


def _coder(config: PairRunConfig, rows: Sequence[TaskRows], kept: Path | None) -> SubwordTokenizer:
    """The vocabulary: kept in the folder of a resumed run, given, of the run that it begins with, or trained."""
    if kept is not None and (kept / TOKENIZER_FILE).is_file():
        return SubwordTokenizer.load(str(kept / TOKENIZER_FILE))
    sentinels = config.subwords.sentinels if config.corpus is not None else 0
    source = config.subwords.vocabulary
    if config.start is not None:
        if source is not None:
            raise ConfigError(
                f"{config.start} has the subwords that it was trained with; leave out tokenizer.vocabulary"
            )
        return read_artifact(config.start, read_coder, hint=HINT, kinds=(TEXT_TO_TEXT,))
    if config.corpus is not None and config.corpus.prepared is not None:
        source = str(Path(config.corpus.prepared) / TOKENIZER_FILE)
    if source is not None:
        return SubwordTokenizer.load(source, sentinels=sentinels)

    def texts() -> Iterator[str]:
        for task in rows:
            for pair in task.train:
                yield from (pair.source, *pair.right)
        if config.corpus is not None:
            yield from sample_documents(config.corpus)
            yield from _ASCII  # what labels and parses of later tasks are written with

    size = None if config.subwords.size is None else config.subwords.size + sentinels
    return SubwordTokenizer.train(
        texts(),
        size=size,
        sentinels=sentinels,
        join_symbols=config.subwords.join_symbols,
        whole_words=config.subwords.whole_words,
    )


def _pair_parts(
    config: PairRunConfig, rows: Sequence[TaskRows], coder: SubwordTokenizer, log: Callable[[str], None]
) -> tuple[list[Part], list[TaskRows]]:
    """The tasks as subwords, and the rows that they are of."""
    parts: list[Part] = []
    left: list[TaskRows] = []
    for number, task in enumerate(rows):
        train, kept = encode_pairs(task.train, coder, config.model, task.config, log, number=number)
        validation, evaluated = encode_pairs(task.validation, coder, config.model, task.config, log, number=number)
        left.append(TaskRows(config=task.config, train=kept, validation=evaluated))
        part = PairPart(
            name=task.config.name,
            train=train,
            validation=validation,
            locations=kept,
            recombination=task.config.recombination,
        )
        if part.lexicon is not None:
            log(f"{part.name}: {len(part.lexicon.source):,} words have a part of the answer, and are recombined")
        parts.append(part)
    return parts, left
