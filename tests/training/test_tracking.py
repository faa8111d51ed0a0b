"""The curves that TensorBoard reads are those of the run, once each, also after an interruption."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mixling import ConfigError, TrainConfig, UserError
from mixling.config import parse
from mixling.training import (
    CHECKPOINT,
    Callback,
    CallbackList,
    DistributedContext,
    OptimConfig,
    Step,
    Trainer,
    learning_rate,
    load_checkpoint,
)
from mixling.training.tracking import Tracker, Tracking

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

pytestmark = pytest.mark.slow  # TensorBoard is imported, and most train

CONFIG = TrainConfig(epochs=7, evaluations=7, batch_size=8, track=("tensorboard",), optim=OptimConfig(lr=0.02))
Curves = dict[str, list[tuple[int, float]]]


class Cut(Exception):
    """Stands for kill -9."""


class CutAt(Callback):
    def __init__(self, number: int) -> None:
        self.number = number

    def stepped(self, step: Step) -> None:
        if step.number == self.number:
            raise Cut


def curves(folder: Path) -> Curves:
    """What TensorBoard itself would show."""
    read = event_accumulator.EventAccumulator(str(folder / "tensorboard"), {"scalars": 0})
    read.Reload()
    return {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_curves_are_those_of_the_run(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    history = trainer(CONFIG, folder=run_folder).fit()
    got = curves(run_folder)
    metrics = [key for key in history[0] if key.startswith("val_")]
    assert set(got) == {f"val/{key[4:]}" for key in metrics} | {"train/loss", "train/learning_rate", "train/mean_loss"}
    for key in metrics:
        wanted = [(record["step"], pytest.approx(record[key], rel=1e-5)) for record in history]
        assert got[f"val/{key[4:]}"] == wanted
    rates = [(step, pytest.approx(learning_rate(CONFIG.optim, step - 1, 49))) for step in (10, 20, 30, 40)]
    assert got["train/learning_rate"] == rates
    assert [step for step, _ in got["train/loss"]] == [10, 20, 30, 40]


def test_a_resumed_run_repeats_no_point(trainer: Callable[..., Trainer], run_folder: Path, tmp_path: Path) -> None:
    """It goes on from step 21, at which validation was evaluated; what was written of steps 28 and 30 is made again."""
    (tmp_path / "whole").mkdir()
    trainer(CONFIG, folder=tmp_path / "whole").fit()
    config = CONFIG.model_copy(update={"checkpoint_seconds": 1e-9})
    for number in (22, 33):
        with pytest.raises(Cut):
            trainer(config, folder=run_folder, callback=CutAt(number)).fit(resume=number > 22)
        config = CONFIG.model_copy(update={"checkpoint_seconds": 1e9})
    assert load_checkpoint(run_folder / CHECKPOINT)[1]["step"] == 21
    assert [curves(run_folder)[tag][-1][0] for tag in ("train/loss", "val/loss")] == [30, 28]
    trainer(config, folder=run_folder).fit(resume=True)
    assert curves(run_folder) == curves(tmp_path / "whole")


def test_a_new_run_removes_the_curves_of_an_old_one(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    trainer(CONFIG, folder=run_folder).fit()
    short = CONFIG.model_copy(update={"epochs": 1})
    trainer(short, folder=run_folder).fit()
    assert [step for step, _ in curves(run_folder)["val/loss"]] == list(range(1, 8))


def test_only_the_main_process_writes_and_only_into_a_run_folder(
    trainer: Callable[..., Trainer], run_folder: Path
) -> None:
    trainer(CONFIG, folder=run_folder, distributed=DistributedContext(1, 1)).fit()
    trainer(CONFIG).fit()
    trainer(CONFIG.model_copy(update={"track": ()}), folder=run_folder).fit()
    assert not (run_folder / "tensorboard").exists()


def test_a_missing_package_is_reported_before_the_first_step(
    trainer: Callable[..., Trainer], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r'pip install .*\[track\]"'):
        trainer(CONFIG, folder=run_folder)
    assert not list(run_folder.iterdir())


def test_a_folder_that_cannot_be_made_stops_no_run(trainer: Callable[..., Trainer], run_folder: Path) -> None:
    (run_folder / "tensorboard").write_text("a file")
    messages: list[str] = []
    assert len(trainer(CONFIG, folder=run_folder, log=messages.append).fit()) == 7
    (message,) = messages
    assert re.match("tracking by tensorboard fails: .*Error.*; the run continues without it", message)


class Recorder(Tracker):
    """Keeps what it is sent, and can raise or hang at a step."""

    package = "recorder"

    def __init__(self, folder: Path, at: int | None = None, trouble: Callable[[], object] = lambda: None) -> None:
        super().__init__(folder)
        self.calls: list[tuple[str, int, dict[str, float]]] = []
        self.closed, self._at, self._trouble = False, at, trouble

    def open(self, step: int, config: Mapping[str, Any]) -> None:
        self.calls.append(("open", step, dict(config)))

    def write(self, values: Mapping[str, float], step: int) -> None:
        if step == self._at:
            self._trouble()
        self.calls.append(("write", step, dict(values)))

    def close(self) -> None:
        self.closed = True


def quit_process() -> None:
    raise SystemExit(1)


def raise_error() -> None:
    raise ConnectionError("no network")


def test_several_trackers_get_the_same_and_one_that_fails_stops_nothing(
    trainer: Callable[..., Trainer], run_folder: Path
) -> None:
    released = threading.Event()
    trackers = [
        Recorder(run_folder),
        Recorder(run_folder, 14, raise_error),
        Recorder(run_folder, 14, quit_process),
        Recorder(run_folder, 14, released.wait),
    ]
    messages: list[str] = []
    callback = CallbackList(
        *(Tracking(tracker, config={"a": 1}, log=messages.append, patience=0.2) for tracker in trackers)
    )
    begin = time.monotonic()
    history = trainer(CONFIG.model_copy(update={"track": ()}), folder=run_folder, callback=callback).fit()
    released.set()
    assert time.monotonic() - begin < 30
    whole = trackers[0]
    assert whole.closed
    assert whole.calls[0] == ("open", 0, {"a": 1})
    seen = [(step, values) for _, step, values in whole.calls[1:] if "val/loss" in values]
    assert [step for step, _ in seen] == [record["step"] for record in history]
    for (_, values), record in zip(seen, history, strict=True):
        assert {f"val_{key[4:]}": value for key, value in values.items() if key.startswith("val/")} == {
            key: value for key, value in record.items() if key.startswith("val_")
        }
    for tracker in trackers[1:]:
        assert tracker.calls[:2] == whole.calls[:2]
        assert len(tracker.calls) < len(whole.calls)
    assert sorted(message.partition(";")[0] for message in messages) == [
        "tracking by recorder does not answer after 0.2 s",
        "tracking by recorder fails: ConnectionError: no network",
        "tracking by recorder fails: SystemExit: 1",
    ]


def test_one_name_or_several_are_configured_and_unknown_ones_refused() -> None:
    assert TrainConfig(track="tensorboard").track == ("tensorboard",)  # type: ignore[arg-type]
    assert TrainConfig(track=("mlflow", "wandb")).track == ("mlflow", "wandb")
    with pytest.raises(ConfigError, match="track"):
        parse(TrainConfig, {"track": ["tensorbord"]}, where="options")


def test_wandb_continues_the_same_run(
    trainer: Callable[..., Trainer], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for wandb, whose interface trackio has as well."""
    begun: list[dict[str, Any]] = []
    rows: list[tuple[int, dict[str, float]]] = []

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            rows.append((step, values))

        def finish(self) -> None:
            rows.append((-1, {}))

    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    module.init = lambda **options: begun.append(options) or Run()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    config = CONFIG.model_copy(update={"track": ("wandb",), "checkpoint_seconds": 1e-9})
    with pytest.raises(Cut):
        trainer(config, folder=run_folder, callback=CutAt(22)).fit()
    config = config.model_copy(update={"checkpoint_seconds": 1e9})
    trainer(config, folder=run_folder).fit(resume=True)
    assert begun[0]["id"] == begun[1]["id"]
    assert begun[0]["id"].startswith("run-")
    assert (begun[0]["project"], begun[0]["resume"]) == ("mine", "allow")
    assert begun[0]["config"]["optim.lr"] == 0.02
    steps = [step for step, values in rows if "val/loss" in values]
    assert steps == [7, 14, 21, 28, 35, 42, 49]
    assert rows[-1] == (-1, {})
    trainer(config.model_copy(update={"epochs": 1}), folder=run_folder).fit()
    assert begun[2]["id"] != begun[0]["id"], "a new training is a new run"


