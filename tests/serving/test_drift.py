"""Drift in `/metrics`: windows of requests beside `Predictor.drift`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mixling import Predictor
from mixling.drift import profile_of
from mixling.serving import drift as module

from .process import serving

TEXTS = [f"play song {number} by artist {number}" for number in range(300)]
OTHERS = [f"a longer sentence about the weather in town {number} and about nothing else today" for number in range(200)]


@pytest.fixture(scope="module")
def model(paths: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a profile of texts about songs."""
    pytest.importorskip("onnx", reason="needs onnx")
    from mixling.export import amend

    predictor = Predictor(paths["intents"])
    found = predictor.predict(TEXTS)
    probabilities = predictor.predict_proba(TEXTS)
    profile = profile_of(
        TEXTS,
        TEXTS,
        answers=[(item.label or "",) for item in found],
        confidence=probabilities.max(1),
        right=probabilities.max(1) > 0.4,
    )
    path = tmp_path_factory.mktemp("drift") / "model.onnx"
    path.write_bytes(amend(paths["intents"].read_bytes(), profile=profile.model_dump(mode="json")))
    return path


def values(client: Any) -> dict[tuple[str, str], float]:
    """Return the metrics of drift by name and statistic."""
    return {
        (sample.name.removeprefix("mixling_drift_"), sample.labels.get("statistic", "")): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
        if sample.name.startswith("mixling_drift_") and not sample.name.endswith("_created")
    }


def ask(client: Any, texts: list[str]) -> None:
    assert client.post("/v1/models/m/predict", json={"texts": texts}).status_code == 200


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time does not matter."""
    monkeypatch.setattr(module, "_SAVED", 1e9)


def test_a_window_is_compared_as_predictor_drift_does(
    model: Path, make_client: Callable[..., Any], unlimited: None
) -> None:
    predictor = Predictor(model)
    with make_client({"m": model}, drift_window=200) as client:
        for begin in range(0, 190, 10):
            ask(client, OTHERS[begin : begin + 10])
        assert ("reliable", "") not in values(client)
        ask(client, OTHERS[190:])
        found = values(client)
        expected = predictor.drift(OTHERS)
        assert found["windows_total", ""] == 1
        assert found["accuracy_estimate", ""] == pytest.approx(expected.estimate)
        for movement in expected.movements:
            name = movement.name.replace(" ", "_")
            assert found["distance", name] == pytest.approx(movement.distance)
            assert found["moved", name] == movement.moved
        assert found["moved", "length"] == 1
        assert found["reliable", ""] == 0
        for text in TEXTS[:200]:
            ask(client, [text])
        assert values(client)["windows_total", ""] == 2
        assert values(client)["moved", "length"] == 0


def test_large_requests_are_sampled_and_a_window_of_0_compares_nothing(
    model: Path, make_client: Callable[..., Any], unlimited: None
) -> None:
    with make_client({"m": model}, drift_window=30) as client:
        ask(client, TEXTS)
        assert values(client)["windows_total", ""] == 1
    with make_client({"m": model}, drift_window=0) as client:
        ask(client, TEXTS)
        assert not values(client)


def test_looking_takes_a_hundredth_of_the_time(
    model: Path, make_client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    clock = 0.0

    def observe(*given: Any) -> str:
        nonlocal looks, clock
        looks += 1
        clock += 0.001  # seconds that a text takes
        return "observed"

    monkeypatch.setattr(module, "observe", observe)
    monkeypatch.setattr(module, "perf_counter", lambda: clock)
    with make_client({"m": model}, drift_window=10_000) as client:
        for text in TEXTS:
            ask(client, [text])
            clock += 0.01  # until the next request
    seconds = clock
    assert looks <= 0.01 * seconds / 0.001 + 60  # and what was saved
    assert looks >= 0.01 * seconds / 0.001
    assert looks < len(TEXTS)


def test_models_without_a_profile_have_no_drift(paths: dict[str, Path], make_client: Callable[..., Any]) -> None:
    with make_client({"m": paths["intents"]}) as client:
        ask(client, TEXTS)
        assert not values(client)


def test_each_worker_has_its_own_windows(model: Path) -> None:
    with serving(model, "--workers", 2, "--set", "drift_window=20") as served:
        for begin in range(0, 200, 20):
            body = json.dumps({"texts": OTHERS[begin : begin + 20]})
            assert served.ask("/v1/models/m/predict", body)[0] == 200
        text = served.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").decode()
    lines = [line for line in text.splitlines() if line.startswith("mixling_drift_reliable{")]
    assert lines
    assert all(re.fullmatch(r'mixling_drift_reliable\{model="m",pid="\d+"\} 0\.0', line) for line in lines)
