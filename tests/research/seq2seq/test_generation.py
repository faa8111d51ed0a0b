"""Answers: against loops that recompute everything, and against every answer that there is."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from mixling import ConfigError
from mixling.research.seq2seq import EncoderDecoder, GenerationConfig, generate, generation
from mixling.research.seq2seq.generation import Hypothesis

from .small_models import FAMILIES, SOURCE_LENGTHS, SUBWORDS, built, sources

START, STOP = 0, 1
every_family = pytest.mark.parametrize("family", FAMILIES)


def ending(family: str, seed: int = 0, *, vocab_size: int = SUBWORDS, factor: float = 3.0) -> EncoderDecoder:
    """A model some of whose answers end."""
    model = built(family, vocab_size=vocab_size, seed=seed)
    with torch.no_grad():
        model.output.weight[STOP] *= factor
    return model


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(a.subwords, a.stopped) for a in found] == [(a.subwords, a.stopped) for a in expected]
    torch.testing.assert_close([a.score for a in found], [a.score for a in expected], rtol=0.0, atol=1e-10)


@torch.no_grad()
def greedy_by_recomputation(model: EncoderDecoder, source: Tensor, max_len: int, alpha: float) -> Hypothesis:
    """Of one source without padding."""
    subwords, total, stopped = [START], 0.0, False
    for _ in range(max_len):
        logits = model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([subwords]))[0, -1]
        subword = int(logits.argmax())
        total += float(logits[subword]) - math.log(sum(math.exp(float(value)) for value in logits))
        if subword == STOP:
            stopped = True
            break
        subwords.append(subword)
    return Hypothesis(tuple(subwords[1:]), total / (len(subwords) - 1 + stopped) ** alpha, stopped)


@pytest.mark.slow
@every_family
def test_greedy_takes_the_likeliest_subword_of_all_recomputed_logits(family: str) -> None:
    lengths, ends = [9, 1, 5, 3], set()
    source, mask = sources(lengths)
    for seed in range(4):
        model = ending(family, seed)
        config = GenerationConfig(max_len=10, length_penalty=0.7)
        answers = generate(model, source, mask, config, start=START, stop=STOP)
        alone = [source[i : i + 1, :length] for i, length in enumerate(lengths)]
        same(answers, [greedy_by_recomputation(model, ids, 10, 0.7) for ids in alone])
        ends |= {answer.stopped for answer in answers}
    assert ends == {True, False}


@torch.no_grad()
def every_answer(model: EncoderDecoder, source: Tensor, max_len: int, alpha: float, subwords: int) -> list[Hypothesis]:
    """All answers of up to `max_len` subwords, the best first."""
    answers = []
    for length in range(1, max_len + 1):
        others = [subword for subword in range(subwords) if subword != STOP]
        for body in itertools.product(others, repeat=length - 1):
            for last in range(subwords) if length == max_len else [STOP]:
                whole = [*body, last]
                target = torch.tensor([[START, *body]])
                logits = model(source, torch.ones_like(source, dtype=torch.bool), target)[0]
                total = sum(float(logits[t].log_softmax(0)[subword]) for t, subword in enumerate(whole))
                stopped = last == STOP
                answers.append(Hypothesis(tuple(body if stopped else whole), total / length**alpha, stopped))
    return sorted(answers, key=lambda answer: -answer.score)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0, -1.0])
@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("family", ["t5", "hypermixer"])
def test_a_beam_that_loses_nothing_finds_the_best_of_all_answers(
    family: str, early_stopping: bool, alpha: float
) -> None:
    subwords, max_len = 3, 4
    model = ending(family, 3, vocab_size=subwords, factor=1.0)
    lengths = [4, 2]
    source, mask = sources(lengths, subwords=subwords)
    config = GenerationConfig(max_len=max_len, num_beams=60, length_penalty=alpha, early_stopping=early_stopping)
    answers = generate(model, source, mask, config, start=START, stop=STOP)
    alone = [source[i : i + 1, :length] for i, length in enumerate(lengths)]
    everything = [every_answer(model, ids, max_len, alpha, subwords) for ids in alone]
    assert [len(answers) for answers in everything] == [1 + 2 + 4 + 8 * 3] * 2
    same(answers, [answers[0] for answers in everything])


@torch.no_grad()
def beams_by_recomputation(model: EncoderDecoder, source: Tensor, config: GenerationConfig) -> Hypothesis:
    """The search as lists of one source: no states, and it goes on to `max_len` where it may not stop early."""
    running: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    for length in range(1, config.max_len + 1):
        candidates = []
        for total, subwords in running:
            target = torch.tensor([[START, *subwords]])
            logits = model(source, torch.ones_like(source, dtype=torch.bool), target)[0, -1].log_softmax(0)
            candidates += [(total + float(value), [*subwords, subword]) for subword, value in enumerate(logits)]
        candidates.sort(key=lambda item: -item[0])
        for total, subwords in candidates[: config.num_beams]:
            stopped = subwords[-1] == STOP
            if stopped or length == config.max_len:
                whole = tuple(subwords[:-1] if stopped else subwords)
                finished.append(Hypothesis(whole, total / length**config.length_penalty, stopped))
        running = [item for item in candidates if item[1][-1] != STOP][: config.num_beams]
        if config.early_stopping and len(finished) >= config.num_beams:
            break
    return max(finished, key=lambda answer: answer.score)


@pytest.mark.slow
@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize(("num_beams", "alpha"), [(1, 1.0), (2, 0.0), (3, 0.6), (4, 2.0), (3, -0.5)])
@pytest.mark.parametrize("family", ["t5", "mixer-windowed"])
def test_beams_are_those_of_lists(family: str, num_beams: int, alpha: float, early_stopping: bool) -> None:
    config = GenerationConfig(max_len=8, num_beams=num_beams, length_penalty=alpha, early_stopping=early_stopping)
    model, (source, mask) = ending(family, 2), sources(SOURCE_LENGTHS)
    alone = [source[i : i + 1, :length] for i, length in enumerate(SOURCE_LENGTHS)]
    searched = config.model_copy(update={"early_stopping": early_stopping or num_beams == 1})  # one beam is greedy
    expected = [beams_by_recomputation(model, ids, searched) for ids in alone]
    same(generate(model, source, mask, config, start=START, stop=STOP), expected)


@every_family
def test_a_beam_of_one_is_greedy(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, mask = sources([9, 1, 5, 3, 7])
    for seed in range(3):
        model, config = ending(family, seed), GenerationConfig(max_len=10, length_penalty=0.7)
        greedy = generate(model, source, mask, config, start=START, stop=STOP)
        patient = config.model_copy(update={"early_stopping": False})
        assert generate(model, source, mask, patient, start=START, stop=STOP) == greedy
        with monkeypatch.context() as patched:
            patched.setattr(generation, "_greedy", generation._beam_search)
            same(generate(model, source, mask, config, start=START, stop=STOP), greedy)


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 3])
@every_family
def test_a_batch_gives_what_its_sources_give_alone(family: str, num_beams: int) -> None:
    lengths = [2, 9, 1, 5, 9, 4]
    source, mask = sources(lengths, padding=3)
    config, ends = GenerationConfig(max_len=12, num_beams=num_beams), set()
    for seed in range(4):
        model = ending(family, seed)
        together = generate(model, source, mask, config, start=START, stop=STOP)
        alone = [
            generate(model, source[i : i + 1, :length], mask[i : i + 1, :length], config, start=START, stop=STOP)[0]
            for i, length in enumerate(lengths)
        ]
        same(together, alone)
        ends.add(len({len(answer.subwords) for answer in together}))
        if seed and max(ends) > 1:  # rows left a batch at different times
            return
    raise AssertionError("all rows of each batch ended together")


def test_more_beams_and_patience_find_better_answers() -> None:
    source, mask = sources([9, 1, 5, 3, 7])
    totals = []
    for values in ({"num_beams": 1}, {"num_beams": 8}, {"num_beams": 8, "early_stopping": False}):
        config = GenerationConfig(max_len=12, **values)
        answers = [
            answer
            for seed in range(4)
            for answer in generate(ending("t5", seed, factor=1.0), source, mask, config, start=START, stop=STOP)
        ]
        totals.append(sum(answer.score for answer in answers))
    assert totals[0] < totals[1] < totals[2]


def test_a_search_ends_where_nothing_better_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (source, mask) = ending("t5", factor=1.0), sources([4])
    with torch.no_grad():  # the stop token is all but certain
        model.decoder.norm.weight.abs_()
        model.output.weight.zero_()
    calls = []
    step = model.step

    def certain(subwords: Tensor, state: object) -> tuple:
        logits, state = step(subwords, state)
        calls.append(len(subwords))
        return logits + 50.0 * nn.functional.one_hot(torch.tensor(STOP), SUBWORDS), state

    monkeypatch.setattr(model, "step", certain)
    config = GenerationConfig(max_len=12, num_beams=4, early_stopping=False)
    (answer,) = generate(model, source, mask, config, start=START, stop=STOP)
    assert answer.subwords == ()
    assert answer.stopped
    assert calls == [1]


def test_a_search_goes_on_where_length_will_make_up_for_the_unlikely(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first the stop token has 0.8 and another 0.2, which then is certain: log 0.2 / 12 is more than log 0.8."""
    model, (source, mask) = built("t5"), sources([4])
    first = torch.full((SUBWORDS,), -50.0, dtype=torch.float64)
    first[STOP], first[5] = math.log(0.8), math.log(0.2)
    later = 50.0 * nn.functional.one_hot(torch.tensor(5), SUBWORDS)

    def step(subwords: Tensor, state: object) -> tuple:
        return torch.stack([first if subword == START else later.double() for subword in subwords.tolist()]), state

    monkeypatch.setattr(model, "step", step)
    config = GenerationConfig(max_len=12, num_beams=2, early_stopping=False)
    (answer,) = generate(model, source, mask, config, start=START, stop=STOP)
    assert answer.subwords == (5,) * 12
    assert answer.score == pytest.approx(math.log(0.2) / 12, abs=1e-9)


