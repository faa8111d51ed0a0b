"""Image classifiers from the command line: trained, resumed, evaluated, asked, described."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional as F

from mixling import load
from mixling.answers import LabelSet
from mixling.artifacts import read_metrics
from mixling.artifacts.files import read_config
from mixling.errors import ConfigError, DataError, Interrupted
from mixling.research.vision import (
    IMAGE_RUNS,
    ImageAugmentationConfig,
    ImageClassifier,
    ImageRunConfig,
    ImageShape,
    fit_images,
    read_labeled,
)
from mixling.research.vision.training import ImageData, split_images
from mixling.runs.resolve import resolve
from mixling.tasks import Classification, LossConfig
from mixling.training import Callback, Step

from .conftest import Call

QUICK = ["model.dim=16", "model.layers.0.mixers.0.ffn_dim=32", "model.num_layers=1", "train.batch_size=16",
         "train.optim.lr=0.01"]  # fmt: skip


def stripes(folder: Path, count: int, seed: int) -> Path:
    """Images of 8 x 8 with stripes along or across, at random places and with noise."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        for label, axis in (("across", 0), ("along", 1)):
            pixels = rng.integers(0, 60, (8, 8))
            np.moveaxis(pixels, axis, 0)[rng.integers(2) :: 2] += 180
            path = folder / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    stripes(folder / "train", 40, 0)
    stripes(folder / "test", 10, 1)
    return folder


def settings(*changes: str) -> list[str]:
    return [part for change in (*QUICK, *changes) for part in ("--set", change)]


@pytest.fixture(scope="module")
def trained(data: Path, call: Call) -> Path:
    folder = data / "model"
    given = ("train", data / "train", "--task", "image_classification", "--epochs", 12, *settings(), "-o", folder)
    result = call(*given)
    assert result.code == 0, result.err
    return folder


def test_a_model_learns_and_its_folder_is_complete(trained: Path, data: Path, call: Call) -> None:
    names = {path.name for path in trained.iterdir()}
    assert {"run.json", "config.json", "model.safetensors", "metrics.json", "README.md", "curves.png"} <= names
    report = read_metrics(trained)
    assert report["data"] == {"training": 72, "validation": 8, "labels": {"across": 36, "along": 36}}
    model = read_config(trained)["model"]
    assert (model["image_size"], model["patch_size"], model["channels"]) == (8, 4, 1)
    result = call("evaluate", trained, data / "test", "-o", data / "metrics.json", "--confusion", data / "c.png")
    assert result.code == 0, result.err
    found = json.loads((data / "metrics.json").read_text())
    assert found["accuracy"] >= 0.9
    assert f"accuracy {found['accuracy']:.4f}" in result.out
    assert "20 images" in result.out
    assert (data / "c.png").exists()
    for option in (("--reliability",), ("--threshold", "0.5"), ("--label", "kind")):
        result = call("evaluate", trained, data / "test", *option)
        assert result.code == 2
        assert f"{option[0]}: does not apply to models of images; leave it out" in result.err


def test_predictions_of_files_and_folders(trained: Path, data: Path, call: Call) -> None:
    one = data / "test" / "along" / "0.png"
    classifier = load(trained)
    assert isinstance(classifier, ImageClassifier)
    expected = classifier.predict(one)
    by_hand = torch.from_numpy(np.asarray(Image.open(one), np.float32))[None, None] / 255 * 2 - 1
    with torch.inference_mode():
        probabilities = classifier.model(by_hand).softmax(-1)[0].tolist()
    assert list((expected.probabilities or {}).values()) == pytest.approx(probabilities, abs=1e-6)
    assert classifier.predict(np.asarray(Image.open(one))).probabilities == expected.probabilities
    result = call("predict", trained, data / "test", "--format", "jsonl")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [Path(row["file"]).parent.name for row in rows] == ["across"] * 10 + ["along"] * 10
    right = [row["label"] == Path(row["file"]).parent.name for row in rows]
    assert sum(right) >= 18
    assert all(sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5) for row in rows)
    table = call("predict", trained, one, "--format", "csv").out.splitlines()
    assert table[0] == "file,label,probability"
    assert table[1].startswith(f"{one},{expected.label},")
    text = call("predict", trained, one, "--format", "text").out
    assert text.splitlines()[:2] == [str(one), expected.label]


