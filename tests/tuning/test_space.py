"""Spaces: what files may say, what a configuration allows, and what fits the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mixling import ConfigError, RunConfig, model_config
from mixling.config import dotted, nested
from mixling.tuning import Dimension, read_space
from mixling.tuning.space import check_space, default_space
from mixling.tuning.tune import configured

BASE = RunConfig(model=model_config("mixling-small"))


def space_of(tmp_path: Path, text: str) -> Any:
    (tmp_path / "space.toml").write_text(text)
    return read_space(str(tmp_path / "space.toml"))


def test_keys_are_dotted_or_in_tables(tmp_path: Path) -> None:
    found = space_of(
        tmp_path, 'train.batch_size = {choices = [8, 16]}\n[train.optim]\nlr = {low = 1e-4, high = 0.01, log = true}\n'
        '"weight_decay" = {low = 0, high = 1}\n',
    )  # fmt: skip
    assert found == {
        "train.batch_size": Dimension(choices=(8, 16)),
        "train.optim.lr": Dimension(low=1e-4, high=0.01, log=True),
        "train.optim.weight_decay": Dimension(low=0, high=1),
    }
    assert [item.whole for item in found.values()] == [False, False, True]
    assert dotted(nested({"a.b": 1, "a.c": 2, "d": 3})) == {"a.b": 1, "a.c": 2, "d": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no keys; write for example"),
        ("train.epochs = 3", "train.epochs: got 3; allowed: {low"),
        ("train.epochs = {low = 3}", "neither {low"),
        ("train.epochs = {low = 3, high = 2}", "low = 3 is more than high = 2"),
        ("train.optim.lr = {low = 0.0, high = 1.0, log = true}", "no logarithm"),
        ("train.optim.lr = {low = 0.1, hihg = 1.0}", "'hihg'"),
        ("train.batch_size = {choices = [1], log = true}", "log applies to ranges"),
        ("train.epochs = {", "is not TOML"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_allowed(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_of(tmp_path, text)
    assert words in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "space.toml"))


def test_a_key_or_value_that_the_configuration_does_not_allow_is_reported() -> None:
    def configure(params: Mapping[str, Any]) -> RunConfig:
        return configured(BASE, params)

    with pytest.raises(ConfigError, match=r"space.toml: train.optim.lrr = 1.0: .*did you mean 'train.optim.lr'"):
        check_space({"train.optim.lrr": Dimension(low=1.0, high=2.0)}, configure, where="space.toml")
    with pytest.raises(ConfigError, match=r"train.token_dropout = 2.0: .*; allowed: number >= 0 and < 1"):
        check_space({"train.token_dropout": Dimension(low=0.0, high=2.0)}, configure, where="space.toml")
    check_space({"model.layers.0.dropout": Dimension(low=0.0, high=0.5)}, configure, where="space.toml")
    changed = configured(BASE, {"model.layers.0.dropout": 0.5, "train.optim.lr": 0.5})
    assert (changed.model.layers[0].dropout, changed.train.optim.lr) == (0.5, 0.5)


@pytest.mark.parametrize("model", ["mixling-small", "mixling-mixer", "pnlp-mixer-base", "hypermixer", "gmlp-tiny"])
@pytest.mark.parametrize("examples", [30, 1_000, 60_000])
def test_the_default_space_has_eight_keys_that_every_model_allows(model: str, examples: int) -> None:
    config = RunConfig(model=model_config(model))
    space = default_space(config, examples=examples, labels=7)
    assert len(space) == 8
    check_space(space, lambda params: configured(config, params), where="default")
    batches = space["train.batch_size"].choices
    assert batches is not None
    assert max(batches) <= max(examples, 16)


def test_the_default_space_fits_the_size_of_the_data() -> None:
    few, many = (default_space(BASE, examples=examples, labels=None) for examples in (500, 100_000))
    assert few["train.batch_size"].choices == (16, 32)
    assert many["train.batch_size"].choices == (32, 64, 128)
    large = default_space(BASE.with_changes({"train": {"batch_size": 256}}, where="test"), examples=13_000, labels=7)
    assert large["train.batch_size"].choices == (128, 256, 512)
    assert (few["model.dim"].choices, many["model.dim"].choices) == ((32, 64), (32, 64, 128))
    assert (few["train.epochs"].low, many["train.epochs"].high) == (20, 6)