@pytest.mark.parametrize("alpha", [math.nan, math.inf, -math.inf, 1000.0, -1000.0])
def test_a_length_penalty_without_meaning_is_refused(alpha: float) -> None:
    with pytest.raises(ValidationError, match="length_penalty"):
        GenerationConfig(length_penalty=alpha)


def test_an_answer_leaves_the_model_as_it_was() -> None:
    model = built("remixer", dropout=0.5).train()
    given = (*sources(SOURCE_LENGTHS), GenerationConfig(max_len=5))
    first, again = (generate(model, *given, start=START, stop=STOP) for _ in range(2))
    assert first == again
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert generate(model, *sources([3])[:1], sources([3])[1], given[2], start=START, stop=STOP)
    empty, mask = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.bool)
    assert generate(model, empty, mask, given[2], start=START, stop=STOP) == []


@pytest.mark.parametrize("num_beams", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_answers_in_half_precision(dtype: torch.dtype, num_beams: int) -> None:
    model, config = built("t5").to(dtype), GenerationConfig(max_len=5, num_beams=num_beams)
    answers = generate(model, *sources(SOURCE_LENGTHS), config, start=START, stop=STOP)
    assert all(math.isfinite(answer.score) and len(answer.subwords) <= 5 for answer in answers)


def test_answers_longer_than_the_model_allows_are_refused() -> None:
    source, mask = sources([4])
    config = GenerationConfig(max_len=13)
    with pytest.raises(ConfigError, match="max_len: got 13, but the model is built for at most 12 target tokens"):
        generate(built("remixer"), source, mask, config, start=START, stop=STOP)
    for family, max_len in (("remixer", 12), ("t5", 13)):
        config = GenerationConfig(max_len=max_len)
        (answer,) = generate(built(family), source, mask, config, start=START, stop=-1)
        assert len(answer.subwords) == max_len
        assert not answer.stopped
