"""Recipes have the values that the papers print, and any other source of values overrides them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mixling import ConfigError
from mixling.cli.completion import RECIPE_NAMES
from mixling.research.pretraining import MASKED_LM
from mixling.research.seq2seq import PAIRS
from mixling.research.vision import IMAGE_RUNS
from mixling.runs.resolve import LABELS, RECIPES, Spec, resolve

SPECS: dict[str, Spec[Any]] = {
    "train": LABELS,
    "pretrain": MASKED_LM,
    "text2text": PAIRS,
    "image_classification": IMAGE_RUNS,
}
ADAMW = {"name": "adamw", "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "schedule": "linear"}
CONSTANT = {"name": "adafactor", "lr": 1e-3, "schedule": "constant", "warmup": 0.0}
# As printed: the source, then values of `train` and of `train.optim`. "Gradient clipping 0" is none.
PRINTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pnlp-mixer": ("pNLP-Mixer, section 4.1", {"epochs": 80, "batch_size": 256}, {"lr": 5e-4}),
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
    "t5": ("T5, section 3.1.3, and T5.1.1", {"batch_size": 128}, CONSTANT),
    "t5-pretraining": ("T5, section 3.1.2, and T5.1.1", {"batch_size": 128, "steps": 524_288}, CONSTANT | {"lr": 1e-2}),
    "remixer": ("Remixer, section 3", {"precision": "bfloat16"}, CONSTANT),
}


def resolved(name: str, options: dict[str, Any] | None = None, **more: Any) -> Any:
    kind = RECIPES[name].kinds[0]
    task = {"task": "classification"} if kind == "train" else {}
    return resolve({**task, "recipe": name, **(options or {})}, spec=SPECS[kind], **more).config


@pytest.mark.parametrize("name", RECIPES)
def test_values_are_those_of_the_paper(name: str) -> None:
    source, train, optim = PRINTED[name]
    config = resolved(name).train.to_dict()
    assert RECIPES[name].source == source
    assert {key: config[key] for key in train} == train
    assert {key: config["optim"][key] for key in optim} == optim
    # No paper on texts has these; mixling's defaults for models that predict labels do.
    assert config["token_dropout"] == 0
    assert config["loss"]["label_smoothing"] == train.get("loss", {}).get("label_smoothing", 0)
    assert not any(
        (config["augmentation"] or {"pseudo_words": 0, "typos": 0})[key] for key in ("pseudo_words", "typos")
    )


def test_images_are_mixed_as_in_table_7() -> None:
    augment = resolved("gmlp-table7").augment
    assert (augment.mixup, augment.cutmix, augment.mixing) == (0.8, 1.0, 1.0)  # one or the other, with equal chances
    assert resolved("gmlp-table7", {"augment": {"mixup": 0.1}}).augment.mixup == 0.1


def test_every_recipe_is_checked_and_completed() -> None:
    assert set(PRINTED) == set(RECIPES) == set(RECIPE_NAMES)


def test_text_is_cased_and_as_long_as_in_the_paper() -> None:
    for name, length in (("gmlp-table8", 128), ("gmlp-table8-results", 512), ("pnlp-mixer", 64)):
        text = resolved(name).model.text
        assert (text.lowercase, text.max_len) == (False, length)


def test_dropout_of_table_9_is_on_hidden_units_and_attention() -> None:
    model = resolved("gmlp-table9", {"model": "bert-base"}).model
    (layer,) = model.layers
    assert (model.embedding.dropout, layer.dropout, layer.mixers[0].dropout, model.head.dropout) == (0.1,) * 4
    assert layer.feed_forward.dropout == 0
    assert resolved("gmlp-table8", {"model": "gmlp-18"}).model.layers[0].dropout == 0


def test_dropout_of_text_to_text_is_in_every_layer() -> None:
    model = resolved("t5", {"model": "t5-2m"}).model
    assert model.dropout == model.encoder.layers[0].feed_forward.dropout == model.decoder.layers[0].dropout == 0.1


def test_options_and_files_override_a_recipe(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('recipe = "gmlp-table9"\n[model]\npreset = "gmlp-18"\n[model.head]\ndropout = 0.3\n')
    options = {"task": "classification", "train": {"epochs": 3}}
    config = resolve(options, spec=LABELS, toml=str(toml), overrides=("model.layers.0.dropout=0.2",)).config
    assert (config.train.epochs, config.train.batch_size) == (3, 32)
    assert config.model.head.dropout == 0.3
    assert config.model.layers[0].dropout == 0.2
    assert config.model.embedding.dropout == 0.1


def test_the_user_reads_the_source_and_what_is_left_to_choose() -> None:
    options = {"task": "classification", "recipe": "gmlp-table9"}
    (remark,) = resolve(options, spec=LABELS).remarks
    assert remark == (
        "recipe: gmlp-table9 (gMLP, Table 9 (GLUE); the paper chooses train.optim.lr of 1e-05, 2e-05, 3e-05; "
        "train.batch_size of 16, 32 on validation)"
    )


def test_unknown_recipes_and_those_of_other_runs() -> None:
    with pytest.raises(ConfigError, match=r"recipe: got 'gmlp-table6'.*did you mean 'gmlp-table"):
        resolve({"task": "classification", "recipe": "gmlp-table6"}, spec=LABELS)
    with pytest.raises(ConfigError, match="is for masked language modeling, this is a model that predicts labels"):
        resolve({"task": "classification", "recipe": "gmlp-table8"}, spec=LABELS)
