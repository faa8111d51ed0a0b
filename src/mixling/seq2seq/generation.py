"""Answers from an encoder-decoder: greedy, and beam search."""

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
from mixling.seq2seq.model import EncoderDecoder, pick


class GenerationConfig(Config):
    """How answers are sought; one beam is greedy search."""

    max_len: int = Field(128, ge=1, description="most subwords of an answer, the stop unit counted")
    num_beams: int = Field(1, ge=1)
    length_penalty: float = Field(
        1.0,
        ge=-10,
        le=10,
        allow_inf_nan=False,
        description="alpha of score = log-probability / length^alpha; above 0 it favours long answers",
    )
    early_stopping: bool = Field(
        True,
        description="a search of beams ends with as many answers; else where no unfinished one can become the best",
    )


class Answer(NamedTuple):
    """The subwords of an answer, without the start and the stop unit.

    score: log-probability / length^alpha, the stop unit counted in both.
    stopped: the model ended it; False: it was cut at `max_len`.
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
) -> list[Answer]:
    """The best answer found for each source; what is beside it in the batch has no part in it.

    Greedy search takes the likeliest unit at each step. Beam search keeps the `num_beams` likeliest unfinished answers;
    an answer is finished where its stop unit is among the `num_beams` likeliest continuations of all of them, or at
    `max_len`. The finished ones compete by score. All of this, and the length penalty, is the way of `transformers`
    (its `early_stopping` is True, or "never" for our False), not GNMT's ((5 + length) / 6)^alpha.
    A search without `early_stopping` ends where no continuation of an unfinished answer can have a better score, as
    log-probabilities only fall; that is exact, so it finds what a search to `max_len` would.
    Sources whose answer is found leave the batch. Cost is that of one `step` a unit and beam.

    Args:
        start: the unit that stands before every answer (T5's is its padding).
        stop: the unit that ends an answer.

    Raises:
        ConfigError: the source, or `max_len`, is longer than the model's parameters allow.
    """
    if model.max_target_len is not None and config.max_len > model.max_target_len:
        raise ConfigError(
            f"max_len: got {config.max_len}, the model is built for targets of at most {model.max_target_len} tokens; "
            f"lower it, or build the model with max_target_len = {config.max_len}"
        )
    if len(source) == 0:
        return []
    with _answering(model):
        search = _greedy if config.num_beams == 1 else _beam_search
        return search(model, model.start(source, source_mask), source.new_full((len(source),), start), config, stop)


@contextmanager
def _answering(model: EncoderDecoder) -> Iterator[None]:
    """Without gradients and dropout."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def _greedy(
    model: EncoderDecoder, state: StackState, last: Int[Tensor, " B"], config: GenerationConfig, stop: int
) -> list[Answer]:
    size = len(last)
    subwords: list[list[int]] = [[] for _ in range(size)]
    sums, stopped = [0.0] * size, [False] * size
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
            last, state, open_ = last[rows], pick(state, rows), [open_[row] for row in kept]
    return [
        Answer(tuple(subwords[i]), sums[i] / (len(subwords[i]) + stopped[i]) ** config.length_penalty, stopped[i])
        for i in range(size)
    ]


def _beam_search(
    model: EncoderDecoder, state: StackState, last: Int[Tensor, " B"], config: GenerationConfig, stop: int
) -> list[Answer]:
    most, alpha, device, size = config.num_beams, config.length_penalty, last.device, len(last)
    answers: list[Answer | None] = [None] * size
    finished = [0] * size
    open_ = torch.arange(size)  # the sources that are sought for
    # S sources with W beams each; W is 1 at first, and as many as there are until there are `most`.
    sums = torch.zeros(size, 1, dtype=model.table.weight.dtype, device=device)
    subwords = torch.zeros(size, 1, 0, dtype=torch.int64, device=device)
    for length in range(1, config.max_len + 1):
        logits, state = model.step(last, state)
        (count, width), vocabulary = sums.shape, logits.shape[1]
        totals = wide(sums)[..., None] + wide(logits).log_softmax(1).view(count, width, vocabulary)
        # Each beam has one continuation that stops: of twice as many, `most` at least go on.
        likeliest, locations = totals.flatten(1).topk(min(2 * most, width * vocabulary))
        beams, new = locations // vocabulary, locations % vocabulary
        ended = new == stop
        complete = (ended | (length == config.max_len))[:, :most]
        for row, column in complete.nonzero().tolist():
            number = int(open_[row])
            finished[number] += 1
            score = float(likeliest[row, column]) / length**alpha
            before = answers[number]
            if before is None or score > before.score:
                stopped = bool(ended[row, column])
                whole = [*subwords[row, beams[row, column]].tolist(), *([] if stopped else [int(new[row, column])])]
                answers[number] = Answer(tuple(whole), score, stopped)
        if length == config.max_len:
            break
        going = ended.to(torch.int8).argsort(dim=1, stable=True)[:, : min(most, width * (vocabulary - 1))]
        sums, beams, new = likeliest.gather(1, going), beams.gather(1, going), new.gather(1, going)
        # A bound on what those that go on can reach: no more is lost, at the length that favours them most.
        limits = (sums[:, 0] / (config.max_len if alpha > 0 else length + 1) ** alpha).tolist()
        left = [
            row
            for row, number in enumerate(open_.tolist())
            if not _is_found(answers[number], limits[row], full=config.early_stopping and finished[number] >= most)
        ]
        if not left:
            break
        rows = torch.tensor(left, device=device)
        open_, sums, beams, new = open_[left], sums[rows], beams[rows], new[rows]
        subwords = torch.cat([subwords[rows[:, None], beams], new[..., None]], dim=2)
        state = pick(state, (rows[:, None] * width + beams).flatten(), same_sources=sums.shape == (count, width))
        last = new.flatten()
    return [answer for answer in answers if answer is not None]


def _is_found(best: Answer | None, limit: float, *, full: bool) -> bool:
    return best is not None and (full or best.score >= limit)
