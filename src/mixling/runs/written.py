"""How good a saved model's texts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from mixling.config import parse
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.documents import PieceReader
from mixling.data.pair_batches import Pieces
from mixling.data.pairs import Pair
from mixling.data.prepared import Prepared, encode_documents
from mixling.data.rows import OnBadRow
from mixling.data.spans import SpanConfig
from mixling.errors import DataError
from mixling.metrics.text_metrics import TextMetrics, text_report
from mixling.runs.generator import TextGenerator
from mixling.training.pairs import Scores, measure_pairs
from mixling.training.spans import SpanPart


def measure_task(
    generator: TextGenerator,
    pairs: Sequence[Pair],
    *,
    form: str | None,
    cut: bool,
    bleu: bool = False,
    on_bad_row: OnBadRow | None = None,
) -> tuple[TextMetrics, list[str]]:
    """How good a saved model's answers are, and the answers.

    What is right is compared as the pieces write it, with single spaces and composed characters.

    Args:
        cut: sources beyond the model's length are cut.
        on_bad_row: what becomes of sources that the model cannot read; None: an error.

    Raises:
        DataError: the model cannot read a source, unless such rows are skipped, or any.
    """
    bad = on_bad_row or OnBadRow("error")
    kept: list[Pair] = []
    sources: list[Pieces] = []
    for pair, source in zip(pairs, generator.encode([pair.source for pair in pairs], cut=cut), strict=True):
        if message := generator.fault(source):
            bad(DataError(f"the source {message}, or pass --on-bad-row skip", path=pair.path, line=pair.line))
            continue
        normal = generator.coder.normal
        target = None if pair.target is None else normal(pair.target)
        kept.append(replace(pair, target=target, references=tuple(map(normal, pair.references))))
        sources.append(source)
    answers = [written.text for written in generator.answers(sources)]
    return text_report(answers, kept, form=form, bleu=bleu), answers


def evaluate_spans(folder: str | Path, sources: Sequence[str], *, text: str = "text") -> dict[str, float]:
    """Perplexity and accuracy of a model on spans that are taken out of other text, always the same.

    Raises:
        DataError: a file that cannot be used.
        ConfigError: the text is too short, or the model's pieces have no sentinels.
        ModelFileError: the folder is not complete, or damaged.
    """
    generator = TextGenerator(folder)
    spans = parse(SpanConfig, generator.saved.get("spans", {}), where=str(folder))
    tokens = encode_documents(read_texts(sources, text=text), PieceReader(generator.coder))
    part = SpanPart(
        Prepared(tokens, tokens, ""),
        spans,
        generator.coder,
        max_source_len=generator.config.max_source_len,
        max_target_len=generator.config.max_target_len,
    )
    numbers = _measured(generator, part.dev).numbers()
    return {"perplexity": numbers["perplexity"], "accuracy": numbers["accuracy"], "tokens": float(len(tokens.rows))}


def told_whole(generator: TextGenerator, pairs: Sequence[Pair]) -> list[bool]:
    """Which pairs greedy search would answer with their target's pieces, without a search: see `PairData`.

    Much faster than to write the answers of many long targets. What the model cannot read or write whole is not told.
    """
    sources = generator.encode([pair.source for pair in pairs])
    targets = generator.encode([pair.right[0] for pair in pairs])
    most = generator.generation.max_len
    known = [i for i in range(len(pairs)) if not generator.fault(sources[i]) and len(targets[i]) <= most]

    scores = _measured(generator, [(sources[i], targets[i]) for i in known])
    whole = {known[number] for number in scores.exact}
    return [i in whole for i in range(len(pairs))]


def _measured(generator: TextGenerator, pairs: Sequence[tuple[Pieces, Pieces]]) -> Scores:
    def forward(batch: Inputs) -> Tensor:
        return generator.model(*batch.to(generator.device).arguments)

    return measure_pairs(pairs, forward, pad=generator.coder.pad_id)
