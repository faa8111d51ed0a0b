"""Training recipes: the hyper-parameters that papers print, by name.

    python experiments/recipes.py gmlp-table9 rows.csv --model gmlp-18 -o runs/topics

A recipe has every value that its table states. What a table leaves open (no schedule, no regularization) is set to the
plainest choice, so that a run does not silently have mixling's own regularization; each recipe says so in `open`.
Values that the paper searches over are in `grid`, the recipe itself has one of them. --set overrides a recipe's values.

HyperMixer has no recipe: its hyper-parameters are in an appendix that was not available.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixling import ConfigError, PretrainConfig, RunConfig, fit, pretrain, read_data
from mixling.config import merge, read_overrides
from mixling.errors import near_miss
from mixling.networks import WORDS_AS_THEY_ARE
from mixling.research.pretraining import MASKED_LM
from mixling.research.seq2seq import PAIRS, PairRunConfig, fit_pairs
from mixling.research.vision import IMAGE_RUNS, ImageRunConfig, fit_images
from mixling.runs.resolve import LABELS, Spec, resolve

SPECS: dict[str, Spec[Any]] = {
    "train": LABELS,
    "pretrain": MASKED_LM,
    "text2text": PAIRS,
    "image_classification": IMAGE_RUNS,
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Published hyper-parameters of a training.

    Args:
        source: paper and table or section.
        kind: the kind of run, a key of `SPECS`.
        train: values of the table `train` of a configuration.
        model: values of the table `model`.
        augment: values of the table `augment`, of images.
        dropout: rate on hidden units and attention probabilities; None: as the model has it.
        grid: for keys of the configuration, the values that the paper chooses from on validation.
        open: values missing from the paper, with their substitutes.
    """

    source: str
    kind: str
    train: Mapping[str, Any]
    model: Mapping[str, Any] = field(default_factory=dict)
    augment: Mapping[str, Any] = field(default_factory=dict)
    dropout: float | None = None
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    open: str = ""

    def notes(self) -> list[str]:
        """Return the open choices."""
        grids = [
            f"the paper chooses {key} of {', '.join(f'{value:g}' for value in values)} on validation"
            for key, values in self.grid.items()
        ]
        return [*grids, *([f"not in the paper: {self.open}"] if self.open else [])]


_BERT_ADAMW = {
    "name": "adamw",
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-6,
    "weight_decay": 0.01,
    "clip_norm": None,
    "schedule": "linear",
    "embedding_lr": 1.0,
}
_ADAFACTOR = {
    "name": "adafactor",
    "weight_decay": 0.0,
    "clip_norm": None,
    "schedule": "constant",
    "warmup": 0.0,
}
_UNREGULARIZED = {"token_dropout": 0.0, "loss": {"label_smoothing": 0.0, "class_weights": "none"}}


def _gmlp_pretraining(source: str, *, lr: float, batch: int, steps: int, max_len: int) -> Recipe:
    return Recipe(
        source=source,
        kind="pretrain",
        train={
            **_UNREGULARIZED,
            "steps": steps,
            "batch_size": batch,
            "optim": {**_BERT_ADAMW, "lr": lr, "warmup": 10_000 / steps},
        },
        model={"text": {"lowercase": False, "max_len": max_len}},
        dropout=0.0,
    )


def _remixer(source: str, steps: int, left_open: str = "") -> Recipe:
    return Recipe(
        source=source,
        kind="text2text",
        train={
            **_UNREGULARIZED,
            "precision": "bfloat16",
            "batch_size": 128,
            "steps": steps,
            "optim": {**_ADAFACTOR, "lr": 1e-3},
        },
        dropout=0.1,
        grid={"model.mixing_dropout": (0.0, 0.1, 0.2)},
        open=f"{left_open}the vocabulary is T5's 32,000 (tokenizer.vocabulary)",
    )


