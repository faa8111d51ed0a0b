"""A time budget holds for every phase of a run, by a clock that the test owns: what a phase does takes time on it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import Dataset, Example, RunConfig, fit, model_config
from mixling.config import parse
from mixling.ngrams.affordable import Measured, affordable_texts
from mixling.runs.resolve import LABELS, choose_model, resolve
from mixling.training.plan import Deadline, Pace

WORDS = [f"{first}{second}" for first in ("ba", "ko", "mi", "tu", "ze") for second in ("lan", "pert", "sim", "gor")]
OVER = 1.1  # of the budget, at most


class Clock:
    """The time that everything has taken together; `speed` is the machine's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.speed = 1.0
        self.calls: dict[str, int] = {}
        self._monkeypatch = monkeypatch
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def takes(self, target: str, seconds: Callable[..., float]) -> None:
        """Let a function take as many seconds as `seconds` says of its arguments."""
        module, _, name = target.partition(":")
        owner: Any = importlib.import_module(module)
        *classes, name = name.split(".")
        for one in classes:
            owner = getattr(owner, one)
        function = getattr(owner, name)

        @functools.wraps(function)
        def slow(*args: Any, **options: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            self.now += seconds(*args, **options) / self.speed
            return function(*args, **options)

        self._monkeypatch.setattr(owner, name, slow)


def rows(number: int, seed: int) -> Dataset:
    """Texts of ten words, of which one decides."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(number):
        words = [*rng.choice(WORDS[10:], 9), WORDS[5 * (i % 2) + int(rng.integers(5))]]
        rng.shuffle(words)
        out.append(Example(" ".join(words), "ab"[i % 2], "rows", i))
    return Dataset.from_examples(out)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(monkeypatch)
    clock.takes("mixling.runs.initial_model:train_vocabulary", lambda texts, text: 1.0)
    steps = "mixling.training.backends.native_backend:NativeBackend"
    clock.takes(f"{steps}.step", lambda backend, parts, **options: 0.2)
    clock.takes(f"{steps}.differentiate", lambda backend, parts, **options: 0.2)
    clock.takes(f"{steps}.evaluate", lambda backend, data: 0.001 * data.num_evaluated)
    clock.takes("mixling.runs.validation:LabeledValidation.of_model", lambda data, model: 0.001 * len(data.targets))
    clock.takes("mixling.runtime.predictor:Predictor.text_logits", lambda predictor, texts: 0.002 * len(texts))
    choose = "mixling.ngrams.choose"
    clock.takes(f"{choose}:make_features", lambda texts, words, **options: 0.001 * len(texts))
    across = "mixling.ngrams.across_folds"
    clock.takes(f"{across}:make_features", lambda texts, words, **options: 0.001 * len(texts))
    clock.takes(f"{across}:fit_branch", lambda task, features, *rest, **options: 0.0005 * len(features.chosen))
    for name in ("prune", "fit_branch"):
        clock.takes(f"{choose}:{name}", lambda task, features, *rest, **options: 0.002 * len(features.chosen))
    clock.takes(f"{choose}:fit_mixture", lambda task, *rest, **options: 0.1)
    return clock


def trained(
    folder: Path, budget: float, clock: Clock, number: int = 3000, **values: Any
) -> tuple[dict[str, Any], float, list[str]]:
    """Train within a budget; return the report, the seconds that it took with the test on 300 rows, and the log."""
    changes = {"text": {"max_len": 16}, "num_layers": 1}
    whole: dict[str, Any] = {"task": "classification", "model": model_config("mixling-tiny", changes).to_dict()}
    whole |= {"train": {"time_budget": budget, "batch_size": 64}, "ngrams": {"use": "always"}, **values}
    config = parse(RunConfig, whole, where="test")
    lines: list[str] = []
    begin = clock.now
    result = fit(config, rows(number, 0), rows(300, 1), folder=folder, tested=300, started=begin, log=lines.append)
    assert result is not None
    clock.now += 2 * 0.002 * 300
    return result.report, clock.now - begin, lines


@pytest.mark.parametrize("budget", [30.0, 60.0])
def test_a_run_ends_in_time_and_uses_it(budget: float, clock: Clock, tmp_path: Path) -> None:
    report, seconds, _ = trained(tmp_path / "m", budget, clock)
    assert 0.6 * budget < seconds < OVER * budget
    assert clock.calls["step"] > 20
    assert report["ngrams"] is not None


def test_the_linear_model_is_fitted_on_the_texts_that_there_is_time_for(clock: Clock, tmp_path: Path) -> None:
    report, seconds, lines = trained(tmp_path / "m", 14.0, clock, ngrams={"use": "alone"})
    assert seconds < OVER * 14
    assert "step" not in clock.calls
    line = next(line for line in lines if "to end within the time budget" in line)
    assert "of 3,000 texts" in line
    assert report["validation"]["accuracy"] > 0.9


def test_a_machine_that_becomes_slower_makes_fewer_steps(clock: Clock, tmp_path: Path) -> None:
    def slower(backend: Any, parts: Any, **options: Any) -> float:
        return 0.3 if clock.calls["step"] > 40 else 0.0

    clock.takes("mixling.training.backends.native_backend:NativeBackend.step", slower)
    _, seconds, _ = trained(tmp_path / "m", 60.0, clock)
    assert seconds < OVER * 60
    assert clock.calls["step"] > 80  # two for each, as both costs are counted


def test_a_second_training_on_all_rows_ends_in_time_too(clock: Clock, tmp_path: Path) -> None:
    report, seconds, _ = trained(tmp_path / "m", 60.0, clock, decisions={"refit": True}, ngrams={"use": "never"})
    assert seconds < OVER * 60
    assert report["refit"]["steps"] > 20


@pytest.mark.parametrize(("budget", "steps"), [(20.0, 1), (60.0, 20)])
def test_few_rows_are_cross_fitted_within_the_time(budget: float, steps: int, clock: Clock, tmp_path: Path) -> None:
    report, seconds, _ = trained(tmp_path / "m", budget, clock, number=600, decisions={"refit": True})
    assert seconds < OVER * budget
    assert report["ngrams"]["folds"] == 5
    assert report["best"]["step"] >= steps


@pytest.mark.parametrize(("speed", "left"), [(1.0, 100), (0.5, 50), (4.0, 100)])
def test_the_plan_follows_the_speed_of_the_steps(speed: float, left: int, clock: Clock) -> None:
    pace = Pace(10.0, 0)
    planned = 100
    for step in range(1, 1000):
        clock.now += 0.1 / speed
        planned = pace.total(step, planned)
        if step >= planned:
            break
    assert planned == pytest.approx(left, abs=2)


@pytest.mark.parametrize(("seconds", "number"), [(None, 10_000), (1000.0, 10_000), (20.0, 1_200)])
def test_as_many_texts_as_there_is_time_for(seconds: float | None, number: int, clock: Clock) -> None:
    def measure(few: np.ndarray) -> Measured:
        clock.now += 0.004 * len(few)
        return Measured(features=0.0, fits=0.004 * len(few), judging=0.0)

    deadline = Deadline(seconds)
    chosen = affordable_texts(10_000, deadline, measure, refitted=100, log=lambda line: None)
    assert len(np.unique(chosen)) == len(chosen)
    assert number / 2 < len(chosen) <= number
    if seconds is None:
        assert clock.now == 1000.0


@pytest.mark.parametrize(
    ("seconds", "name"), [(None, "mixling-small"), (8.0, "mixling-linear"), (900.0, "mixling-small")]
)
def test_a_network_that_would_be_trained_for_an_epoch_is_left_to_the_n_grams(seconds: float | None, name: str) -> None:
    train = {} if seconds is None else {"time_budget": seconds}
    config = resolve({}, spec=LABELS, overrides={"task": "classification", "train": train}).config
    assert choose_model(rows(3000, 0), config).name == name
