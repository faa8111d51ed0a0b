"""Folders of strangers as teachers: no question on standard input, and none of their code runs."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling import ModelFileError
from mixling.tasks import Classification
from mixling.teachers import TransformerTeacher

MakeModel = Callable[..., Path]
CODE = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
class Config(BertConfig):
    model_type = "evil"
class Model(BertForSequenceClassification):
    config_class = Config
class Words(BertTokenizerFast):
    pass
"""


def set_keys(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def config_code(folder: Path) -> None:
    auto = {"AutoConfig": "code.Config", "AutoModelForSequenceClassification": "code.Model"}
    set_keys(folder / "config.json", model_type="evil", auto_map=auto)


def model_code(folder: Path) -> None:
    set_keys(folder / "config.json", auto_map={"AutoModelForSequenceClassification": "code.Model"})


def tokenizer_code(folder: Path) -> None:
    auto = {"AutoTokenizer": [None, "code.Words"]}
    set_keys(folder / "tokenizer_config.json", tokenizer_class="Words", auto_map=auto)


def pipe(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def links_and_a_large_file(folder: Path) -> None:
    (folder / "extra.txt").symlink_to("/etc/hostname")
    (folder / "gone.txt").symlink_to("/nowhere")
    with (folder / "large.bin").open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("evil", [config_code, model_code, tokenizer_code, pipe, links_and_a_large_file])
def test_no_code_runs_and_nothing_is_asked(
    evil: Callable[[Path], None], make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_model("BertForSequenceClassification", ("a", "b"))
    (folder / "code.py").write_text(CODE)
    evil(folder)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    refused = evil in (config_code, pipe)
    with pytest.raises(ModelFileError, match=str(folder)) if refused else contextlib.nullcontext():
        TransformerTeacher(str(folder), task=Classification)
    assert asked == []
    assert list(folder.rglob("ran")) == []
