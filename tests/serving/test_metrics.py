"""Metrics of several processes: the counts of those that have ended stay, their files do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from mixling.serving.metrics import FOLDER_VARIABLE, keep_counts


def write(folder: Path, process: int, counts: dict[str, float]) -> None:
    values = MmapedDict(str(folder / f"counter_{process}.db"))
    for status, count in counts.items():
        values.write_value(mmap_key("answers", "answers_total", ["status"], [status], "Answers."), count, 0.0)
    values.close()
    (folder / f"gauge_livesum_{process}.db").write_bytes((folder / f"counter_{process}.db").read_bytes())


def total(folder: Path, status: str) -> float | None:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    return registry.get_sample_value("answers_total", {"status": status})


def test_counts_of_processes_that_have_ended_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    for process in range(1, 200):
        write(tmp_path, process, {"200": process, str(400 + process % 3): 1.0})
        keep_counts(process)
        keep_counts(process)
    assert [path.name for path in tmp_path.iterdir()] == ["counter_ended.db"]
    write(tmp_path, 1, {"200": 0.5})  # the system gives a number again
    assert total(tmp_path, "200") == 199 * 200 / 2 + 0.5
    assert [total(tmp_path, str(400 + rest)) for rest in range(3)] == [66.0, 67.0, 66.0]


@pytest.mark.parametrize("size", [0, 3, 8, 20, 60])
def test_a_file_that_was_being_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    write(tmp_path, 1, {"200": 1.0})
    path = tmp_path / "counter_1.db"
    path.write_bytes(path.read_bytes()[:size])
    keep_counts(1)
    assert not path.exists()
    assert total(tmp_path, "200") in (None, 1.0)
