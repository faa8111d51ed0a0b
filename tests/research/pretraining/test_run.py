"""Pretraining as a run, and what begins with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mixling import (
    ConfigError,
    Dataset,
    Example,
    ModelConfig,
    ModelFileError,
    PretrainConfig,
    RunConfig,
    UserError,
    build_model,
    fit,
    pretrain,
)
from mixling.artifacts import PRETRAINING, is_finished
from mixling.config import merge, parse
from mixling.errors import Interrupted, StorageError
from mixling.models import TorchNetwork
from mixling.research import load_model
from mixling.runs import FINE_TUNING, pretrained_config
from mixling.runs.pretrained import load_pretrained
from mixling.training import CHECKPOINT, Callback

SHAPES: dict[str, dict[str, Any]] = {
    "gmlp": {"preset": "gmlp-tiny", "layers": [{"mixers": [{"type": "spatial_gating", "ffn_dim": 32}]}]},
    "bert": {"preset": "bert-tiny"},
    "mlp-mixer": {"preset": "mlp-mixer"},
    "hypermixer": {"preset": "hypermixer"},
    "fnet": {"preset": "fnet"},
    "linear-transformer": {"preset": "linear-transformer"},
    "hashes": {"preset": "mixling-mixer"},
    "pnlp-mixer": {"preset": "pnlp-mixer-x-small"},
    "hypermixer on hashes": {"preset": "mixling-mixer", "layers": [{"mixers": [{"type": "hypermixing"}]}]},
}


def config(name: str, text: Path, **training: Any) -> PretrainConfig:
    from mixling.research.pretraining import MASKED_LM
    from mixling.runs.resolve import resolve

    small = {"dim": 16, "num_layers": 2, "text": {"max_len": 12, "vocabulary_size": 150}}
    values: dict[str, Any] = {
        "model": merge(SHAPES[name], small),
        "corpus": {"files": [str(text)], "validation_fraction": 0.1},
    }
    values["train"] = {"steps": 6, "batch_size": 8, "evaluations": 2, "precision": "float32", **training}
    return resolve(values, spec=MASKED_LM).config


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), size=4)) for _ in range(50)]
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(rng.choice(words, size=9)) + "\n" for _ in range(200)))
    return path


def rows(count: int, text: Path) -> Dataset:
    lines = text.read_text().splitlines()
    return Dataset.from_examples(Example(lines[i], ("a", "b")[i % 2], "rows.csv", i + 2) for i in range(count))


def fine_tuning(folder: Path, *, model: dict[str, Any] | None = None, **start: Any) -> RunConfig:
    values = {
        "model": merge(pretrained_config(str(folder)), model or {}),
        "init": {"pretrained": str(folder), **start},
        "train": {**FINE_TUNING, "epochs": 1, "precision": "float32"},
        "decisions": {"precision": "float32"},
    }
    return parse(RunConfig, values, where="test")


@pytest.mark.parametrize("name", SHAPES)
def test_every_kind_of_encoder_is_pretrained_and_fine_tuned(name: str, text: Path, tmp_path: Path) -> None:
    done = pretrain(config(name, text), folder=tmp_path / "pre")
    assert done is not None
    assert is_finished(tmp_path / "pre")
    assert not (tmp_path / "pre" / "corpus").exists()
    assert not (tmp_path / "pre" / CHECKPOINT).exists()
    assert set(done.metrics) == {"perplexity", "accuracy", "loss"}
    before = load_file(tmp_path / "pre" / "model.safetensors")
    settings = fine_tuning(tmp_path / "pre")
    model = build_model(settings.model, num_outputs=2, output="text", seed=5)
    load_pretrained(TorchNetwork(model), str(tmp_path / "pre"))
    for key, value in model.state_dict().items():
        if not key.startswith("head."):
            assert torch.equal(value, before[key]), key
    data = rows(40, text)
    run = fit(settings, data.subset(range(30)), data.subset(range(30, 40)), folder=tmp_path / "tuned")
    assert run is not None
    tuned, _, labels, task = load_model(tmp_path / "tuned")
    assert (len(labels), task) == (2, "classification")
    assert set(tuned.state_dict()) - set(before) == {key for key in tuned.state_dict() if key.startswith("head.")} - {
        key for key in before if key.startswith("head.")
    }


def test_text_that_was_kept_serves_other_models(text: Path, tmp_path: Path) -> None:
    first = config("gmlp", text)
    kept = first.model_copy(update={"corpus": first.corpus.model_copy(update={"keep": True})})
    pretrain(kept, folder=tmp_path / "one")
    anew = pretrain(config("bert", text), folder=tmp_path / "two")
    second = config("bert", text)
    corpus = second.corpus.model_copy(update={"files": (), "prepared": str(tmp_path / "one")})
    text.unlink()
    from_kept = pretrain(second.model_copy(update={"corpus": corpus}), folder=tmp_path / "three")
    assert anew is not None
    assert from_kept is not None
    assert from_kept.metrics == anew.metrics
    words = config("hashes", text)
    with pytest.raises(ConfigError, match="was encoded with"):
        pretrain(words.model_copy(update={"corpus": corpus}), folder=tmp_path / "four")


class Stop(Callback):
    """Interrupts at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stepped(self, *arguments: Any) -> None:
        self.at -= 1
        if not self.at:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_without_its_files(text: Path, tmp_path: Path) -> None:
    settings = config("gmlp", text, checkpoint_seconds=1e-9)
    pretrain(settings, folder=tmp_path / "whole")
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        pretrain(settings, folder=tmp_path / "cut", callback=Stop(3))
    assert not is_finished(tmp_path / "cut")
    text.unlink()
    pretrain(settings, folder=tmp_path / "cut", resume=True)
    for path in sorted((tmp_path / "whole").iterdir()):
        assert path.read_bytes() == (tmp_path / "cut" / path.name).read_bytes(), path.name
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def test_files_that_vanish_or_state_nothing_are_reported(text: Path, tmp_path: Path) -> None:
    settings = config("gmlp", text)
    gone = settings.model_copy(
        update={"corpus": settings.corpus.model_copy(update={"files": (str(text), str(tmp_path / "gone.txt"))})}
    )
    with pytest.raises(UserError, match=r"gone\.txt: no such file"):
        pretrain(gone, folder=tmp_path / "run")
    long = settings.model_copy(
        update={
            "model": settings.model.model_copy(
                update={"text": settings.model.text.model_copy(update={"max_len": 9000})}
            )
        }
    )
    with pytest.raises(ConfigError, match="the model reads 9000 at a time"):
        pretrain(long, folder=tmp_path / "run")


