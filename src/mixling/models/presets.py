"""The papers' models by name."""

from __future__ import annotations

from pathlib import Path

from mixling.config import merge, parse, read_toml
from mixling.errors import ConfigError, near_miss
from mixling.mixers.token_mlp import TokenMLPConfig
from mixling.models.block import BlockConfig, FeedForwardConfig
from mixling.models.frontend import FrontendConfig
from mixling.models.model import ModelConfig
from mixling.text.encoder import TextConfig
from mixling.text.fingerprint import MinHash


def pnlp_mixer(*, num_features: int, window: int, dim: int, num_layers: int) -> ModelConfig:
    """A pNLP-Mixer (section 4.1 and Table 5): 64 hashes, 64 words, hidden width 256 in both MLPs."""
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=256),), feed_forward=FeedForwardConfig(ffn_dim=256))
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=num_features, num_hashes=64), max_len=64),
        frontend=FrontendConfig(window=window),
        dim=dim,
        layers=(layer,) if num_layers else (),
        num_layers=num_layers,
    )


PRESETS: dict[str, ModelConfig] = {
    "pnlp-mixer-x-large": pnlp_mixer(num_features=2048, window=1, dim=512, num_layers=4),
    "pnlp-mixer-large": pnlp_mixer(num_features=2048, window=1, dim=256, num_layers=4),
    "pnlp-mixer-base": pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=2),
    "pnlp-mixer-small": pnlp_mixer(num_features=1024, window=0, dim=256, num_layers=2),
    "pnlp-mixer-x-small": pnlp_mixer(num_features=1024, window=0, dim=64, num_layers=2),
    "projection-only": pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=0),
    "projection-only-w4": pnlp_mixer(num_features=1024, window=4, dim=256, num_layers=0),
}
DEFAULT_PRESET = "pnlp-mixer-x-small"


def model_config(name: str, changes: dict | None = None) -> ModelConfig:
    """The configuration of a preset, or of a TOML file that may name a preset to start from (`preset = "..."`).

    Args:
        changes: nested values laid over it, such as `{"dim": 32, "text": {"max_len": 128}}`.

    Raises:
        ConfigError: unknown preset, file or key.
    """
    values: dict = {}
    where = f"model {name!r}"
    if name.endswith(".toml"):
        values, where = read_toml(Path(name)), name
        name = str(values.pop("preset", ""))
    if name:
        if name not in PRESETS:
            raise ConfigError(
                f"{where}: unknown preset {name!r} (a file must end in .toml); {near_miss(name, PRESETS)}"
            )
        values = merge(PRESETS[name].to_dict(), values)
    return parse(ModelConfig, merge(values, changes or {}), where=where)