def _pnlp_mixer(source: str, epochs: int, max_len: int, left_open: str = "") -> Recipe:
    return Recipe(
        source=source,
        kind="train",
        train={
            **_UNREGULARIZED,
            **WORDS_AS_THEY_ARE,
            "epochs": epochs,
            "batch_size": 256,
            "optim": {
                "name": "adamw",
                "lr": 5e-4,
                "embedding_lr": 1.0,
                "weight_decay": 0.0,
                "clip_norm": None,
                "schedule": "constant",
                "warmup": 0.0,
            },
        },
        model={"text": {"lowercase": False, "max_len": max_len}},
        open="optimizer, schedule and regularization: Adam at a constant rate, without regularization; the vocabulary "
        f"is multilingual BERT's cased one (--set model.text.vocabulary=FILE){left_open}",
    )


RECIPES: dict[str, Recipe] = {
    "pnlp-mixer": _pnlp_mixer("pNLP-Mixer, section 5", 80, 64),
    "pnlp-mixer-imdb": _pnlp_mixer("pNLP-Mixer, section 7 (IMDB)", 60, 1024),
    "pnlp-mixer-hyperpartisan": _pnlp_mixer(
        "pNLP-Mixer, section 7 (Hyperpartisan)", 60, 2048, "; the paper has the mean of five seeds (--set train.seed=N)"
    ),
    "gmlp-table7": Recipe(
        source="gMLP, Table 7 (ImageNet)",
        kind="image_classification",
        train={
            "epochs": 300,
            "batch_size": 4096,
            "loss": {"label_smoothing": 0.1, "class_weights": "none"},
            "optim": {
                **_BERT_ADAMW,
                "lr": 1e-3,
                "weight_decay": 0.05,
                "clip_norm": 1.0,
                "schedule": "cosine",
                "warmup": 10_000 / (300 * math.ceil(1_281_167 / 4096)),
            },
        },
        augment={"mixup": 0.8, "cutmix": 1.0, "flip": 0.5, "rand_augment": 2, "magnitude": 9.0},
        open="AutoAugment's learned policy, in whose place RandAugment's operations are drawn at random, and crops of "
        "random size, in whose place images are shifted; stochastic depth is the model's",
    ),
    "gmlp-table8": _gmlp_pretraining(
        "gMLP, Table 8 (ablation studies)", lr=7e-4, batch=2048, steps=125_000, max_len=128
    ),
    "gmlp-table8-results": _gmlp_pretraining(
        "gMLP, Table 8 (final results)", lr=1e-4, batch=256, steps=1_000_000, max_len=512
    ),
    "gmlp-table9": Recipe(
        source="gMLP, Table 9 (GLUE)",
        kind="train",
        train={
            **_UNREGULARIZED,
            **WORDS_AS_THEY_ARE,
            "epochs": 5,
            "batch_size": 32,
            "optim": {**_BERT_ADAMW, "lr": 2e-5, "warmup": 0.1},
        },
        dropout=0.1,
        grid={"train.optim.lr": (1e-5, 2e-5, 3e-5), "train.batch_size": (16, 32)},
    ),
    "gmlp-table9-squad": Recipe(
        source="gMLP, Table 9 (SQuAD)",
        kind="train",
        train={
            **_UNREGULARIZED,
            **WORDS_AS_THEY_ARE,
            "steps": 8_000,
            "batch_size": 32,
            "optim": {**_BERT_ADAMW, "lr": 5e-5, "warmup": 1_000 / 8_000},
        },
        model={"text": {"max_len": 512}},
        dropout=0.1,
    ),
    "t5": Recipe(
        source="T5, section 3.1.3, and T5.1.1",
        kind="text2text",
        train={**_UNREGULARIZED, "batch_size": 128, "optim": {**_ADAFACTOR, "lr": 1e-3}},
        dropout=0.1,
        open="2^18 steps of fine-tuning, which are not set: give --set train.epochs=N or train.steps=N",
    ),
    "t5-pretraining": Recipe(
        source="T5, section 3.1.2, and T5.1.1",
        kind="text2text",
        train={**_UNREGULARIZED, "batch_size": 128, "steps": 2**19, "optim": {**_ADAFACTOR, "lr": 1e-2}},
        dropout=0.0,
        open="the rate 1 / sqrt(max(t, 10^4)) is Adafactor's own from 10,000 steps on, see train.optim",
    ),
    "remixer-pretraining": Recipe(
        source="Remixer, section 3.1.1",
        kind="text2text",
        train={
            **_UNREGULARIZED,
            "precision": "bfloat16",
            "batch_size": 128,
            "steps": 524_000,
            "optim": {**_ADAFACTOR, "lr": 1e-2},
        },
        model={"max_source_len": 512},
        dropout=0.0,
        open="the rate, T5's; the vocabulary is T5's 32,000 (tokenizer.vocabulary)",
    ),
    "remixer-superglue": _remixer("Remixer, section 3.2 (SuperGLUE)", 200_000),
    "remixer-entailment": _remixer("Remixer, section 3.3 (entailment)", 100_000, "the batch size, that of SuperGLUE; "),
    "remixer-cogs": _remixer("Remixer, section 3.4 (COGS)", 50_000),
}


