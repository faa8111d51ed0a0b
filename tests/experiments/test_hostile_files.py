"""The benchmark of hostile model files finds what becomes of a file, also where the native engine answers alone."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mixling import Predictor

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COUNT = 105  # every kind of change of every model, three times


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)  # it imports another script
        yield load_script("benchmarks/hostile_files.py")


@pytest.fixture(scope="module")
def models(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    script.make_models(folder)
    return folder


def test_changed_files_are_refused_or_have_sound_answers(script: ModuleType, models: Path) -> None:
    options = argparse.Namespace(models=models)
    found = set()
    for number in range(COUNT):
        where = script.location(options, number)
        body = (models / f"{where['model']}.onnx").read_bytes()[: -script.SEAL_LENGTH]
        changed = script.KINDS[where["kind"]](body, random.Random(number), script.structure(body))
        outcome, message = script.ask(script.seal(changed), pairs=where["model"] in ("pairs", "question_answering"))
        assert outcome in script.GOOD, (where, message)
        found.add(outcome)
    assert {"refused", "answered", "answered, then refused in full"} <= found


def test_an_unsound_answer_is_found(script: ModuleType, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (models / "classification.onnx").read_bytes()
    assert script.ask(content, pairs=False) == ("answered", "")
    answer = Predictor(content).predict_one("a film")
    monkeypatch.setattr(script, "sound", lambda prediction, kind: prediction.probabilities != answer.probabilities)
    monkeypatch.setattr(script, "TEXTS", ["a film"])
    assert script.ask(content, pairs=False)[0] == "unsound"
