"""Our models in a comparison: the default, named models, and, if wanted, a Transformer of the same size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mixling.errors import ConfigError
from mixling.networks.blocks import BlockConfig, FeedForwardConfig
from mixling.networks.config import ModelConfig
from mixling.networks.presets import PRESETS, model_config
from mixling.runs.resolve.config import RunConfig
from mixling.training.initialization import check_projection

OWN = "mixling"
MATCHED = "transformer-matched"
# Attention is known to want a lower rate than mixers: the default times these; validation chooses.
MATCHED_RATES = (1.0, 0.3)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model before training.

    Attributes:
        about: its description in the legend of the table.
        rates: learning rates as multiples of the configuration's; validation chooses one with the first seed.
    """

    name: str
    about: str
    config: RunConfig
    rates: tuple[float, ...] = (1.0,)

    @property
    def folder(self) -> str:
        """The name of its run folder."""
        return re.sub(r"[^\w.-]+", "-", self.name)


def candidates(config: RunConfig, chosen: RunConfig, names: Sequence[str], *, matched: bool = False) -> list[Candidate]:
    """Return the default, the named models, and the Transformer, without duplicates.

    Args:
        config: the configuration of named models, except the model itself.
        chosen: the configuration `mixling train` would choose for these rows.
        names: presets, or TOML files.
        matched: whether there is a Transformer.

    Raises:
        ConfigError: a name or file is unknown, two models have the same name, or initialization from word vectors is
            configured for a model without hashed features.
    """
    like = [
        name for name in PRESETS if model_config(name, {"text": {"max_len": chosen.model.text.max_len}}) == chosen.model
    ]
    about = "what `mixling train` chooses" + (f": {like[0]}" if like else "")
    out = [Candidate(name=OWN, about=about, config=chosen)]
    for name in dict.fromkeys(names):
        named = config.model_copy(update={"model": model_config(name)})
        source = PRESETS[name].source if name in PRESETS else "read from its file"
        if named not in [candidate.config for candidate in out]:
            out.append(Candidate(name=name, about=source, config=named))
    if matched:
        out.append(_matched(chosen))
    folders = [candidate.folder for candidate in out]
    for candidate in out:
        if folders.count(candidate.folder) > 1:
            raise ConfigError(
                f"--model: two models are called {candidate.folder!r}; give one of the files another name"
            )
        if candidate.config.init.vectors is not None or candidate.config.init.texts:
            try:
                check_projection(candidate.config.model.text)
            except ConfigError as error:
                raise ConfigError(
                    f"--model {candidate.name}: {error}; leave it out, or init.texts and init.vectors"
                ) from None
    return out


def _matched(chosen: RunConfig) -> Candidate:
    model = matched_transformer(chosen.model)
    layer = model.layers[0]
    assert layer.feed_forward is not None
    layers = f"{len(model.blocks)} layer{'s' * (len(model.blocks) != 1)}"
    about = (
        f"embedding layer, vocabulary, width and defaults of {OWN}; softmax attention in {layers}, "
        f"feed-forward {layer.feed_forward.ffn_dim}; {len(MATCHED_RATES)} learning rates tried on validation"
    )
    config = chosen.model_copy(update={"model": model})
    return Candidate(name=MATCHED, about=about, config=config, rates=MATCHED_RATES)


def matched_transformer(model: ModelConfig) -> ModelConfig:
    """Return a pre-norm Transformer of the model's width with nearly as many parameters as the model.

    Text, projection and head are the model's; positions are sinusoidal if it has none. It has as many layers as the
    model, or fewer if attention alone would need their parameters; the feed-forward gets the rest.
    """
    from mixling.mixers.attention import AttentionConfig

    budget = _body_parameters(model)
    heads = next(number for number in (4, 2, 1) if model.dim % number == 0)

    def build(num_layers: int, ffn_dim: int) -> ModelConfig:
        feed_forward = FeedForwardConfig(ffn_dim=ffn_dim)
        layer = BlockConfig(mixers=(AttentionConfig(num_heads=heads),), feed_forward=feed_forward)
        positions = model.embedding.positions if model.embedding.positions != "none" else "sinusoidal"
        embedding = model.embedding.model_copy(update={"positions": positions})
        body = {"layers": (layer,), "num_layers": num_layers, "final_norm": True, "embedding": embedding}
        return model.model_copy(update=body)

    for num_layers in range(max(len(model.blocks), 1), 0, -1):
        least = _body_parameters(build(num_layers, 1))
        each = _body_parameters(build(num_layers, 2)) - least  # parameters per unit of width
        ffn_dim = 1 + round((budget - least) / each)
        if ffn_dim >= model.dim or num_layers == 1:
            break
    # If attention needs all parameters, the Transformer is larger than the model rather than without a feed-forward.
    return build(num_layers, max(ffn_dim, model.dim // 4 if model.blocks else 1))


def _body_parameters(model: ModelConfig) -> int:
    import torch

    from mixling.models.encoder import Encoder
    from mixling.models.model import count_parameters

    with torch.device("meta"):
        body = Encoder(model.blocks, dim=model.dim, max_len=model.text.max_len, final_norm=model.final_norm)
    return count_parameters(body)
