"""A model file of a bounded size, with what the bound costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import Dataset, Example, RunConfig, fit, model_config
from mixling.cli.training_options import read_size
from mixling.config import parse
from mixling.errors import ConfigError
from mixling.ngrams import budget
from mixling.training import NgramConfig


def rows(number: int, seed: int) -> Dataset:
    """Texts of eight words that hardly two texts share, and one that decides."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnop"))
    texts = (" ".join("".join(word) for word in rng.choice(letters, (8, 6))) for _ in range(number))
    return Dataset.from_examples(
        Example(f"{text} {('left', 'right')[i % 2]}", "ab"[i % 2], "rows", i) for i, text in enumerate(texts)
    )


def config(most: int) -> RunConfig:
    changes = {"text": {"max_len": 16}, "num_layers": 1}
    whole: dict[str, Any] = {"task": "classification", "model": model_config("mixling-tiny", changes).to_dict()}
    ngrams = {"use": "always", "max_size": most, "cross_fit": False, "strength": 1.0}
    return parse(RunConfig, {**whole, "train": {"epochs": 1}, "ngrams": ngrams}, where="test")


def test_the_n_grams_have_what_the_network_leaves() -> None:
    assert budget(NgramConfig(use="auto", max_size=2_000_000), 800_000, 3) == 1_194_000
    assert budget(NgramConfig(use="auto", max_size=2_000_000), 100_000, 10_000) == 1_894_000
    with pytest.raises(ConfigError, match="max_bytes and max_size both say"):
        parse(NgramConfig, {"max_bytes": 10_000, "max_size": 500_000}, where="test")


@pytest.mark.slow
def test_a_file_is_as_small_as_asked_and_says_what_that_costs(tmp_path: Path) -> None:
    sizes = []
    for most in (210_000, 250_000):
        lines: list[str] = []
        run = fit(config(most), rows(700, 0), rows(200, 1), folder=tmp_path / str(most), log=lines.append)
        assert run is not None
        sizes.append((tmp_path / str(most) / "model.onnx").stat().st_size)
        assert 0.8 * most < sizes[-1] <= most
        assert run.report["ngrams"]["loss_unbounded"] >= 0
        assert any("n-gram branch: room for" in line and ", with all " in line for line in lines)
    assert sizes[0] < sizes[1]


def test_a_size_that_the_network_alone_exceeds_is_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--max-size: got 100,000 bytes; this model's file has at least \d+,\d+;"):
        fit(config(100_000), rows(40, 0), rows(20, 1), folder=tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("2MB", 2_000_000), ("500KB", 500_000), ("1.5 mb", 1_500_000), ("100kb", 100_000)]
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["2", "2GB", "-1MB", "MB", "99KB", "", "1e3KB", "nanMB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--max-size: got "):
        read_size(text)
