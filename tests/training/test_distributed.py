"""Two processes on one global batch give what one process gives, to rounding; so do its parts one after another.

All that needs two processes is done in one launch of torchrun, whose results the tests look at.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from mixling import TrainConfig
from mixling.data import shard
from mixling.layers import RelativePositions
from mixling.mixers import AttentionConfig
from mixling.tasks import LossConfig
from mixling.training import (
    CHECKPOINT,
    HISTORY,
    Callback,
    DistributedContext,
    OptimConfig,
    Step,
    Trainer,
    load_checkpoint,
)
from mixling.training.distributed import distributed_context, is_launched

ROOT = Path(__file__).resolve().parents[2]
# 49 rows: of seven batches the last has one example, which leaves the second process, and of parts all but one,
# without work.
NUM_TRAIN = 49
# eps well above rounding: else AdamW makes steps of full size out of gradients that are zero but for rounding.
CONFIG = TrainConfig(
    epochs=2,
    batch_size=8,
    token_dropout=0.2,
    precision="float32",
    device="cpu",
    optim=OptimConfig(lr=0.02, eps=1e-4),
    loss=LossConfig(label_smoothing=0.1, class_weights="balanced"),
)
# The data of a case, and how several processes, or parts of a step, share the work.
ROWS: dict[str, dict[str, Any]] = {"plain": {}, "weighted": {"weighted": True}, "tagged": {"tagged": True}}
SHARING: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp-parts": {"gradient_accumulation_steps": 3},
    "ddp-adafactor": {"optim": OptimConfig(name="adafactor", lr=0.1)},
}
CUT = ("ddp", "ddp-adafactor")
CUT_ROWS = ("weighted", "tagged")
CASES = pytest.mark.parametrize("rows", ROWS)
# Of parts and of Adafactor without the plain rows, which the weighted ones include.
SHARED_CASES = [(sharing, rows) for sharing in SHARING for rows in ROWS if sharing == "ddp" or rows != "plain"]
SHARED = AttentionConfig(positions=RelativePositions(num_buckets=8, shared=True))  # by all layers


class Cut(Exception):
    """Stands for kill -9."""


class CutAt(Callback):
    def stepped(self, step: Step) -> None:
        if step.number == 9:
            raise Cut


def make(trainer: Callable[..., Trainer], rows: str = "plain", **options: Any) -> Trainer:
    keys = ("gradient_accumulation_steps", "checkpoint_seconds", "epochs", "optim")
    values = {key: options.pop(key) for key in keys if key in options}
    given = ROWS[rows]
    weights = np.linspace(0.1, 2, NUM_TRAIN, dtype=np.float32) if given.get("weighted") else None
    # Dropout draws other numbers in each process; the words to drop are those of the global batch.
    options = {"num_train": NUM_TRAIN, "dropout": 0.0, "tagged": given.get("tagged", False), **options}
    return trainer(CONFIG.model_copy(update=values), weights=weights, **options)


def mixed(trainer: Callable[..., Trainer], **options: Any) -> Trainer:
    """A short training of two layers that share their positions."""
    return make(trainer, epochs=1, num_train=17, mixer=SHARED, num_layers=2, **options)


def save_weights(made: Trainer, path: Path) -> None:
    save_file({name: value.contiguous() for name, value in made.model.state_dict().items()}, path)


def train_and_save(trainer: Callable[..., Trainer], out: Path) -> None:
    """What each of the processes runs."""
    torch.set_num_threads(1)
    assert is_launched()
    with distributed_context() as ranks:
        assert ranks.world == 2
        assert ranks.broadcast([7 + ranks.rank, 0.1 + ranks.rank]) == [7, 0.1]
        name = f"rank{ranks.rank}.safetensors"
        for sharing, rows in SHARED_CASES:
            folder = out / sharing / rows
            made = make(trainer, rows, folder=folder, distributed=ranks, **SHARING[sharing])
            made.fit()
            save_weights(made, folder / name)
        made = mixed(trainer, distributed=ranks)
        made.fit()
        save_weights(made, out / "shared" / name)
        for sharing, rows in itertools.product(CUT, CUT_ROWS):
            folder = out / f"{sharing}-cut" / rows
            options = {**SHARING[sharing], "folder": folder, "distributed": ranks, "checkpoint_seconds": 1e-9}
            try:
                make(trainer, rows, callback=CutAt(), **options).fit()
            except Cut:
                ranks.barrier()
                if ranks.is_main:
                    assert load_checkpoint(folder / CHECKPOINT)[1]["step"] == 8
            made = make(trainer, rows, **options)
            made.fit(resume=True)
            save_weights(made, folder / name)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("together")
    whole_and_cut = dict.fromkeys([*SHARING, *(f"{sharing}-cut" for sharing in CUT)], ROWS)
    (out / "shared").mkdir()
    for kind, names in whole_and_cut.items():
        for name in names:
            (out / kind / name).mkdir(parents=True)
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\nfrom conftest import trainer\nfrom test_distributed import train_and_save\n"
        f"train_and_save(trainer, Path({str(out)!r}))\n"
    )
    (out / "work.py").write_text(code)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "work.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    return out


def check_agreement(folder: Path, alone: Trainer) -> dict[str, Tensor]:
    """Both processes have the same bits, which are the one process's weights to rounding."""
    first, second = (load_file(folder / f"rank{rank}.safetensors") for rank in (0, 1))
    for name, value in alone.model.state_dict().items():
        assert torch.equal(first[name], second[name]), "the processes must agree to the bit"
        # Adafactor has no such eps; softmax does not see this bias, whose gradient is rounding.
        if alone.config.optim.name == "adafactor" and name == "head.score.bias":
            continue
        torch.testing.assert_close(first[name], value, rtol=1e-3, atol=1e-4)
    return first


