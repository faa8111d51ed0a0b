"""One function opens the folder of any finished run, and refuses what is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mixling
from mixling import (
    ConfigError,
    DataConfig,
    ModelFileError,
    Predictor,
    RunConfig,
    TextGenerator,
    fit,
    pretrain,
    read_data,
)
from mixling.artifacts import all_kinds, read_artifact
from mixling.research import load_model
from mixling.research.pretraining import MASKED_LM, PretrainedModel, load_pretraining
from mixling.research.seq2seq import PAIRS, fit_pairs
from mixling.research.vision import IMAGE_RUNS, ImageClassifier, fit_images
from mixling.runs.resolve import resolve
from mixling.storage import read_json, write_sealed

WORDS = ["amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heath"]
TRAIN = {"steps": 2, "batch_size": 8}
CLASSES = {
    "training": Predictor,
    "pretraining": PretrainedModel,
    "text to text": TextGenerator,
    "images": ImageClassifier,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    texts = [" ".join([*np.roll(WORDS, i)[: 2 + i % 6], f"n{i}"]) for i in range(200)]
    rows = [{"text": text, "label": "ab"[i % 2], "source": text, "target": text[:5]} for i, text in enumerate(texts)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [str(folder / "rows.jsonl")]
    config = RunConfig.model_validate({"data": DataConfig(train=tuple(files)), "model": {"dim": 8}, "train": TRAIN})
    fit(config, *read_data(config, spool_dir=None, log=lambda line: None), folder=folder / "training")
    small = {"dim": 8, "num_layers": 2, "text": {"max_len": 10, "vocabulary_size": 120}}
    values = {"corpus": {"files": files}, "model": {"preset": "gmlp-tiny", **small}, "train": TRAIN}
    pretrain(resolve(values, spec=MASKED_LM).config, folder=folder / "pretraining")
    tiny = {"preset": "t5-2m", "dim": 16, "ffn_dim": 16, "num_layers": 1, "num_decoder_layers": 1}
    pairs = {"tasks": [{"train": files}], "model": tiny, "tokenizer": {"size": 120}, "train": TRAIN}
    fit_pairs(resolve(pairs, spec=PAIRS).config, folder=folder / "text to text")
    for number in range(12):
        path = folder / "pictures" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 20 * number, np.uint8)).save(path)
    images = {"data": {"train": [str(folder / "pictures")]}, "train": TRAIN}
    fit_images(resolve(images, spec=IMAGE_RUNS).config, folder=folder / "images")
    return {kind.name: folder / kind.name for kind in all_kinds()}


def test_each_kind_is_opened_as_what_answers_for_it(folders: dict[str, Path]) -> None:
    assert {kind.name for kind in all_kinds()} == CLASSES.keys()
    for kind, folder in folders.items():
        assert type(mixling.load(str(folder))) is CLASSES[kind]
        assert json.loads((folder / "run.json").read_text())["kind"] == kind
    assert type(mixling.load(folders["training"] / "model.onnx")) is Predictor


def test_a_name_that_the_folder_gives_is_used_without_its_directory(folders: dict[str, Path], tmp_path: Path) -> None:
    copy, other = tmp_path / "copy", tmp_path / "vocab.txt"
    shutil.copytree(folders["text to text"], copy)
    values = read_json(copy / "config.json")
    name = values["vocabulary"]
    other.write_text("not this one")
    for path in (f"../{name}", f"/{name}", str(other.with_name(name))):
        write_sealed(copy / "config.json", {**values, "vocabulary": path})
        assert read_artifact(copy, lambda artifact: artifact.vocabulary(), hint="").parent == copy
    for nothing in ("", "/", ".", None, 5):
        write_sealed(copy / "config.json", {**values, "vocabulary": nothing})
        with pytest.raises(ModelFileError, match="names no vocabulary"):
            read_artifact(copy, lambda artifact: artifact.vocabulary(), hint="")


def test_a_folder_of_another_kind_is_refused_with_what_is_wanted(folders: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"its model generates text; `mixling train` makes one"):
        load_model(folders["text to text"])
    with pytest.raises(
        ConfigError, match=r"its model predicts labels or answers; --from takes a folder written by `mixling pretrain`"
    ):
        load_pretraining(folders["training"])
    with pytest.raises(ConfigError, match=r"its model is pretrained, .*; `mixling train --task text2text` makes"):
        TextGenerator(folders["pretraining"])
    with pytest.raises(ConfigError, match=r"its model generates text; `mixling train IMAGES --task image_class"):
        ImageClassifier(folders["text to text"])
    with pytest.raises(ConfigError, match=r"its model classifies images; --from takes a folder"):
        load_pretraining(folders["images"])


def test_what_is_no_model_is_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        mixling.load(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"is not the folder of a finished run; try this"):
        read_artifact(tmp_path, lambda artifact: artifact.saved, hint="try this")
    config = (folders["pretraining"] / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"pretraining"', '"pre_training"'))
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        mixling.load(tmp_path)
    (tmp_path / "config.json").write_text('{"format_version": 1, "kind": "other"}')
    with pytest.raises(
        ModelFileError, match=r"config\.json: got kind 'other'; this version reads training, pretraining"
    ):
        mixling.load(tmp_path)
