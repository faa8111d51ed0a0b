"""How good a saved model's texts are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from mixling.config import parse
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.documents import PieceReader
from mixling.data.forms import find_form
from mixling.data.pair_batches import Pieces
from mixling.data.pairs import Pair
from mixling.data.prepared import Prepared, encode_documents
from mixling.data.spans import SpanConfig
from mixling.runs.generator import TextGenerator
from mixling.tasks.text_metrics import TextMetrics, text_report
from mixling.training.pairs import Scores, measure_pairs
from mixling.training.spans import SpanPart


def measure_task(
    generator: TextGenerator, pairs: Sequence[Pair], *, form: str | None, cut: bool, bleu: bool = False
) -> tuple[TextMetrics, list[str]]:
    """How good a saved model's answers are, and the answers.

    A source that the model cannot read whole is answered by nothing, which is wrong. Where only whole answers count,
    greedy search ends one piece beyond the longest right one: no measure could tell it from another wrong one.
    """
    config = generator.generation
    if config.num_beams == 1 and not bleu and (form is None or find_form(form).labels):
        longest = max(map(len, generator.encode([text for pair in pairs for text in pair.right])))
        config = config.model_copy(update={"max_len": min(config.max_len, longest + 1)})
    sources = generator.encode([pair.source for pair in pairs], cut=cut)
    readable = [i for i, source in enumerate(sources) if not generator.fault(source)]
    answers = [""] * len(pairs)
    for i, written in zip(readable, generator.answers([sources[i] for i in readable], config=config), strict=True):
        answers[i] = written.text
    return text_report(answers, pairs, form=form, bleu=bleu), answers


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