def check_history(records: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [record["step"] for record in records] == [record["step"] for record in wanted]
    for name in ("train_loss", "val_loss"):
        assert [record[name] for record in records] == pytest.approx([record[name] for record in wanted], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("sharing", "rows"), SHARED_CASES)
def test_two_processes_give_what_one_gives(
    trainer: Callable[..., Trainer], together: Path, sharing: str, rows: str
) -> None:
    alone = make(trainer, rows, **{key: value for key, value in SHARING[sharing].items() if key == "optim"})
    start = {name: value.clone() for name, value in alone.model.state_dict().items()}
    history = alone.fit()
    first = check_agreement(together / sharing / rows, alone)
    moved = max(float((value - start[name]).abs().max()) for name, value in first.items())
    assert moved > 0.03, "the case must be one where training does something"
    lines = (together / sharing / rows / HISTORY).read_text("utf-8").splitlines()
    check_history([json.loads(line) for line in lines], history)


@pytest.mark.slow
def test_positions_that_layers_share_are_those_of_one_process(trainer: Callable[..., Trainer], together: Path) -> None:
    alone = mixed(trainer)
    alone.fit()
    check_agreement(together / "shared", alone)


@pytest.mark.slow
@CASES
def test_a_checkpoint_of_several_processes_is_whole(
    trainer: Callable[..., Trainer], together: Path, run_folder: Path, rows: str
) -> None:
    make(trainer, rows, folder=run_folder).fit()
    wanted, _ = load_checkpoint(run_folder / CHECKPOINT)
    tensors, _ = load_checkpoint(together / "ddp" / rows / CHECKPOINT)
    shapes = {name: (value.dtype, value.shape) for name, value in tensors.items()}
    assert shapes == {name: (value.dtype, value.shape) for name, value in wanted.items()}
    for name, value in tensors.items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-2, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rows", CUT_ROWS)
@pytest.mark.parametrize("sharing", CUT)
def test_an_interrupted_run_of_two_processes_ends_with_the_same_bytes(together: Path, sharing: str, rows: str) -> None:
    whole, cut = together / sharing / rows, together / f"{sharing}-cut" / rows
    for file in ("rank0.safetensors", "rank1.safetensors"):
        first, second = load_file(whole / file), load_file(cut / file)
        assert {n: v.numpy().tobytes() for n, v in first.items()} == {n: v.numpy().tobytes() for n, v in second.items()}
    tensors, state = load_checkpoint(whole / CHECKPOINT)
    resumed, resumed_state = load_checkpoint(cut / CHECKPOINT)
    assert state == resumed_state
    assert {n: v.tobytes() for n, v in tensors.items()} == {n: v.tobytes() for n, v in resumed.items()}
    assert (whole / HISTORY).read_bytes() == (cut / HISTORY).read_bytes()


@pytest.mark.slow
@CASES
@pytest.mark.parametrize("gradient_accumulation_steps", [3, 11])
def test_parts_of_a_step_give_what_the_whole_gives(
    trainer: Callable[..., Trainer], rows: str, gradient_accumulation_steps: int
) -> None:
    """Eleven parts are more than a batch of eight has examples."""
    whole, parts = make(trainer, rows), make(trainer, rows, gradient_accumulation_steps=gradient_accumulation_steps)
    sizes: list[int] = []
    batch = type(parts.data).batch

    def noted(self: Any, indices: Any, chosen: Any, **options: Any) -> Any:
        sizes.append(len(chosen))
        return batch(self, indices, chosen, **options)

    object.__setattr__(parts.data, "batch", noted.__get__(parts.data))
    histories = whole.fit(), parts.fit()
    check_history(*histories)
    for mine, wanted in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-4)
    assert len(sizes) == 14 * gradient_accumulation_steps
    assert max(sizes) == -(-8 // gradient_accumulation_steps), "no part may be as large as the whole"


def test_shards_are_the_batch() -> None:
    batch = np.arange(10, 17)
    for world in (1, 2, 3, 9):
        parts = [shard(batch, rank, world) for rank in range(world)]
        assert sorted(np.concatenate(parts).tolist()) == batch.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with distributed_context() as ranks:
        assert ranks == DistributedContext(0, 1)
        assert ranks.is_main
        assert ranks.broadcast([3, 0.1]) == [3, 0.1]
        ranks.barrier()