def test_what_is_no_image_is_an_error_or_a_row(trained: Path, data: Path, call: Call) -> None:
    bad = data / "bad.png"
    bad.write_bytes(b"nothing")
    one = data / "test" / "along" / "0.png"
    result = call("predict", trained, bad, one)
    assert result.code == 2
    result = call("predict", trained, bad, one, "--on-bad-row", "skip", "--format", "csv")
    lines = result.out.splitlines()
    assert lines[0] == "file,label,probability,error"
    assert "is not a readable image" in lines[1]
    assert lines[2].endswith(",")
    assert call("predict", trained, "no such file").code == 2
    assert call("predict", trained).code == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--echo"], "--echo: applies to texts, not to images"),
        (["--threshold", 0.9], "--threshold: applies to texts"),
        (["--resume"], "--resume: applies to texts"),
        (["-o", "folder/"], "--out: got the folder folder/; predictions for images are written to one file"),
    ],
)
def test_prediction_refuses_options_of_texts(
    trained: Path, data: Path, call: Call, given: list[str], problem: str
) -> None:
    result = call("predict", trained, data / "test", *given)
    assert result.code == 2
    assert problem in result.err


def test_the_card_and_the_description_name_labels_and_accuracy(trained: Path, call: Call) -> None:
    card = (trained / "README.md").read_text("utf-8")
    accuracy = read_metrics(trained)["validation"]["accuracy"]
    assert f"Accuracy {accuracy:.4f}" in card
    assert "| `along` |" in card
    shown = call("show", trained).out
    assert "2: across (36), along (36)" in shown
    assert "8 x 8 pixels, gray; patches of 4 x 4" in shown


def test_filters_are_drawn(trained: Path, data: Path, call: Call) -> None:
    result = call("inspect", trained, "--filters", "-o", data / "filters.png")
    assert "encoder spatial weights of 1 layer" in result.out
    assert (data / "filters.png").exists()


def test_labels_that_the_model_does_not_know_are_errors(trained: Path, data: Path) -> None:
    classifier = ImageClassifier(trained)
    known = classifier.read([str(data / "test")])
    stranger = stripes(data / "other", 3, 2)
    (stranger / "along").rename(stranger / "upwards")
    both = classifier.read([str(data / "test"), str(stranger)])
    before, after = classifier.evaluate(known), classifier.evaluate(both)
    of_strangers = classifier.evaluate(classifier.read([str(stranger)]))
    assert after.accuracy * 26 == pytest.approx(before.accuracy * 20 + of_strangers.accuracy * 6)
    assert {row.label: row.recall for row in after.per_class}["upwards"] == 0


@pytest.mark.parametrize(
    "image", [np.zeros((8, 8)), np.zeros((8, 8, 2), np.uint8), np.zeros((0, 8), np.uint8), np.zeros(8, np.uint8), 3.0]
)
def test_what_is_no_image_is_refused(trained: Path, image: object) -> None:
    with pytest.raises(DataError, match=r"image 1: got .*; allowed: "):
        ImageClassifier(trained).predict(image)


class _Stop(Callback):
    def stepped(self, step: Step) -> None:
        if step.number == 7:
            raise KeyboardInterrupt


def config(data: Path, **augment: object) -> ImageRunConfig:
    options = {"data": {"train": [str(data / "train")]}, "train": {"epochs": 3, "checkpoint_seconds": 1e-9}}
    options["augment"] = augment
    return resolve(options, spec=IMAGE_RUNS, overrides=QUICK).config