def test_trackio_has_the_metrics(
    trainer: Callable[..., Trainer], run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="pip install trackio")
    messages: list[str] = []
    config = CONFIG.model_copy(update={"track": ("trackio",)})
    history = trainer(config, folder=run_folder, log=messages.append).fit()
    assert messages == []
    from trackio.sqlite_storage import SQLiteStorage

    (name,) = SQLiteStorage.get_runs("mixling")
    found = {row["step"]: row["val/loss"] for row in SQLiteStorage.get_logs("mixling", name) if "val/loss" in row}
    assert found == {record["step"]: pytest.approx(record["val_loss"]) for record in history}


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_the_metrics(
    trainer: Callable[..., Trainer], run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.chdir(tmp_path)
    messages: list[str] = []
    config = CONFIG.model_copy(update={"track": ("mlflow",), "checkpoint_seconds": 1e-9})
    with pytest.raises(Cut):
        trainer(config, folder=run_folder, callback=CutAt(22), log=messages.append).fit()
    history = trainer(config, folder=run_folder, log=messages.append).fit(resume=True)
    assert messages == []
    (run,) = mlflow.search_runs(experiment_names=["mixling"], output_format="list")
    assert (run.info.status, run.data.params["optim.lr"]) == ("FINISHED", "0.02")
    values = {item.step: item.value for item in mlflow.MlflowClient().get_metric_history(run.info.run_id, "val/loss")}
    assert values == {record["step"]: pytest.approx(record["val_loss"]) for record in history}
