"""Small models of every task with random weights (`make.py`), and a service for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor

if find_spec("starlette") is None:  # an environment without the extra serve
    collect_ignore_glob = ["test_*.py"]
else:
    from starlette.testclient import TestClient

    from mixling.serving import ServerSettings, Service

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
NAMES = ("intents", "pairs", "topics", "stars", "slots", "answers")


@pytest.fixture(scope="session")
def paths() -> dict[str, Path]:
    """Model files by name."""
    return {name: HERE / "models" / f"{name}.onnx" for name in NAMES}


@pytest.fixture(scope="session")
def predictors(paths: dict[str, Path]) -> dict[str, Predictor]:
    return {name: Predictor(path) for name, path in paths.items()}


@pytest.fixture(scope="session")
def service(paths: dict[str, Path]) -> Service:
    return Service(ServerSettings(models=tuple(paths.items())))


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(service) as found:
        yield found


@pytest.fixture(scope="session")
def make_client() -> Callable[..., TestClient]:
    """A client of a service with other settings, of the first golden model; use it as a context manager."""

    def make(models: dict[str, Path] | None = None, **settings: Any) -> TestClient:
        models = models or {"golden": GOLDEN / "model-v1.onnx"}
        return TestClient(Service(ServerSettings(models=tuple(models.items()), **settings)))

    return make
