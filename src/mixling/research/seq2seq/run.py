"""Training text-to-text models on pairs of texts, span corruption, or both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from mixling.artifacts.artifact import read_artifact
from mixling.artifacts.kinds import TEXT_TO_TEXT
from mixling.artifacts.weights import read_weights
from mixling.errors import ConfigError
from mixling.models.model import count_parameters
from mixling.models.tensors import weights_of
from mixling.research.pretraining.documents import SubwordReader
from mixling.research.pretraining.prepared import Prepared, run_corpus, sample_documents
from mixling.research.saved import load_weights
from mixling.research.seq2seq.card import text_to_text_card
from mixling.research.seq2seq.config import SPANS, PairRunConfig
from mixling.research.seq2seq.evaluation import evaluate_task
from mixling.research.seq2seq.generator import HINT, TextGenerator, read_coder
from mixling.research.seq2seq.metrics import TextMetrics
from mixling.research.seq2seq.mixture import draws
from mixling.research.seq2seq.model import EncoderDecoder, build_encoder_decoder
from mixling.research.seq2seq.span_training import SpanPart
from mixling.research.seq2seq.tasks import TaskRows, encode_pairs, read_task
from mixling.research.seq2seq.training import PairData, PairPart, Part, TextToText
from mixling.runs.run import Run, RunArguments, RunFolder
from mixling.storage import write_atomic
from mixling.text.subwords import FILE as TOKENIZER_FILE
from mixling.text.subwords import SubwordTokenizer

_REMEDY = "; leave out changes to model.* and tokenizer.*"
_ASCII = tuple(map(chr, range(33, 127)))


def fit_pairs(config: PairRunConfig, **arguments: Unpack[RunArguments]) -> Run[dict[str, TextMetrics]] | None:
    """Train an encoder-decoder and write its folder.

    Args:
        config: resolved (`mixling.runs.resolve.spec`); to resume a run, the configuration of its record.
        options: as of `fit`; to resume a run, pairs are read again, unlabeled text is not.

    Returns:
        The run, with the validation metrics of each task, computed with the saved model; None in processes other than
        the main one.

    Raises:
        UserError: see `read_task`, `encode_pairs`, `prepare` and `Trainer.fit`.
    """
    with RunFolder.open(TEXT_TO_TEXT, config, **arguments) as run:
        with run.preparing():
            source = config.pretrained
            if source is not None and not run.resume and Path(source).resolve() == run.home.resolve():
                raise ConfigError(f"{source}: a run cannot replace its pretrained model; give another folder")
            tasks = [read_task(task, seed=config.train.seed, log=run.log) for task in config.tasks]
            coder, parts, rows, prepared = run.in_turn(lambda: _read(config, tasks, run))
            model = build_encoder_decoder(config.model, vocab_size=len(coder), seed=config.train.seed)
            if source is not None and not run.begun:
                _load_pretrained(model, source)
            data = PairData(
                objective=TextToText("exact_match" if config.tasks else "perplexity", config.train.loss),
                parts=parts,
                mixing=config.mixing,
                pad=coder.pad_id,
            )
            parameters = count_parameters(model)
            run.log(f"{len(coder):,} subwords, {parameters:,} parameters")
        run.train(model, data, config.train, content=_content(coder, parts, prepared))
        if not run.is_main:
            return None
        run.save(weights_of(model), _saved(config), parameters=parameters)
        generator = TextGenerator(run.folder)
        metrics = {
            task.config.name: evaluate_task(
                generator, task.validation, template=task.config.template, cut=task.config.cut
            )[0]
            for task in rows
        }
        report = {
            "validation": {name: item.to_dict() for name, item in metrics.items()},
            "held_out": {key.removeprefix("val_"): value for key, value in run.best.items() if key.startswith("val_")},
        }
        return run.finish(
            metrics,
            report,
            parameters=parameters,
            card=lambda whole: text_to_text_card(config.to_dict(), whole),
        )


def _read(
    config: PairRunConfig, tasks: Sequence[TaskRows], run: RunFolder
) -> tuple[SubwordTokenizer, list[Part], list[TaskRows], Prepared | None]:
    """Return the tokenizer, the training data, the pairs of each task that the model can read, and unlabeled text."""
    stored = run.first if run.resume or not run.is_main else None
    coder = _coder(config, tasks, stored)
    parts, rows = _pair_parts(config, tasks, coder, run.log)
    if run.is_main:
        write_atomic(run.first / TOKENIZER_FILE, coder.serialize()[1])
    prepared = None
    if config.corpus is not None:
        prepared = run_corpus(config.corpus, SubwordReader(coder), run.first, run.log)
        spans = SpanPart(
            prepared,
            config.spans,
            coder,
            max_source_len=config.model.max_source_len,
            max_target_len=config.model.max_target_len,
        )
        parts.append(spans)
    draws(config.mixing, {part.name: len(part) for part in parts})
    return coder, parts, rows, prepared


def _load_pretrained(model: EncoderDecoder, folder: str) -> None:
    weights = read_artifact(
        folder,
        lambda artifact: read_weights(artifact.folder, artifact.saved),
        hint=HINT,
        kinds=(TEXT_TO_TEXT,),
    )
    load_weights(model, weights, folder=folder, remedy=_REMEDY)


def _content(coder: SubwordTokenizer, parts: Sequence[Part], prepared: Prepared | None) -> Iterator[bytes]:
    yield json.dumps(coder.serialize()).encode()
    for part in parts:
        yield part.name.encode()
        if isinstance(part, PairPart):
            yield repr(part.recombination).encode()
            for pair in (*part.train, *part.validation):
                yield from (subwords.tobytes() + b"\n" for subwords in pair)
    yield (prepared.digest if prepared is not None else SPANS).encode()


def _saved(config: PairRunConfig) -> dict[str, Any]:
    """Return the content of config.json."""
    return {
        "vocabulary": TOKENIZER_FILE,
        "model": config.model.to_dict(),
        "spans": config.spans.to_dict(),
        "generation": config.generation.to_dict(),
        "tasks": [task.to_dict() for task in config.tasks],
    }


def _coder(config: PairRunConfig, rows: Sequence[TaskRows], stored: Path | None) -> SubwordTokenizer:
    """Return the tokenizer: stored by a resumed run, named, of the pretrained model, or trained."""
    if stored is not None and (stored / TOKENIZER_FILE).is_file():
        return SubwordTokenizer.load(str(stored / TOKENIZER_FILE))
    sentinels = config.tokenizer.sentinels if config.corpus is not None else 0
    source = config.tokenizer.vocabulary
    if config.pretrained is not None:
        if source is not None:
            raise ConfigError(f"{config.pretrained} includes its vocabulary; leave out tokenizer.vocabulary")
        return read_artifact(config.pretrained, read_coder, hint=HINT, kinds=(TEXT_TO_TEXT,))
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
            yield from _ASCII  # may be needed for labels and parses of later tasks

    size = None if config.tokenizer.size is None else config.tokenizer.size + sentinels
    return SubwordTokenizer.train(
        texts(),
        size=size,
        sentinels=sentinels,
        join_symbols=config.tokenizer.join_symbols,
        whole_words=config.tokenizer.whole_words,
    )


def _pair_parts(
    config: PairRunConfig, rows: Sequence[TaskRows], coder: SubwordTokenizer, log: Callable[[str], None]
) -> tuple[list[Part], list[TaskRows]]:
    """Return the tasks as subwords, and the pairs of each that the model can read and generate."""
    parts: list[Part] = []
    usable: list[TaskRows] = []
    for number, task in enumerate(rows):
        train, pairs = encode_pairs(task.train, coder, config.model, task.config, log, number=number)
        validation, evaluated = encode_pairs(task.validation, coder, config.model, task.config, log, number=number)
        usable.append(TaskRows(config=task.config, train=pairs, validation=evaluated))
        part = PairPart(
            name=task.config.name,
            train=train,
            validation=validation,
            pairs=pairs,
            recombination=task.config.recombination,
        )
        if part.lexicon is not None:
            log(f"{part.name}: {len(part.lexicon.source):,} words are aligned with the targets, and are recombined")
        parts.append(part)
    return parts, usable