def test_a_vocabulary_without_a_mask_is_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\na\nb\n")
    settings = config("gmlp", text)
    model = settings.model.model_copy(
        update={"text": settings.model.text.model_copy(update={"vocabulary": str(tmp_path / "vocab.txt")})}
    )
    with pytest.raises(ConfigError, match=r"has no subword \[SEP\]"):
        pretrain(settings.model_copy(update={"model": model}), folder=tmp_path / "run")


def test_a_full_disk_leaves_the_last_checkpoint(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling.training import checkpoint

    settings = config("gmlp", text, checkpoint_seconds=1e-9)
    write, count = checkpoint.write_atomic, []

    def full(path: Path, content: bytes) -> None:
        count.append(path)
        if len(count) == 4:
            raise StorageError(f"{path}: could not be written: No space left on device; an existing file is unchanged")
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_atomic", full)
    with pytest.raises(StorageError, match="No space left"):
        pretrain(settings, folder=tmp_path / "run")
    monkeypatch.undo()
    pretrain(settings, folder=tmp_path / "run", resume=True)
    pretrain(settings, folder=tmp_path / "whole")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("name", ["gmlp", "bert", "mlp-mixer"])
def test_longer_texts_resize_mixers_that_allow_it(name: str, text: Path, tmp_path: Path) -> None:
    pretrain(config(name, text), folder=tmp_path / "pre")
    longer = {"text": {"max_len": 20}}
    settings = fine_tuning(tmp_path / "pre", model=longer)
    model = build_model(settings.model, num_outputs=2, output="text", seed=0)
    if name != "gmlp":
        with pytest.raises(ConfigError, match=r"has the shape .* it was made for 12 tokens: leave out"):
            load_pretrained(TorchNetwork(model), str(tmp_path / "pre"))
        return
    load_pretrained(TorchNetwork(model), str(tmp_path / "pre"))
    short = fine_tuning(tmp_path / "pre").model
    other = build_model(short, num_outputs=2, output="text", seed=0)
    load_pretrained(TorchNetwork(other), str(tmp_path / "pre"))
    x, mask = torch.randn(2, 12, 16), torch.ones(2, 12, dtype=torch.bool)
    torch.testing.assert_close(model.eval().encoder(x, mask), other.eval().encoder(x, mask))


def test_a_model_of_another_shape_or_a_damaged_folder_is_refused(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pre"
    pretrain(config("gmlp", text), folder=folder)
    settings = fine_tuning(folder, model={"dim": 8})
    model = build_model(settings.model, num_outputs=2, output="text", seed=0)
    with pytest.raises(ConfigError, match="dim of the pretrained model differs"):
        load_pretrained(TorchNetwork(model), str(folder))
    with pytest.raises(ConfigError, match="is not the folder of a finished run"):
        pretrained_config(str(tmp_path / "nothing"))
    same = fine_tuning(folder).model
    good = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(good[:-10])
    with pytest.raises(ModelFileError, match=r"model\.safetensors: does not match its checksum"):
        load_pretrained(TorchNetwork(build_model(same, num_outputs=2, output="text")), str(folder))
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"config\.json: is damaged"):
        pretrained_config(str(folder))


def test_the_record_states_what_it_was(text: Path, tmp_path: Path) -> None:
    pretrain(config("hashes", text), folder=tmp_path / "pre")
    record = json.loads((tmp_path / "pre" / "run.json").read_text())
    assert (record["kind"], record["finished"]) == (PRETRAINING, True)
    saved = json.loads((tmp_path / "pre" / "config.json").read_text())
    assert len(saved["words"]) == saved["num_outputs"]
    assert parse(ModelConfig, saved["model"], where="test").text.max_len == 12
    moved = shutil.move(tmp_path / "pre", tmp_path / "elsewhere")
    assert Path(pretrained_config(str(moved))["text"]["vocabulary"]).is_file()


def test_an_estimator_begins_with_it(text: Path, tmp_path: Path) -> None:
    from mixling import TextClassifier

    folder = tmp_path / "pre"
    pretrain(config("gmlp", text), folder=folder)
    lines = text.read_text().splitlines()[:40]
    labels = ["a", "b"] * 20
    made = TextClassifier(pretrained=str(folder), epochs=1).fit(lines, labels)
    saved = json.loads(made.files_["run.json"])["config"]
    assert saved["init"]["pretrained"] == str(folder)
    assert saved["train"]["optim"]["lr"] == FINE_TUNING["optim"]["lr"]
    assert set(made.predict(lines)) <= {"a", "b"}
    with pytest.raises(ConfigError, match="leave out model='gmlp-tiny'"):
        TextClassifier("gmlp-tiny", pretrained=str(folder)).fit(lines, labels)


def test_a_pretraining_is_replaced_when_the_new_one_is_finished(text: Path, tmp_path: Path) -> None:
    class Stop(Callback):
        def stepped(self, step: Any) -> None:
            if step.number == 4:
                raise Interrupted("stopped", signum=15)

    for name, seed in (("old", 1), ("new", 2)):
        pretrain(config("gmlp", text, seed=seed), folder=tmp_path / name)
    files = {name: {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("old", "new")}
    shutil.copytree(tmp_path / "old", tmp_path / "run")
    settings = config("gmlp", text, seed=2, checkpoint_seconds=1e-9)
    with pytest.raises(Interrupted, match="its model is unchanged"):
        pretrain(settings, folder=tmp_path / "run", callback=Stop())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == files["old"]
    assert (tmp_path / "run" / ".next" / "corpus").is_dir()
    text.unlink()
    pretrain(settings, folder=tmp_path / "run", resume=True)
    found = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert found.pop("run.json") != files["new"].pop("run.json")  # it records how often checkpoints were written
    assert found == files["new"]


def test_misspelled_and_missing_options_of_a_run_are_refused(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(TypeError, match="resum"):
        pretrain(config("linear-transformer", text), folder=folder, resum=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no folder"):
        pretrain(config("linear-transformer", text))
    assert not folder.exists()
