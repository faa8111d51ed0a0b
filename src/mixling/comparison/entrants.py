"""Which models of ours take part: the library's own choice, models by name, and a Transformer of the same size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mixling.config import merge, parse
from mixling.data.dataset import Dataset
from mixling.errors import ConfigError
from mixling.mixers.attention import AttentionConfig
from mixling.models.block import BlockConfig, FeedForwardConfig
from mixling.models.encoder import Encoder
from mixling.models.model import ModelConfig, count_parameters
from mixling.models.presets import PRESETS, model_config, preset_values
from mixling.runs import RunConfig, choose_model
from mixling.training.start import check_projection

ALWAYS = ("pnlp-mixer-x-small",)  # beside the library's own choice
OWN, MATCHED = "mixling", "transformer-matched"
# Attention is known to want a lower rate than mixers: the first is the recipe's, times these, and dev chooses.
MATCHED_RATES = (1.0, 0.3)


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A model before training.

    Attributes:
        about: what it is, for the legend of the table.
        rates: learning rates, as multiples of the configuration's, of which dev chooses with the first seed.
    """

    name: str
    about: str
    config: RunConfig
    rates: tuple[float, ...] = (1.0,)

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return re.sub(r"[^\w.-]+", "-", self.name)


def own_choice(config: RunConfig, train: Dataset, dev: Dataset) -> RunConfig:
    """What `mixling train` trains on these rows where no model is named; all else is as `config` says."""
    choice = choose_model(train, config)
    model = model_config(choice.name, choice.changes)
    recipe = {"start": config.start.to_dict()} if config.start.kind != "random" else preset_values(choice.name)
    return parse(RunConfig, merge({**config.to_dict(), "model": model.to_dict()}, recipe), where=choice.name)


def entrants(config: RunConfig, chosen: RunConfig, names: Sequence[str]) -> list[Entrant]:
    """The library's choice, ALWAYS, the named models, and the Transformer; one that stands here already is left out.

    Args:
        config: of all but the model, for those that are named.
        chosen: what `own_choice` gave.
        names: of presets, or TOML files.

    Raises:
        ConfigError: an unknown name or file; two models of one name; a start from word vectors where a model has no
            hashed features.
    """
    like = [
        name for name in PRESETS if model_config(name, {"text": {"max_len": chosen.model.text.max_len}}) == chosen.model
    ]
    about = "what `mixling train` chooses" + (f": {like[0]}" if like else "")
    out = [Entrant(name=OWN, about=about, config=chosen)]
    for name in dict.fromkeys((*ALWAYS, *names)):
        named = config.model_copy(update={"model": model_config(name)})
        source = PRESETS[name].source if name in PRESETS else "read from its file"
        if named not in [entrant.config for entrant in out]:
            out.append(Entrant(name=name, about=source, config=named))
    out.append(_matched(chosen))
    folders = [entrant.folder for entrant in out]
    for entrant in out:
        if folders.count(entrant.folder) > 1:
            raise ConfigError(f"--model: two models are called {entrant.folder!r}; give one of the files another name")
        if entrant.config.start.vectors is not None or entrant.config.start.texts:
            try:
                check_projection(entrant.config.model.text)
            except ConfigError as error:
                raise ConfigError(
                    f"--model {entrant.name}: {error}; leave it out, or --start and --unlabelled"
                ) from None
    return out


def _matched(chosen: RunConfig) -> Entrant:
    model = matched_transformer(chosen.model)
    layer = model.layers[0]
    assert layer.feed_forward is not None
    about = (
        f"front end, vocabulary, width and recipe of {OWN}; softmax attention in {len(model.blocks)} layer(s), "
        f"feed-forward {layer.feed_forward.ffn_dim}; {len(MATCHED_RATES)} learning rates tried on dev"
    )
    config = chosen.model_copy(update={"model": model})
    return Entrant(name=MATCHED, about=about, config=config, rates=MATCHED_RATES)


def matched_transformer(model: ModelConfig) -> ModelConfig:
    """A pre-norm Transformer whose number of parameters is as near as can be to the model's, with its width.

    Text, projection and head are the model's; positions are sinusoidal where it has none. There are as many layers as
    the model has, or fewer where attention alone would take their parameters; the feed-forward takes what is left.
    """
    budget = _body_parameters(model)
    heads = next(number for number in (4, 2, 1) if model.dim % number == 0)

    def build(num_layers: int, ffn_dim: int) -> ModelConfig:
        feed_forward = FeedForwardConfig(ffn_dim=ffn_dim)
        layer = BlockConfig(mixers=(AttentionConfig(num_heads=heads),), feed_forward=feed_forward)
        positions = model.frontend.positions if model.frontend.positions != "none" else "sinusoidal"
        frontend = model.frontend.model_copy(update={"positions": positions})
        body = {"layers": (layer,), "num_layers": num_layers, "final_norm": True, "frontend": frontend}
        return model.model_copy(update=body)

    for num_layers in range(max(len(model.blocks), 1), 0, -1):
        least = _body_parameters(build(num_layers, 1))
        each = _body_parameters(build(num_layers, 2)) - least  # parameters of one more unit of width
        ffn_dim = 1 + round((budget - least) / each)
        if ffn_dim >= model.dim or num_layers == 1:
            break
    # Where attention takes all, the Transformer is larger than the model rather than without a feed-forward.
    return build(num_layers, max(ffn_dim, model.dim // 4 if model.blocks else 1))


def _body_parameters(model: ModelConfig) -> int:
    with torch.device("meta"):
        body = Encoder(model.blocks, dim=model.dim, max_len=model.text.max_len, final_norm=model.final_norm)
    return count_parameters(body)
