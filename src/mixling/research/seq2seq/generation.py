"""Generation with an encoder-decoder: greedy search and beam search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Int, Shaped
from pydantic import Field
from torch import Tensor

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.layers.mixer import wide
from mixling.models.encoder import StackState
from mixling.research.seq2seq.model import EncoderDecoder, pick


class GenerationConfig(Config):
    """How texts are generated; one beam is greedy search."""

    max_len: int = Field(default=128, ge=1, description="maximum number of subwords, including the stop token")
    num_beams: int = Field(default=1, ge=1, description="width of the beam search; 1: greedy search")
    length_penalty: float = Field(
        default=1.0,
        ge=-10,
        le=10,
        allow_inf_nan=False,
        description="alpha of score = log-probability / length^alpha; above 0 it favors long texts",
    )
    early_stopping: bool = Field(
        default=True,
        description="stop with num_beams finished hypotheses; else when no unfinished one can become the best",
    )


class Hypothesis(NamedTuple):
    """A generated sequence.

    Attributes:
        subwords: without start and stop token.
        score: log-probability / length^alpha, both including the stop token.
        stopped: whether the model generated the stop token; False: `max_len` was reached.
    """

    subwords: tuple[int, ...]
    score: float
    stopped: bool


def generate(
    model: EncoderDecoder,
    source: Int[Tensor, "B N"],
    source_mask: Shaped[Tensor, "B N"] | None,
    config: GenerationConfig,
    *,
    start: int,
    stop: int,
) -> list[Hypothesis]:
    """Return the best sequence found for each source, independent of the other sources of the batch.

    Greedy search takes the most likely subword at each step. Beam search keeps the `num_beams` most likely unfinished
    hypotheses; a hypothesis is finished if its stop token is among the `num_beams` most likely continuations of all of
    them, or at `max_len`. Finished hypotheses compete by score. This, and the length penalty, is as in `transformers`
    (whose `early_stopping` is True, or "never" for False here), not GNMT's ((5 + length) / 6)^alpha.
    Without `early_stopping`, a search ends when no continuation of an unfinished hypothesis can have a better score,
    because log-probabilities only decrease; the result equals a search to `max_len`. Sources whose search has ended
    leave the batch. The cost is one `step` per subword and beam.

    Args:
        start: the start token (T5 uses the padding).
        stop: the stop token.

    Raises:
        ConfigError: the source, or `max_len`, is longer than the model's parameters allow.
    """
    if model.max_target_len is not None and config.max_len > model.max_target_len:
        raise ConfigError(
            f"max_len: got {config.max_len}, but the model is built for at most {model.max_target_len} target tokens; "
            f"lower it, or build the model with max_target_len = {config.max_len}"
        )
    if len(source) == 0:
        return []
    with _inference(model):
        search = _greedy if config.num_beams == 1 else _beam_search
        return search(model, model.start(source, source_mask), source.new_full((len(source),), start), config, stop)


@contextmanager
def _inference(model: EncoderDecoder) -> Iterator[None]:
    """Disable gradients and dropout."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def _greedy(
    model: EncoderDecoder, state: StackState, last: Int[Tensor, " B"], config: GenerationConfig, stop: int
) -> list[Hypothesis]:
    size = len(last)
    subwords: list[list[int]] = [[] for _ in range(size)]
    sums = [0.0] * size
    stopped = [False] * size
    open_ = list(range(size))
    for _ in range(config.max_len):
        logits, state = model.step(last, state)
        best, last = wide(logits).max(1)
        steps = zip(open_, last.tolist(), (best - wide(logits).logsumexp(1)).tolist(), strict=True)
        kept = []
        for row, (number, subword, gain) in enumerate(steps):
            sums[number] += gain
            if subword == stop:
                stopped[number] = True
            else:
                subwords[number].append(subword)
                kept.append(row)
        if not kept:
            break
        if len(kept) < len(open_):
            rows = torch.tensor(kept, device=last.device)
            last = last[rows]
            state = pick(state, rows)
            open_ = [open_[row] for row in kept]
    return [
        Hypothesis(tuple(subwords[i]), sums[i] / (len(subwords[i]) + stopped[i]) ** config.length_penalty, stopped[i])
        for i in range(size)
    ]


def _beam_search(
    model: EncoderDecoder, state: StackState, last: Int[Tensor, " B"], config: GenerationConfig, stop: int
) -> list[Hypothesis]:
    most = config.num_beams
    alpha = config.length_penalty
    device = last.device
    size = len(last)
    best: list[Hypothesis | None] = [None] * size
    finished = [0] * size
    open_ = torch.arange(size)  # the sources still searched for
    # S sources with W beams each; W is 1 at first, and then as many as there are, up to `most`.
    sums = torch.zeros(size, 1, dtype=model.table.weight.dtype, device=device)
    subwords = torch.zeros(size, 1, 0, dtype=torch.int64, device=device)
    for length in range(1, config.max_len + 1):
        logits, state = model.step(last, state)
        (count, width) = sums.shape
        vocabulary = logits.shape[1]
        totals = wide(sums)[..., None] + wide(logits).log_softmax(1).view(count, width, vocabulary)
        # Each beam has one continuation that stops: among twice as many, at least `most` do not.
        likeliest, flat = totals.flatten(1).topk(min(2 * most, width * vocabulary))
        beams = flat // vocabulary
        new = flat % vocabulary
        ended = new == stop
        complete = (ended | (length == config.max_len))[:, :most]
        for row, column in complete.nonzero().tolist():
            number = int(open_[row])
            finished[number] += 1
            score = float(likeliest[row, column]) / length**alpha
            before = best[number]
            if before is None or score > before.score:
                stopped = bool(ended[row, column])
                text = [*subwords[row, beams[row, column]].tolist(), *([] if stopped else [int(new[row, column])])]
                best[number] = Hypothesis(tuple(text), score, stopped)
        if length == config.max_len:
            break
        going = ended.to(torch.int8).argsort(dim=1, stable=True)[:, : min(most, width * (vocabulary - 1))]
        sums = likeliest.gather(1, going)
        beams = beams.gather(1, going)
        new = new.gather(1, going)
        # An upper bound of the scores that unfinished hypotheses can reach: no further loss, at the best length.
        limits = (sums[:, 0] / (config.max_len if alpha > 0 else length + 1) ** alpha).tolist()
        left = []
        for row, number in enumerate(open_.tolist()):
            found = best[number]
            full = config.early_stopping and finished[number] >= most
            if found is None or not (full or found.score >= limits[row]):
                left.append(row)
        if not left:
            break
        rows = torch.tensor(left, device=device)
        open_ = open_[left]
        sums = sums[rows]
        beams = beams[rows]
        new = new[rows]
        subwords = torch.cat([subwords[rows[:, None], beams], new[..., None]], dim=2)
        state = pick(state, (rows[:, None] * width + beams).flatten(), same_sources=sums.shape == (count, width))
        last = new.flatten()
    return [hypothesis for hypothesis in best if hypothesis is not None]