def resolved(
    name: str, options: Mapping[str, Any], overrides: Sequence[str] | Mapping[str, Any] = ()
) -> RunConfig | PretrainConfig | PairRunConfig | ImageRunConfig:
    """Return the configuration of a run with the values of a recipe.

    Args:
        options: as `mixling.runs.resolve.resolve` takes them: the model and the files.
        overrides: KEY=VALUE, or nested values, which override those of the recipe.

    Raises:
        ConfigError: there is no such recipe, or a value is not allowed.
    """
    if name not in RECIPES:
        raise ConfigError(f"recipe: got {name!r}; {near_miss(name, RECIPES)}")
    recipe, spec = RECIPES[name], SPECS[RECIPES[name].kind]
    model = resolve(options, spec=spec).config.model.to_dict()
    values = {"train": recipe.train, "model": model_values(recipe, model)}
    if recipe.augment:
        values["augment"] = recipe.augment
    changes = overrides if isinstance(overrides, Mapping) else read_overrides(overrides)
    return resolve(options, spec=spec, overrides=merge(values, changes)).config


def model_values(recipe: Recipe, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that a recipe makes to a complete configuration of a model.

    Dropout is set where BERT has its two rates: on the token vectors, on each sublayer's output, on the attention
    probabilities and on the head's input. Models that generate text have one key for every layer.
    """
    if recipe.dropout is None:
        return dict(recipe.model)
    if recipe.kind == "text2text":
        return {**recipe.model, "dropout": recipe.dropout}
    layers = {
        str(number): {
            "dropout": recipe.dropout,
            "mixers": {
                str(index): {"dropout": recipe.dropout}
                for index, mixer in enumerate(layer["mixers"])
                if mixer["type"] == "attention"
            },
        }
        for number, layer in enumerate(model["layers"])
    }
    rates = {"embedding": {"dropout": recipe.dropout}, "head": {"dropout": recipe.dropout}, "layers": layers}
    return merge(recipe.model, rates)


def main() -> None:
    """Train with a recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    recipe = RECIPES[arguments.recipe]
    print(f"{recipe.source}{''.join(f'; {note}' for note in recipe.notes())}")
    table = {
        "train": {"data": {"train": arguments.files}},
        "pretrain": {"corpus": {"files": arguments.files}},
        "text2text": {"tasks": [{"train": arguments.files}]},
        "image_classification": {"data": {"train": arguments.files}},
    }[recipe.kind]
    config = resolved(arguments.recipe, {"model": arguments.model, **table}, arguments.overrides)
    if isinstance(config, RunConfig):
        fit(config, *read_data(config, spool_dir=None, log=print), folder=arguments.out)
    elif isinstance(config, PretrainConfig):
        pretrain(config, folder=arguments.out)
    elif isinstance(config, PairRunConfig):
        fit_pairs(config, folder=arguments.out)
    else:
        fit_images(config, folder=arguments.out)


if __name__ == "__main__":
    main()
