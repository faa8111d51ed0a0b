"""Free memory goes back to the system as a training goes on, without a trace in its result."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mixling import TrainConfig
from mixling.models import TorchNetwork, weights_of
from mixling.training import dataset_adapter, memory
from mixling.training.memory import Heap

from .conftest import MakeTrainer

MB = 1 << 20


class Fake(Heap):
    """A heap whose process has the memory of `now`, and of which giving back leaves `floor`."""

    def __init__(self, now: int, floor: int) -> None:
        self.now, self.floor, self.given_back = now, floor, 0
        super().__init__()
        self._trim = self._give_back
        self._least = now

    def _give_back(self, padding: int) -> int:
        assert padding == 0
        self.given_back += 1
        self.now = self.floor
        return 1

    def _resident(self) -> int:
        return self.now


def test_what_is_free_is_given_back_once_the_process_has_grown() -> None:
    heap = Fake(now=1000 * MB, floor=900 * MB)
    limit = memory._GROWTH
    heap.now += limit
    heap.limit()
    assert heap.given_back == 0
    heap.now += 1
    heap.limit()
    assert (heap.given_back, heap.now) == (1, 900 * MB)
    heap.now += limit  # from what was left
    heap.limit()
    assert heap.given_back == 1
    heap.now = 800 * MB
    heap.limit()
    heap.now += limit + 1
    heap.limit()
    assert heap.given_back == 2


def test_an_evaluation_has_the_memory_that_many_steps_left_free() -> None:
    heap = Fake(now=1000 * MB, floor=900 * MB)
    heap.now += memory._GROWTH // 2
    heap.make_room()
    assert heap.given_back == 0
    heap.now += 1
    heap.make_room()
    assert (heap.given_back, heap.now) == (1, 900 * MB)


def test_what_two_steps_in_a_row_need_anew_is_left_to_them() -> None:
    heap, steps = Fake(now=1000 * MB, floor=1000 * MB), []
    for _ in range(20):
        heap.now = 1000 * MB + 3 * memory._GROWTH
        heap.limit()
        steps.append(heap.given_back)
    assert steps[-1] == steps[5] < 4


def test_where_the_c_library_has_no_way_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    heap = Heap()
    heap.limit()
    heap.release()


@pytest.mark.skipif(not memory._STATM.exists(), reason="only Linux tells a process its memory in this file")
def test_memory_really_goes_back() -> None:
    heap = Heap()
    if heap._trim is None:
        pytest.skip("this C library has no malloc_trim")
    heap.release()
    # Blocks that the C library takes from its heap, below one small block that stays: only the trim gives them back.
    blocks = [np.ones(8_000) for _ in range(1_500)]
    kept = [np.ones(100) for _ in range(100)]
    full = heap._resident()
    blocks.clear()
    heap.release()
    assert heap._resident() < full - 60 * MB
    assert len(kept) == 100


def test_the_users_setting_of_onednn_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    Heap()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    Heap()
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) > 16


def test_a_training_gives_back_memory_and_its_result_is_the_same(trainer: MakeTrainer) -> None:
    config = TrainConfig(epochs=2, batch_size=8)
    plain, often = trainer(config), trainer(config)
    plain._heap.limit = plain._heap.release = lambda: None
    calls: list[str] = []
    give_back = often._heap.release
    often._heap.limit = lambda: calls.append("limit") or give_back()
    often._heap.release = lambda: calls.append("release") or give_back()
    assert plain.fit() == often.fit()
    assert calls == ["limit"] * 2 * often.steps_per_epoch + ["release"]
    for name, value in weights_of(plain.model).items():
        assert (value == weights_of(often.model)[name]).all(), name


def test_an_evaluation_gives_back_memory_between_its_batches(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(Heap, "limit", lambda self: calls.append("limit"))
    monkeypatch.setattr(Heap, "release", lambda self: calls.append("release"))
    small = trainer(TrainConfig())
    logits = dataset_adapter.predict_logits(TorchNetwork(small.model), small.data.validation, batch_size=7)
    assert calls == ["limit"] * -(-len(logits) // 7) + ["release"]
    at_once = dataset_adapter.predict_logits(TorchNetwork(small.model), small.data.validation)
    np.testing.assert_allclose(np.stack(logits), np.stack(at_once), atol=1e-6)
