"""The batch of the next step, made in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from mixling.training import Prefetcher


@pytest.fixture
def prefetcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefetcher[str]]:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    made: Prefetcher[str] = Prefetcher()
    yield made
    made.close()


def test_a_batch_is_made_once_and_for_its_step_only(prefetcher: Prefetcher[str]) -> None:
    prefetcher.start(3, lambda: "ahead")
    assert prefetcher.take(3, lambda: "now") == "ahead"
    assert prefetcher.take(3, lambda: "now") == "now"
    prefetcher.start(4, lambda: "ahead")
    assert prefetcher.take(5, lambda: "now") == "now"
    assert prefetcher.take(4, lambda: "now") == "now"


def test_the_data_are_never_read_by_two(prefetcher: Prefetcher[str]) -> None:
    reading, begun = threading.Lock(), threading.Event()

    def make() -> str:
        assert reading.acquire(blocking=False)
        begun.set()
        time.sleep(0.05)
        reading.release()
        return "ahead"

    prefetcher.start(1, make)
    prefetcher.wait()
    assert reading.acquire(blocking=False)
    reading.release()
    begun.clear()
    prefetcher.start(2, make)
    assert begun.wait(10)
    assert prefetcher.take(9, make) == "ahead"  # of another step: the thread ends first


def test_what_goes_wrong_is_raised_where_the_batch_is_taken(prefetcher: Prefetcher[str]) -> None:
    def fail() -> str:
        raise ValueError("a row cannot be read")

    prefetcher.start(1, fail)
    prefetcher.wait()
    with pytest.raises(ValueError, match="a row cannot be read"):
        prefetcher.take(1, lambda: "now")


def test_it_can_be_used_again_after_its_end(prefetcher: Prefetcher[str]) -> None:
    prefetcher.start(1, lambda: "ahead")
    prefetcher.close()
    assert prefetcher.take(1, lambda: "now") == "now"
    prefetcher.start(2, lambda: "ahead")
    assert prefetcher.take(2, lambda: "now") == "ahead"
