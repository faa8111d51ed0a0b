"""Recipes have the values that the papers print, and any other source of values overrides them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mixling import ConfigError, Predictor

ADAMW = {"name": "adamw", "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "schedule": "linear"}
CONSTANT = {"name": "adafactor", "lr": 1e-3, "schedule": "constant", "warmup": 0.0}
# As printed: the source, then values of `train` and of `train.optim`. "Gradient clipping 0" is none.
PRINTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pnlp-mixer": ("pNLP-Mixer, section 5", {"epochs": 80, "batch_size": 256}, {"lr": 5e-4}),
    "pnlp-mixer-imdb": ("pNLP-Mixer, section 7 (IMDB)", {"epochs": 60, "batch_size": 256}, {"lr": 5e-4}),
    "pnlp-mixer-hyperpartisan": (
        "pNLP-Mixer, section 7 (Hyperpartisan)",
        {"epochs": 60, "batch_size": 256},
        {"lr": 5e-4},
    ),
    "gmlp-table7": (
        "gMLP, Table 7 (ImageNet)",
        {"epochs": 300, "batch_size": 4096, "loss": {"label_smoothing": 0.1, "class_weights": "none"}},
        {
            **ADAMW,
            "lr": 1e-3,
            "weight_decay": 0.05,
            "clip_norm": 1.0,
            "schedule": "cosine",
            "warmup": pytest.approx(10_000 / 93_900, rel=1e-3),
        },
    ),
    "gmlp-table8": (
        "gMLP, Table 8 (ablation studies)",
        {"steps": 125_000, "batch_size": 2048},
        {**ADAMW, "lr": 7e-4, "warmup": 10_000 / 125_000, "clip_norm": None},
    ),
    "gmlp-table8-results": (
        "gMLP, Table 8 (final results)",
        {"steps": 1_000_000, "batch_size": 256},
        {**ADAMW, "lr": 1e-4, "warmup": 10_000 / 1_000_000, "clip_norm": None},
    ),
    "gmlp-table9": (
        "gMLP, Table 9 (GLUE)",
        {"epochs": 5, "batch_size": 32},
        {**ADAMW, "lr": 2e-5, "warmup": 0.1, "clip_norm": None},
    ),
    "gmlp-table9-squad": (
        "gMLP, Table 9 (SQuAD)",
        {"steps": 8_000, "batch_size": 32},
        {**ADAMW, "lr": 5e-5, "warmup": 1_000 / 8_000, "clip_norm": None},
    ),
    "t5": ("T5, section 3.1.3, and T5.1.1", {"batch_size": 128}, CONSTANT),
    "t5-pretraining": ("T5, section 3.1.2, and T5.1.1", {"batch_size": 128, "steps": 524_288}, CONSTANT | {"lr": 1e-2}),
    "remixer-pretraining": (
        "Remixer, section 3.1.1",
        {"precision": "bfloat16", "batch_size": 128, "steps": 524_000},
        CONSTANT | {"lr": 1e-2},
    ),
    "remixer-superglue": (
        "Remixer, section 3.2 (SuperGLUE)",
        {"precision": "bfloat16", "batch_size": 128, "steps": 200_000},
        CONSTANT,
    ),
    "remixer-entailment": (
        "Remixer, section 3.3 (entailment)",
        {"precision": "bfloat16", "batch_size": 128, "steps": 100_000},
        CONSTANT,
    ),
    "remixer-cogs": (
        "Remixer, section 3.4 (COGS)",
        {"precision": "bfloat16", "batch_size": 128, "steps": 50_000},
        CONSTANT,
    ),
}


@pytest.fixture(scope="module")
def recipes(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/recipes.py")


@pytest.fixture(scope="module")
def resolved(recipes: ModuleType) -> Callable[..., Any]:
    """The configuration with a recipe and options."""

    def configuration(name: str, options: dict[str, Any] | None = None, overrides: Any = ()) -> Any:
        task = {"task": "classification"} if recipes.RECIPES[name].kind == "train" else {}
        return recipes.resolved(name, {**task, **(options or {})}, overrides)

    return configuration


@pytest.mark.parametrize("name", PRINTED)
def test_values_are_those_of_the_paper(recipes: ModuleType, resolved: Callable[..., Any], name: str) -> None:
    source, train, optim = PRINTED[name]
    config = resolved(name).train.to_dict()
    assert recipes.RECIPES[name].source == source
    assert {key: config[key] for key in train} == train
    assert {key: config["optim"][key] for key in optim} == optim
    # No paper on texts has these; mixling's defaults for models that predict labels do.
    assert config["token_dropout"] == 0
    assert config["loss"]["label_smoothing"] == train.get("loss", {}).get("label_smoothing", 0)
    assert not any(
        (config["augmentation"] or {"pseudo_words": 0, "typos": 0})[key] for key in ("pseudo_words", "typos")
    )


def test_images_are_mixed_as_in_table_7(resolved: Callable[..., Any]) -> None:
    augment = resolved("gmlp-table7").augment
    assert (augment.mixup, augment.cutmix, augment.mixing) == (0.8, 1.0, 1.0)  # one or the other, with equal chances
    assert resolved("gmlp-table7", overrides={"augment": {"mixup": 0.1}}).augment.mixup == 0.1


def test_every_recipe_is_checked(recipes: ModuleType) -> None:
    assert set(PRINTED) == set(recipes.RECIPES)


def test_text_is_cased_and_as_long_as_in_the_paper(resolved: Callable[..., Any]) -> None:
    lengths = {
        "gmlp-table8": 128, "gmlp-table8-results": 512, "gmlp-table9-squad": 512,
        "pnlp-mixer": 64, "pnlp-mixer-imdb": 1024, "pnlp-mixer-hyperpartisan": 2048,
    }  # fmt: skip
    for name, length in lengths.items():
        text = resolved(name).model.text
        assert text.max_len == length
        assert text.lowercase == (name == "gmlp-table9-squad")  # what is fine-tuned has the text of its pretraining


def test_dropout_of_table_9_is_on_hidden_units_and_attention(resolved: Callable[..., Any]) -> None:
    model = resolved("gmlp-table9", {"model": "bert-base"}).model
    (layer,) = model.layers
    assert (model.embedding.dropout, layer.dropout, layer.mixers[0].dropout, model.head.dropout) == (0.1,) * 4
    assert layer.feed_forward.dropout == 0
    assert resolved("gmlp-table8", {"model": "gmlp-18"}).model.layers[0].dropout == 0


def test_dropout_of_text_to_text_is_in_every_layer(resolved: Callable[..., Any]) -> None:
    model = resolved("t5", {"model": "t5-2m"}).model
    assert model.dropout == model.encoder.layers[0].feed_forward.dropout == model.decoder.layers[0].dropout == 0.1


def test_overrides_have_priority_over_a_recipe(resolved: Callable[..., Any]) -> None:
    config = resolved("gmlp-table9", {"model": "gmlp-18"}, ("train.epochs=3", "model.layers.0.dropout=0.2"))
    assert (config.train.epochs, config.train.batch_size) == (3, 32)
    assert (config.model.layers[0].dropout, config.model.embedding.dropout) == (0.2, 0.1)


def test_an_unknown_recipe_is_reported(recipes: ModuleType) -> None:
    with pytest.raises(ConfigError, match=r"recipe: got 'gmlp-table6'.*did you mean 'gmlp-table"):
        recipes.resolved("gmlp-table6", {"task": "classification"})


def test_a_model_is_trained_with_a_recipe(
    recipes: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{word} {number},{label}" for number in range(20) for word, label in (("fine", "good"), ("dull", "bad"))]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    command = [
        "recipes.py",
        "gmlp-table9",
        str(tmp_path / "a.csv"),
        "--model",
        "gmlp-tiny",
        "-o",
        str(tmp_path / "run"),
    ]
    sizes = ("train.epochs=1", "model.dim=8", "model.num_layers=1", "ngrams.use=never")
    monkeypatch.setattr(sys, "argv", [*command, *(word for size in sizes for word in ("--set", size))])
    recipes.main()
    assert capsys.readouterr().out.startswith("gMLP, Table 9 (GLUE); the paper chooses train.optim.lr of 1e-05, 2e-05")
    assert Predictor(tmp_path / "run").predict("fine").label in ("good", "bad")
