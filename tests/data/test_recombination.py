"""Repeated pieces, and pairs in which others stand in their places."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.data.pair_batches import Pieces
from mixling.data.recombination import recombine, repeated_pieces

END = 0


def pair(source: list[int], target: list[int]) -> tuple[Pieces, Pieces]:
    return np.array([*source, END], np.int32), np.array([*target, END], np.int32)


# 1 ends each sentence and stands in each answer, 2 and 3 are words of the source, 4 of the answer; the rest is copied.
ROWS = [pair([2, 10 + i, 3, 20 + i, 1], [4, 10 + i, 1, 4, 20 + i, 20 + i]) for i in range(10)] + [pair([30], [30])]


def test_pieces_that_are_repeated_are_found() -> None:
    assert repeated_pieces(ROWS).tolist() == [*range(10, 20), *range(20, 30), 30]


@pytest.mark.parametrize(("kept", "found"), [(9, True), (8, False)])
def test_a_piece_that_answers_leave_out_more_often_is_none(kept: int, found: bool) -> None:
    answers = [4 if i >= kept else 40 for i in range(10)]
    rows = [*(pair([2], [4]) for _ in range(100)), *(pair([40], [answer]) for answer in answers)]
    assert (40 in repeated_pieces(rows)) == found


def test_exchange_is_the_same_in_both_texts_everywhere() -> None:
    repeated, seen = repeated_pieces(ROWS), set[int]()
    for seed in range(200):
        source, target = recombine(*ROWS[0], repeated, 1.0, np.random.default_rng(seed))
        (two, first, three, second, one, end), words = source.tolist(), target.tolist()
        assert (two, three, one, end) == (2, 3, 1, END)
        assert words == [4, first, 1, 4, second, second, END]
        assert len({first, second} & {10, 20}) == 0
        assert first != second
        seen |= {first, second}
    assert seen == set(repeated.tolist()) - {10, 20}


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_so_many_are_exchanged(share: float) -> None:
    repeated, rng = repeated_pieces(ROWS), np.random.default_rng(0)
    changed = [recombine(*ROWS[0], repeated, share, rng)[0] != ROWS[0][0] for _ in range(4000)]
    assert np.sum(changed) / 8000 == pytest.approx(share, abs=0.02)


def test_the_pair_itself_stays() -> None:
    source, target = (text.copy() for text in ROWS[0])
    recombine(source, target, repeated_pieces(ROWS), 1.0, np.random.default_rng(0))
    assert (source == ROWS[0][0]).all()
    assert (target == ROWS[0][1]).all()


def test_where_no_piece_is_free_the_pair_stays() -> None:
    source, target = recombine(*ROWS[0], np.array([10, 20], np.int32), 1.0, np.random.default_rng(0))
    assert (source == ROWS[0][0]).all()
    assert (target == ROWS[0][1]).all()
    source, target = recombine(*ROWS[0], np.array([10, 20, 30], np.int32), 1.0, np.random.default_rng(0))
    assert sum(source == ROWS[0][0]) == len(source) - 1  # one of the two
