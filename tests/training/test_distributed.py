"""Two processes on one global batch give what one process gives, to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mixling.data.batches import shard
from mixling.tasks.base import LossConfig
from mixling.training.distributed import Processes, is_launched, processes
from mixling.training.loop import Trainer
from mixling.training.optim import OptimConfig
from mixling.training.recipe import TrainConfig

ROOT = Path(__file__).resolve().parents[2]
# 49 rows: of seven batches the last has one example, which leaves the second process without work.
NUM_TRAIN = 49
# eps well above rounding: else AdamW makes steps of full size out of gradients that are zero but for rounding.
CONFIG = TrainConfig(
    epochs=4,
    batch_size=8,
    word_dropout=0.2,
    precision="float32",
    device="cpu",
    optim=OptimConfig(lr=0.02, eps=1e-4),
    loss=LossConfig(label_smoothing=0.1, class_weights="balanced"),
)
CASES = pytest.mark.parametrize(("tagged", "weighted"), [(False, False), (False, True), (True, False)])


def make(trainer: Callable[..., Trainer], *, tagged: bool, weighted: bool, **options: object) -> Trainer:
    weights = np.linspace(0.1, 2, NUM_TRAIN, dtype=np.float32) if weighted else None
    # Dropout draws other numbers in each process; the words to drop are those of the global batch.
    return trainer(CONFIG, num_train=NUM_TRAIN, dropout=0.0, tagged=tagged, weights=weights, **options)


def train_and_save(trainer: Callable[..., Trainer], out: Path) -> None:
    """What each of the processes runs."""
    torch.set_num_threads(1)
    assert is_launched()
    with processes() as ranks:
        assert ranks.world == 2
        assert ranks.share(7 + ranks.rank) == 7
        for tagged, weighted in [(False, False), (False, True), (True, False)]:
            folder = out / f"{tagged}-{weighted}"
            made = make(trainer, tagged=tagged, weighted=weighted, folder=folder, processes=ranks)
            made.fit()
            tensors = {name: value.contiguous() for name, value in made.model.state_dict().items()}
            save_file(tensors, folder / f"rank{ranks.rank}.safetensors")
            ranks.barrier()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("together")
    for name in ("False-False", "False-True", "True-False"):
        (out / name).mkdir()
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


@pytest.mark.slow
@CASES
def test_two_processes_give_what_one_gives(
    trainer: Callable[..., Trainer], together: Path, tagged: bool, weighted: bool
) -> None:
    alone = make(trainer, tagged=tagged, weighted=weighted)
    start = {name: value.clone() for name, value in alone.model.state_dict().items()}
    history = alone.fit()
    folder = together / f"{tagged}-{weighted}"
    first, second = (load_file(folder / f"rank{rank}.safetensors") for rank in (0, 1))
    for name, value in alone.model.state_dict().items():
        assert torch.equal(first[name], second[name]), "the processes must agree to the bit"
        torch.testing.assert_close(first[name], value, rtol=1e-3, atol=1e-4)
    moved = max(float((value - start[name]).abs().max()) for name, value in first.items())
    assert moved > 0.05, "the case must be one where training does something"
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    for name in ("step", "train_loss", "dev_loss"):
        assert [record[name] for record in records] == pytest.approx([record[name] for record in history], abs=1e-4)


def test_shards_are_the_batch() -> None:
    batch = np.arange(10, 17)
    for world in (1, 2, 3, 9):
        parts = [shard(batch, rank, world) for rank in range(world)]
        assert sorted(np.concatenate(parts).tolist()) == batch.tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with processes() as ranks:
        assert ranks == Processes(0, 1)
        assert ranks.is_main
        assert ranks.share(3) == 3
        ranks.barrier()
