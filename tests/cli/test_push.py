"""`mixling push`, and `hf:NAME` where commands take a model."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from mixling.artifacts import SEEN_FILE, WRITTEN
from mixling.storage import read_json

from ..hub.conftest import FakeHub, fake_hub  # noqa: F401 (a fixture)
from .conftest import Call

NAME = "org/reviews"


def test_a_run_is_pushed_whole_and_used_from_the_hub(
    call: Call,
    model: Path,
    reviews: Path,
    fake_hub: FakeHub,  # noqa: F811
) -> None:
    import yaml

    card = ["--license", "mit", "--language", "en", "--dataset", "org/films", "--example", "what a great film"]
    done = call("push", model, NAME, "--private", *card)
    assert done.code == 0, done.err
    assert f"next:  mixling predict hf:{NAME} 'a text'" in done.err
    assert fake_hub.private == {NAME}
    files = fake_hub.commits[fake_hub.repos[NAME]["main"]]
    own = {path.name for path in model.iterdir() if path.name in ("run.json", *WRITTEN)} - {SEEN_FILE}
    assert set(files) == {*own, ".gitattributes"}
    for name in own - {"README.md"}:
        assert files[name] == (model / name).read_bytes()
    _, head, body = files["README.md"].decode().split("---\n", 2)
    data = yaml.safe_load(head)
    metrics = read_json(model / "metrics.json")["validation"]
    (results,) = data["model-index"]
    assert results["name"] == "reviews"
    (result,) = results["results"]
    assert result["dataset"] == {"name": "org/films", "type": "org/films", "split": "validation"}
    assert result["metrics"][0]["value"] == pytest.approx(metrics["accuracy"], abs=1e-6)
    assert (data["license"], data["language"], data["library_name"]) == ("mit", ["en"], "mixling")
    assert (data["datasets"], data["widget"]) == (["org/films"], [{"text": "what a great film"}])
    for line in (f"mixling predict hf:{NAME} ", f"mixling serve hf:{NAME}\n", f"mixling export hf:{NAME} --browser"):
        assert line in body
    assert f"Trained on {date.fromtimestamp((model / 'model.onnx').stat().st_mtime)} on " in body
    assert f'Predictor.from_pretrained("{NAME}")' in body

    texts = ["what a great film", "what a dull plot"]
    assert call("predict", f"hf:{NAME}@main", *texts).out == call("predict", model, *texts).out
    test = reviews / "test.csv"
    assert call("evaluate", f"hf:{NAME}", test).out == call("evaluate", model, test).out
    fake_hub.status = 503
    assert call("predict", f"hf:{NAME}", *texts).out == call("predict", model, *texts).out


def test_a_model_on_the_hub_is_fine_tuned_and_its_commit_recorded(
    call: Call,
    model: Path,
    reviews: Path,
    tmp_path: Path,
    fake_hub: FakeHub,  # noqa: F811
) -> None:
    assert call("push", model, NAME).code == 0
    options = ["--text", "review", "--label", "stars", "--from", f"hf:{NAME}", "--epochs", 1, "-o", tmp_path / "tuned"]
    done = call("train", reviews / "train.csv", *options, "--set", "ngrams.use=never")
    assert done.code == 0, done.err
    config = read_json(tmp_path / "tuned" / "run.json")["config"]
    assert config["init"]["pretrained"] == f"hf:{NAME}@{fake_hub.repos[NAME]['main']}"


def test_mistakes_are_one_line(call: Call, model: Path, tmp_path: Path, fake_hub: FakeHub) -> None:  # noqa: F811
    done = call("predict", "hf:org/none", "a text")
    assert (done.code, done.out) == (2, "")
    assert "hf:org/none: does not exist on the hub, or is private" in done.err
    done = call("push", model, "no name!")
    assert done.code == 2
    assert "is not a name on the hub" in done.err
    done = call("push", tmp_path / "none", NAME)
    assert done.code == 2
    assert "no such file or folder" in done.err