def test_a_resumed_run_is_the_uninterrupted_one(data: Path, tmp_path: Path) -> None:
    made = config(data, mixup=0.8, cutmix=1.0, rand_augment=1, flip=0.5)
    whole = fit_images(made, folder=tmp_path / "whole")
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_images(made, folder=tmp_path / "parts", callback=_Stop())
    parts = fit_images(made, folder=tmp_path / "parts", resume=True)
    assert whole is not None
    assert parts is not None
    assert whole.history == parts.history
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_targets_of_mixed_images_are_mixed_and_smoothed(data: Path) -> None:
    images = read_labeled([str(data / "train")], ImageShape(size=8, channels=1))
    task = Classification(LabelSet.from_labels(images.labels, "single"), LossConfig(label_smoothing=0.2))
    targets = task.targets(images.labels)
    given = {"objective": task, "train": images, "targets": targets, "validation": images, "num_patches": 4}
    given |= {"validation_task": task, "validation_targets": targets}
    made = ImageData(augment=ImageAugmentationConfig(shift=0.0, mixup=1.0), **given)
    indices, whole = np.arange(0, 80, 5), np.arange(16)
    batch, soft, _ = made.batch(indices, whole, seed=0, step=3)
    plain, hard, _ = ImageData(augment=ImageAugmentationConfig(shift=0.0), **given).batch(
        indices, whole, seed=0, step=3
    )
    assert torch.equal(hard, torch.from_numpy(targets[indices]))
    # The fraction of each image that is its own, from the pixels; the same for all.
    fractions = {round((float(row[hard[i]]) - 0.1) / 0.8, 4) for i, row in enumerate(soft) if row.max() < 0.899}
    (fraction,) = fractions
    partners = [
        next(
            j for j in range(16) if torch.allclose(mixed, fraction * own + (1 - fraction) * plain.images[j], atol=1e-3)
        )
        for mixed, own in zip(batch.images, plain.images, strict=True)
    ]
    both = fraction * F.one_hot(hard, 2) + (1 - fraction) * F.one_hot(hard[partners], 2)
    torch.testing.assert_close(soft, 0.8 * both + 0.1, rtol=0, atol=1e-3)
    # Two processes make the batch of one.
    halves = [made.batch(indices, part, seed=0, step=3) for part in (whole[::2], whole[1::2])]
    for part, (images_of, targets_of, _) in zip((whole[::2], whole[1::2]), halves, strict=True):
        torch.testing.assert_close(images_of.images, batch.images[part])
        torch.testing.assert_close(targets_of, soft[part])


def test_equal_images_stay_on_one_side_of_the_split(data: Path) -> None:
    images = read_labeled([str(data / "train"), str(data / "train")], ImageShape(size=8, channels=1))
    train, validation = split_images(images, fraction=0.2, seed=1)
    assert len(train) + len(validation) == 160
    assert not set(train.hashes()) & set(validation.hashes())
    counts = [validation.labels.count(label) for label in ("across", "along")]
    assert counts == [16, 16]
    with pytest.raises(DataError, match="2 images of 2 labels are too few"):
        split_images(images.subset(np.array([0, 79])), fraction=0.2, seed=1)


def test_the_size_follows_the_images_unless_it_is_given(data: Path, tmp_path: Path) -> None:
    assert (config(data).model.image_size, config(data).model.channels) == (8, 1)
    options = {"data": {"train": [str(data / "train")]}, "model": "vit-images"}
    found = resolve(options, spec=IMAGE_RUNS, overrides=["model.image_size=16", "model.channels=3"]).config
    assert (found.model.image_size, found.model.channels, found.model.positions) == (16, 3, "learned")
    toml = tmp_path / "run.toml"
    toml.write_text('[data]\ntrain = ["x"]\n[model]\npreset = "mixer-images"\npatch_size = 2\n')
    found = resolve({"data": {"train": [str(data / "train")]}}, spec=IMAGE_RUNS, toml=str(toml)).config
    assert (found.model.image_size, found.model.patch_size, found.model.layers[0].mixers[0].type) == (8, 2, "token_mlp")
    options["model"] = "resmlp-s12"  # a paper's model keeps its size
    found = resolve(options, spec=IMAGE_RUNS).config
    assert (found.model.image_size, found.model.patch_size, found.model.channels) == (224, 16, 1)
    options["model"] = str(tmp_path / "own.toml")
    (tmp_path / "own.toml").write_text('preset = "vit-images"\nimage_size = 12\n')
    found = resolve(options, spec=IMAGE_RUNS).config
    assert (found.model.image_size, found.model.positions) == (12, "learned")
    with pytest.raises(ConfigError, match="did you mean 'gmlp-images'"):
        resolve({"model": "gmlp-image"}, spec=IMAGE_RUNS)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--text", "x"), "--text: applies to texts, not to images"),
        (("--refit",), "--refit: applies to texts"),
        (("--set", "train.token_dropout=0.1"), "token_dropout = 0.1 applies to texts only"),
    ],
)
def test_options_of_texts_are_refused(
    data: Path, tmp_path: Path, given: tuple[str, ...], problem: str, call: Call
) -> None:
    result = call("train", data / "train", *given, "-o", tmp_path / "run")
    assert result.code != 0
    assert problem in result.err
    assert not (tmp_path / "run").exists()


def test_labels_must_be_several(tmp_path: Path) -> None:
    lonely = tmp_path / "lonely"
    for number in range(6):
        path = lonely / "along" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number * 9, np.uint8)).save(path)
    options = {"data": {"train": [str(lonely)]}}
    with pytest.raises(DataError, match="every image has the same label, 'along'"):
        fit_images(resolve(options, spec=IMAGE_RUNS, overrides=QUICK).config, folder=tmp_path / "run")
