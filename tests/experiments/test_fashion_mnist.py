"""The experiment on a few images in IDX files, as it is called."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mixling.research.cost.flops import count_images
from mixling.research.vision import IMAGE_PRESETS, ImageModelConfig


def write_idx(folder: Path, part: str, count: int) -> None:
    """Images of 8 x 8 whose brightness is that of their label."""
    labels = np.arange(count, dtype=np.uint8) % 2
    pixels = np.random.default_rng(count).integers(0, 40, (count, 8, 8)) + 180 * labels[:, None, None]
    header = struct.pack(">4B3I", 0, 0, 8, 3, count, 8, 8)
    (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + pixels.astype(np.uint8).tobytes()))
    content = struct.pack(">4BI", 0, 0, 8, 1, count) + labels.tobytes()
    (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))


def test_a_small_run_is_written_and_not_repeated(
    load_script: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = load_script("experiments/fashion_mnist.py")
    write_idx(tmp_path, "train", 60)
    write_idx(tmp_path, "t10k", 20)
    out = tmp_path / "found.json"
    command = ["--data", tmp_path, "--runs", tmp_path / "runs", "--out", out, "--epochs", 1]

    def parse(layers: int) -> ImageModelConfig:
        config = IMAGE_PRESETS["mixer-images"].config
        return config.model_copy(update={"num_layers": layers, "image_size": 8, "patch_size": 4})

    def run(*models: str) -> list[dict]:
        monkeypatch.setattr("sys.argv", ["x", *map(str, command), "--models", *models])
        experiment.main()
        rows: list[dict] = json.loads(out.read_text())["models"]
        return rows

    (row,) = run("mixer-images")
    assert (row["model"], row["epochs"], row["seed"]) == ("mixer-images", 1, 0)
    assert row["test"] == np.mean(list(row["test_of_label"].values()))
    assert row["test_interval"][0] <= row["test"] <= row["test_interval"][1]
    assert 0 < row["cpu_minutes"] < 10
    found = json.loads(out.read_text())
    assert found["linear"] == {"images": 60, "test": 1.0}
    assert "mixer-images: " in capsys.readouterr().out
    smaller, again = run("mixer-images", "--layers", "1", "4")
    assert again == row
    assert (smaller["model"], smaller["epochs"]) == ("mixer-images", 1)
    bodies = {layers: count_images(parse(layers)).body for layers in (1, 4)}
    assert row["parameters"] - smaller["parameters"] == bodies[4] - bodies[1] > 0
    other = row | {"seed": 7}  # of an earlier command
    out.write_text(json.dumps(found | {"models": [other]}))
    monkeypatch.setattr(experiment, "fit_images", None)
    assert run("mixer-images") == [other, row]


def test_the_package_with_the_images_is_named(
    load_script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_script("experiments/fashion_mnist.py")
    monkeypatch.setattr("sys.argv", ["x", "--runs", str(tmp_path), "--data", str(tmp_path / "fashion-mnist")])
    with pytest.raises(SystemExit, match="apt-get install dataset-fashion-mnist"):
        experiment.main()
