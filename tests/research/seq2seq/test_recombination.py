"""A lexicon found in pairs, and pairs in which its entries take each other's places."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.research.seq2seq import SubwordIds
from mixling.research.seq2seq.recombination import Lexicon, learn_lexicon, recombine

END = 0


def pair(source: list[int], target: list[int]) -> tuple[SubwordIds, SubwordIds]:
    return np.array([*source, END], np.int32), np.array([*target, END], np.int32)


def entries(rows: list[tuple[SubwordIds, SubwordIds]]) -> list[tuple[int, int]]:
    lexicon = learn_lexicon(rows)
    return list(zip(lexicon.source.tolist(), lexicon.target.tolist(), strict=True))


# 1 ends each sentence and stands in each answer, 2 is a word of all sources and 4 of all answers; the tens are
# repeated, and of the thirties the answer says one of the forties.
ROWS = [pair([2, 10 + i, 30 + i, 20 + i, 1], [4, 10 + i, 1, 4, 40 + i, 20 + i, 20 + i]) for i in range(10)]
REPEATED = [*range(10, 20), *range(20, 30)]
LEXICON = learn_lexicon([*ROWS, *ROWS, *(pair([10 + i, 39 - i], [10 + i, 49 - i]) for i in range(10))])


def test_words_and_what_answers_state_for_them_are_found() -> None:
    found = list(zip(LEXICON.source.tolist(), LEXICON.target.tolist(), strict=True))
    assert found == [*((subword, subword) for subword in REPEATED), *((30 + i, 40 + i) for i in range(10))]


def test_a_word_of_one_row_is_what_no_other_word_explains() -> None:
    rows = [*ROWS, *ROWS, *(pair([10 + i, 39 - i], [10 + i, 49 - i]) for i in range(10))]
    assert (50, 60) in entries([*rows, pair([2, 10, 50, 21, 1], [4, 10, 1, 4, 60, 21])])


@pytest.mark.parametrize(("kept", "found"), [(9, True), (8, False)])
@pytest.mark.parametrize("outputs", [50, 60])
def test_what_answers_leave_out_more_often_is_no_entry(outputs: int, kept: int, found: bool) -> None:
    answers = [4 if i >= kept else outputs for i in range(10)]
    rows = [*(pair([2], [4]) for _ in range(100)), *(pair([50], [answer]) for answer in answers)]
    assert ((50, outputs) in entries(rows)) == found


@pytest.mark.parametrize(("others", "found"), [(9, True), (10, False)])
def test_what_answers_mostly_state_for_others_is_no_entry(others: int, found: bool) -> None:
    rows = [*(pair([2], [4]) for _ in range(100)), pair([50], [60]), *(pair([70 + i], [60]) for i in range(others))]
    assert ((50, 60) in entries(rows)) == found
    assert (50, 50) in entries([*rows[:100], pair([50], [50]), *(pair([70 + i], [50]) for i in range(others))])


@pytest.mark.parametrize(("rows", "found"), [(10, True), (11, False)])
def test_what_many_answers_have_is_no_entry(rows: int, found: bool) -> None:
    assert ((50, 50) in entries([*[pair([50], [50])] * rows, *[pair([2], [4])] * (100 - rows)])) == found


def test_what_is_repeated_is_not_translated() -> None:
    alike = [*[pair([50], [50, 60])] * 5, *[pair([2], [50])] * 40, *[pair([2], [4])] * 455]
    assert entries(alike) == [(50, 50)]


def test_pairs_without_a_lexicon_stay() -> None:
    lexicon = learn_lexicon([pair([2], [4])] * 20)
    assert len(lexicon.source) == 0
    source, target = recombine(*ROWS[0], lexicon, 1.0, np.random.default_rng(0))
    assert (source.tolist(), target.tolist()) == (ROWS[0][0].tolist(), ROWS[0][1].tolist())


def test_exchange_is_the_same_in_both_texts_everywhere() -> None:
    repeated, translated = set[int](), set[int]()
    for seed in range(300):
        source, target = recombine(*ROWS[0], LEXICON, 1.0, np.random.default_rng(seed))
        two, first, word, second, one, end = source.tolist()
        assert (two, one, end) == (2, 1, END)
        assert target.tolist() == [4, first, 1, 4, word + 10, second, second, END]
        assert first != second
        repeated |= {first, second}
        translated.add(word)
    assert repeated == set(REPEATED) - {10, 20}
    assert translated == set(range(31, 40))


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_so_many_are_exchanged(fraction: float) -> None:
    rng = np.random.default_rng(0)
    changed = [recombine(*ROWS[0], LEXICON, fraction, rng)[0] != ROWS[0][0] for _ in range(4000)]
    assert np.sum(changed) / 12000 == pytest.approx(fraction, abs=0.02)


def test_words_of_one_meaning_in_one_pair_stay() -> None:
    lexicon = Lexicon(np.array([50, 51, 52, 53], np.int32), np.array([60, 60, 62, 63], np.int32))
    source, target = recombine(*pair([50, 51], [60, 60]), lexicon, 1.0, np.random.default_rng(0))
    assert (source.tolist(), target.tolist()) == ([50, 51, END], [60, 60, END])
    source, target = recombine(*pair([50, 2], [60, 60]), lexicon, 1.0, np.random.default_rng(0))
    assert source[0] in (52, 53)  # not 51, of which the answer would say the same
    assert target.tolist() == [source[0] + 10] * 2 + [END]


def test_no_meaning_is_drawn_twice() -> None:
    lexicon = Lexicon(np.array([50, 51, 52, 53], np.int32), np.array([60, 61, 62, 62], np.int32))
    for seed in range(20):
        _, target = recombine(*pair([50, 51], [60, 61]), lexicon, 1.0, np.random.default_rng(seed))
        assert target.tolist() in ([62, 61, END], [60, 62, END])


@pytest.mark.parametrize(("one", "other"), [(2, 62), (52, 4)])
def test_nothing_is_drawn_that_the_pair_has(one: int, other: int) -> None:
    lexicon = Lexicon(np.array([50, 52], np.int32), np.array([60, 62], np.int32))
    source, target = recombine(*pair([50, one], [60, other]), lexicon, 1.0, np.random.default_rng(0))
    assert (source.tolist(), target.tolist()) == ([50, one, END], [60, other, END])


def test_the_pair_itself_stays() -> None:
    source, target = (text.copy() for text in ROWS[0])
    recombine(source, target, LEXICON, 1.0, np.random.default_rng(0))
    assert (source == ROWS[0][0]).all()
    assert (target == ROWS[0][1]).all()


@pytest.mark.parametrize(("known", "exchanged"), [([10, 20], 0), ([10, 20, 15], 1), ([10, 20, 15, 16, 17], 2)])
def test_where_no_entry_is_free_subwords_stay(known: list[int], exchanged: int) -> None:
    lexicon = Lexicon(np.array(known, np.int32), np.array(known, np.int32))
    source, _ = recombine(*ROWS[0], lexicon, 1.0, np.random.default_rng(0))
    assert sum(source != ROWS[0][0]) == exchanged
