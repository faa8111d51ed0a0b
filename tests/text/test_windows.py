"""Questions and contexts as windows, and answers found in them, against loops over characters, tokens and spans."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import ConfigError, ModelFileError, TextConfig, TextEncoder, Vocabulary
from mixling.answers.questions import find_answer
from mixling.text import SEPARATOR, MinHash, ReadingConfig, WindowEncoder, train_vocabulary
from mixling.text.windows import EncodedWindows, subword_spans

CONTEXT = "The Panthers  gave up just 308½ points, ranking 6th. Ivan's İstanbul; 他们失了308分。ชนะสี่ครั้ง end"
QUESTION = "How many points did the Panthers give up?"


def encoder(vocabulary: Vocabulary | None = None, **options: Any) -> TextEncoder:
    config = TextConfig(projection=MinHash(num_features=64, num_hashes=4), **{"max_len": 24, **options})
    return TextEncoder(config, vocabulary or train_vocabulary(["the panthers gave points ranking"], config))


def encoding(question: str, context: str, reading: ReadingConfig | None = None, **options: Any) -> EncodedWindows:
    return WindowEncoder(encoder(**options), reading or ReadingConfig()).encode([(question, context)])[0]


@pytest.mark.parametrize("tokens", ["words", "subwords"])
@pytest.mark.parametrize("max_word_chars", [100, 4])
def test_every_character_but_white_space_is_read_once(tokens: str, max_word_chars: int) -> None:
    """In subwords, too, but for a word that grows when it is put in lower case, whose subwords cannot be told apart."""
    made = encoding(QUESTION, CONTEXT, tokens=tokens, max_word_chars=max_word_chars)
    texts = [CONTEXT[a:b] for a, b in dict.fromkeys(map(tuple, made.spans.tolist()))]
    assert "".join(texts) == "".join(CONTEXT.split())
    assert max(map(len, texts)) <= max_word_chars
    assert len(made.spans) == len(made.context)


@given(st.text(alphabet="ab ½İé́.,’'n他ส\u0301\ud800\x00", max_size=60), st.sampled_from(["words", "subwords"]))
def test_any_text_can_be_read(text: str, tokens: str) -> None:
    made = encoding("ab", text, tokens=tokens, max_word_chars=5)
    assert len(made.spans) == len(made.context)
    assert all(0 <= a < b <= len(text) for a, b in made.spans)
    for before, after in pairwise(made.spans.tolist()):
        assert before == after or before[1] <= after[0]


def test_subwords_stand_where_their_characters_do() -> None:
    vocabulary = Vocabulary.train(["pan", "##th"] + ["panthers", "pants", "point"] * 5)
    reader = encoder(vocabulary, tokens="subwords")
    made = WindowEncoder(reader, ReadingConfig()).encode([("x", "A PANTHERS' point")])[0]
    for word, start in (("panthers", 2), ("point", 12)):
        location = start
        for subword in vocabulary.subwords([word])[0]:
            length = len(subword.removeprefix("##"))
            assert [location, location + length] in made.spans.tolist()
            location += length


@pytest.mark.parametrize(
    ("word", "subwords", "spans"),
    [
        ("panthers", ["pan", "##the", "##rs"], [(0, 3), (3, 6), (6, 8)]),
        ("panthers", ["▁pan", "thers"], [(0, 3), (3, 8)]),
        ("ชนะ", ["▁", "ชน", "ะ"], [(0, 2), (0, 2), (2, 3)]),  # a mark alone stands where the next subword does
        ("##", ["##"], [(0, 2)]),
        ("panthers", ["pan", "##te"], None),
        ("panthers", ["pan"], None),
        ("über", ["[UNK]"], None),
    ],
)
def test_locations_of_subwords(word: str, subwords: list[str], spans: list[tuple[int, int]] | None) -> None:
    assert subword_spans(word, subwords) == spans


@pytest.mark.parametrize("stride", [None, 1, 5, 1000])
@pytest.mark.parametrize("max_len", [8, 24, 1000])
@pytest.mark.parametrize("context", ["", "one", CONTEXT, CONTEXT * 3])
def test_windows_overlap_and_leave_no_token_out(stride: int | None, max_len: int, context: str) -> None:
    made = encoding(QUESTION, context, ReadingConfig(stride=stride), max_len=max_len)
    space = max_len - 1 - len(made.question)
    assert len(made.question) == min(9, max_len // 2)
    assert made.truncated == (max_len < 18)
    step = min(stride or min(128, max_len // 4), space)
    seen: set[int] = set()
    for number, begin in enumerate(made.begins):
        window = made.window(number)
        part = window[made.separator + 1 :]
        assert len(window) <= max_len
        assert window[made.separator] == SEPARATOR
        np.testing.assert_array_equal(window[: made.separator], made.question)
        np.testing.assert_array_equal(part, made.context[begin : begin + space])
        assert begin == number * step
        seen |= set(range(begin, begin + len(part)))
    assert seen == set(range(len(made.context)))
    assert len(made.begins) == 1 or made.begins[-2] + space < len(made.context)  # none that adds nothing


def test_a_long_question_is_cut() -> None:
    made = encoding(QUESTION, CONTEXT, ReadingConfig(max_question=3))
    assert (len(made.question), made.truncated) == (3, True)
    with pytest.raises(ConfigError, match="max_len: got 7"):
        ReadingConfig().check(7)


@pytest.mark.parametrize("max_len", [12, 24, 100])
def test_targets(max_len: int) -> None:
    """Of every stretch of the context: in each window the tokens that touch it, or the separator."""
    made = encoding("How many?", CONTEXT, max_len=max_len)
    space = max_len - 1 - len(made.question)
    for start in range(len(CONTEXT)):
        for end in range(start + 1, len(CONTEXT) + 1, 7):
            touched = [i for i, (a, b) in enumerate(made.spans) if a < end and b > start]
            for begin, row in zip(made.begins, made.targets((start, end)).tolist(), strict=True):
                inside = list(range(begin, min(begin + space, len(made.context))))
                ends = [made.separator] * 2
                if touched and touched[0] in inside and touched[-1] in inside:
                    ends = [made.separator + 1 + inside.index(token) for token in (touched[0], touched[-1])]
                assert row == [made.separator, made.separator + 1 + len(inside), *ends]
    assert made.targets(None)[:, 2:].tolist() == [[made.separator] * 2] * len(made.begins)


def test_characters_come_back() -> None:
    made = encoding(QUESTION, CONTEXT)
    for answer in ("308½", "Panthers  gave", "308分", "6th", "points, ranking 6th."):
        start = CONTEXT.index(answer)
        tokens = made.tokens(start, start + len(answer))
        assert tokens is not None
        assert CONTEXT[made.spans[tokens[0], 0] : made.spans[tokens[1], 1]] == answer
    assert made.tokens(12, 14) is None  # two spaces


def test_question_and_context_are_reported_apart() -> None:
    """With `overlap` words that both have get another row, with `segments` those of the context."""
    plain = encoding("cat dog", "the Dog runs")
    assert plain.question[1] != plain.context[1]  # Dog, which is its own entry
    reader = encoder(overlap=True, segments=True)
    made = WindowEncoder(reader, ReadingConfig()).encode([("cat dog", "the dog runs")])[0]
    bags = reader.bags(np.concatenate([made.question, made.context])).features
    first = reader.config.num_rows - 4
    assert (bags[:, -2:] - first).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3], [1, 2]]


def by_loops(made: EncodedWindows, logits: list[np.ndarray], most: int) -> tuple[dict[tuple[int, int], float], float]:
    """The score of every span of tokens, and of no answer."""
    scores: dict[tuple[int, int], float] = {}
    none = []
    for begin, row in zip(made.begins, logits, strict=True):
        sep = made.separator
        none.append(row[sep, 0] + row[sep, 1])
        for first in range(sep + 1, len(row)):
            for last in range(first, min(first + most, len(row))):
                key = (begin + first - sep - 1, begin + last - sep - 1)
                scores[key] = max(scores.get(key, -math.inf), row[first, 0] + row[last, 1])
    return scores, min(none)


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("max_len", [10, 24, 100])
def test_the_best_span_over_all_windows(most: int, max_len: int) -> None:
    reading = ReadingConfig(max_answer=most, stride=2)
    made = encoding("How many?", CONTEXT, reading, max_len=max_len)
    chance = np.random.default_rng(0)
    for _ in range(20):
        logits = [chance.normal(size=(len(made.window(i)), 2)) * 3 for i in range(len(made.begins))]
        scores, none = by_loops(made, logits, most)
        (first, last), top = max(scores.items(), key=lambda item: item[1])
        found = find_answer(made, logits, reading)
        total = math.fsum(math.exp(score) for score in scores.values()) + math.exp(none)
        assert found.span == (made.spans[first, 0], made.spans[last, 1])
        assert found.margin == pytest.approx(none - top)
        assert found.probability == pytest.approx(math.exp(top) / total)
        assert found.no_answer == pytest.approx(math.exp(none) / total)
        start, end = found.span
        always = found.answer(CONTEXT, None)
        assert (always.text, always.start, always.end) == (CONTEXT[start:end], start, end)
        assert found.answer(CONTEXT, found.margin).is_none is False
        refused = found.answer(CONTEXT, found.margin - 1e-6)
        assert (refused.is_none, refused.text, refused.score) == (True, "", found.no_answer)


def test_a_context_without_words_has_no_answer() -> None:
    made = encoding(QUESTION, " \n")
    found = find_answer(made, [np.zeros((len(made.window(0)), 2))], ReadingConfig())
    assert found.answer(" \n", None).is_none


def test_large_logits_and_such_as_are_none() -> None:
    made = encoding("How many?", "one two")
    row = np.full((len(made.window(0)), 2), 1e4, np.float32)
    assert find_answer(made, [row], ReadingConfig()).probability == pytest.approx(1 / 4)  # three spans, and none
    row[-1, 0] = np.nan
    with pytest.raises(ModelFileError, match="not finite"):
        find_answer(made, [row], ReadingConfig())


def test_a_full_table_begins_anew_between_calls() -> None:
    config = TextConfig(projection=MinHash(num_features=64, num_hashes=4), max_len=24)
    small = TextEncoder(config, train_vocabulary(["a b"], config), max_table=10)
    windows = WindowEncoder(small, ReadingConfig())
    first = windows.encode([("who is it", "anna berta carla dora emma fred gina")])[0]
    second = windows.encode([("who is it", "anna")])[0]
    assert (first.generation, second.generation) == (0, 1)
    np.testing.assert_array_equal(second.question, [3, 4, 5])
