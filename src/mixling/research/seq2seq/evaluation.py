"""Evaluating saved text-to-text models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from mixling.config import parse
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.readers.rows import SKIP, OnBadRow
from mixling.errors import DataError
from mixling.models.tensors import tensors_of
from mixling.research.pretraining.documents import SubwordReader
from mixling.research.pretraining.prepared import Prepared, encode_documents
from mixling.research.seq2seq.batches import SubwordIds
from mixling.research.seq2seq.generator import TextGenerator
from mixling.research.seq2seq.metrics import TextMetrics, text_report
from mixling.research.seq2seq.pairs import Pair, read_pairs
from mixling.research.seq2seq.span_corruption import SpanConfig
from mixling.research.seq2seq.span_training import SpanPart
from mixling.research.seq2seq.training import Scores, evaluate_pairs


def evaluate_task(
    generator: TextGenerator,
    pairs: Sequence[Pair],
    *,
    template: str | None,
    cut: bool,
    bleu: bool = False,
    on_bad_row: OnBadRow | None = None,
) -> tuple[TextMetrics, list[str]]:
    """Return the metrics of a saved model's generations, and the generations.

    Targets are normalized as by the tokenizer: single spaces, composed characters.

    Args:
        template: the template of the task, which has metrics of its own.
        cut: truncate sources beyond the model's length.
        bleu: also compute sacreBLEU and chrF.
        on_bad_row: what to do with sources that the model cannot read; None: raise.

    Raises:
        DataError: the model cannot read a source, unless such rows are skipped, or none is left.
    """
    bad = on_bad_row or OnBadRow("error")
    kept: list[Pair] = []
    sources: list[SubwordIds] = []
    for pair, source in zip(pairs, generator.encode([pair.source for pair in pairs], cut=cut), strict=True):
        if message := generator.problem(source):
            bad(DataError(f"the source {message}, {SKIP}", path=pair.path, line=pair.line))
            continue
        normal = generator.coder.normal
        target = None if pair.target is None else normal(pair.target)
        kept.append(replace(pair, target=target, references=tuple(map(normal, pair.references))))
        sources.append(source)
    texts = [generation.text for generation in generator.generate_encoded(sources)]
    return text_report(texts, kept, template=template, bleu=bleu), texts


def evaluate_files(
    folder: str | Path,
    files: Sequence[str],
    *,
    on_bad_row: OnBadRow,
    task: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    bleu: bool = False,
) -> tuple[TextMetrics, list[str]]:
    """Return the metrics of a saved model on files of one of its tasks, and its generations.

    Args:
        task: the name of the task, if the model has several.
        columns: values of `PairColumns` that replace the task's; None: not given.
        bleu: also compute sacreBLEU and chrF.

    Raises:
        ConfigError: the task is unknown.
        DataError: a file or row cannot be used.
        ModelFileError: the folder is incomplete or damaged.
    """
    generator = TextGenerator(folder)
    config = generator.task(task)
    given = {key: value for key, value in (columns or {}).items() if value is not None}
    pairs = read_pairs(
        files,
        columns=config.columns.model_copy(update=given),
        on_bad_row=on_bad_row,
        template=config.template,
        prefix=config.prefix,
        training=False,
    )
    return evaluate_task(
        generator, list(pairs), template=config.template, cut=config.cut, bleu=bleu, on_bad_row=on_bad_row
    )


def evaluate_spans(folder: str | Path, sources: Sequence[str], *, text: str = "text") -> dict[str, float]:
    """Return perplexity and accuracy of a model on corrupted spans of text, which are always the same.

    Args:
        sources: files of text.
        text: the column of the text, in tables.

    Raises:
        DataError: a file cannot be used.
        ConfigError: the text is too short, or the model's vocabulary has no sentinels.
        ModelFileError: the folder is incomplete or damaged.
    """
    generator = TextGenerator(folder)
    spans = parse(SpanConfig, generator.saved.get("spans", {}), where=str(folder))
    tokens = encode_documents(read_texts(sources, text=text), SubwordReader(generator.coder))
    part = SpanPart(
        Prepared(tokens, tokens, ""),
        spans,
        generator.coder,
        max_source_len=generator.config.max_source_len,
        max_target_len=generator.config.max_target_len,
    )
    numbers = _evaluated(generator, part.validation).numbers()
    return {"perplexity": numbers["perplexity"], "accuracy": numbers["accuracy"], "tokens": float(len(tokens.rows))}


def exact_matches(generator: TextGenerator, pairs: Sequence[Pair]) -> list[bool]:
    """Return for which pairs greedy search would generate the target, without a search; see `PairData`.

    This is much faster than generating many long texts. Pairs that exceed the model's lengths are not matches.
    """
    sources = generator.encode([pair.source for pair in pairs])
    targets = generator.encode([pair.right[0] for pair in pairs])
    most = generator.generation.max_len
    usable = [i for i in range(len(pairs)) if not generator.problem(sources[i]) and len(targets[i]) <= most]
    scores = _evaluated(generator, [(sources[i], targets[i]) for i in usable])
    matches = {usable[number] for number in scores.exact}
    return [i in matches for i in range(len(pairs))]


def _evaluated(generator: TextGenerator, pairs: Sequence[tuple[SubwordIds, SubwordIds]]) -> Scores:
    def forward(batch: Inputs) -> Tensor:
        logits: Tensor = generator.model(*tensors_of(batch.arguments, generator.device))
        return logits

    return evaluate_pairs(pairs, forward, pad=generator.coder.pad_id)
