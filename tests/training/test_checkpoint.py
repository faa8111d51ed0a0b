"""A checkpoint is read back bit by bit, or refused with one kind of error; a failed save leaves the one before."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from mixling import ModelFileError, TrainConfig
from mixling.errors import StorageError
from mixling.models import weights_of
from mixling.training import CHECKPOINT, OptimConfig, Trainer, load_checkpoint, save_checkpoint

TENSORS = {
    "model/w": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "model/half": np.array([1.5, -2.25], np.float16),
    "optimizer/0/step": np.array(7.0, np.float32),
    "empty": np.zeros((0, 3)),
}
STATE = {"step": 3, "best": 0.1 + 0.2, "none": None, "history": [{"é": 1e-300}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    out = tmp_path / "checkpoint.safetensors"
    save_checkpoint(out, TENSORS, STATE)
    return out


def test_what_was_saved_is_read(path: Path) -> None:
    tensors, state = load_checkpoint(path)
    assert json.dumps(state) == json.dumps(STATE), "the order of keys is that of metrics.jsonl"
    assert set(tensors) == set(TENSORS)
    for name, wanted in TENSORS.items():
        assert tensors[name].dtype == wanted.dtype
        assert np.array_equal(tensors[name], wanted)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.slow
def test_every_flipped_bit_and_every_cut_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for location in range(len(whole)):
        for bit in (0, 5, 7):
            damaged = bytearray(whole)
            damaged[location] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                tensors, state = load_checkpoint(path)
            except ModelFileError:
                continue
            else:  # a space of the header's padding, say: it must not have changed anything
                assert state == STATE
                assert all(np.array_equal(tensors[name], wanted) for name, wanted in TENSORS.items())
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            load_checkpoint(path)


def test_other_files_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no checkpoint"):
        load_checkpoint(tmp_path / "absent")
    with pytest.raises(ModelFileError):
        load_checkpoint(tmp_path)
    save_file(TENSORS | {"model/w": np.zeros(1, np.float32)}, path)  # tensors without a state
    with pytest.raises(ModelFileError, match="format None"):
        load_checkpoint(path)
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(ModelFileError, match="damaged"):
        load_checkpoint(path)


def test_a_checkpoint_of_another_format_is_named_so(path: Path) -> None:
    save_file({"w": np.zeros(1, np.float32)}, path, {"format_version": "3", "state": "{}", "sha256": ""})
    with pytest.raises(ModelFileError, match="format '3'; this version reads format 2"):
        load_checkpoint(path)


def test_changed_state_with_whole_tensors_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    header["__metadata__"]["state"] = header["__metadata__"]["state"].replace('"step": 3', '"step": 4')
    changed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + whole[8 + size :])
    with pytest.raises(ModelFileError, match="checksum"):
        load_checkpoint(path)


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_failed_save_is_reported_and_leaves_the_one_before(
    path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    whole = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(StorageError, match="No space left on device") as error:
        save_checkpoint(path, {"w": np.ones(5, np.float32)}, {})
    assert str(path) in str(error.value)
    assert path.read_bytes() == whole
    assert [file.name for file in path.parent.iterdir()] == [path.name], "no temporary file is left"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_disk_that_fills_up_during_training_stops_it_with_the_last_checkpoint_whole(
    trainer: Callable[..., Trainer], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mixling import storage

    config = TrainConfig(
        epochs=3, batch_size=8, precision="float32", checkpoint_seconds=1e-9, optim=OptimConfig(lr=0.02)
    )
    whole = trainer(config)
    whole.fit()
    opened = []

    def until_full(path: Any, mode: str, **options: Any) -> Any:
        file = open(path, mode, **options)  # noqa: SIM115
        if "x" in mode:
            opened.append(path)
        if len(opened) > 9:  # the kernel itself says so
            os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
        return file

    monkeypatch.setattr(storage, "open", until_full, raising=False)
    with pytest.raises(StorageError, match=CHECKPOINT) as error:
        trainer(config, folder=run_folder).fit()
    monkeypatch.undo()
    assert "No space left" in str(error.value)
    assert str(run_folder) in str(error.value)
    assert sorted(file.name for file in run_folder.iterdir()) == [CHECKPOINT, "metrics.jsonl"]
    resumed = trainer(config, folder=run_folder)
    resumed.fit(resume=True)
    mine, wanted = (weights_of(made.model) for made in (resumed, whole))
    assert all(np.array_equal(mine[name], wanted[name]) for name in wanted)
