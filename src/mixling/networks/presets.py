"""Models by name: mixling's own, the pNLP-Mixers and, with PyTorch, `mixling.research.presets`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mixling.config import Config, merge, parse, read_toml
from mixling.errors import ConfigError, near_miss
from mixling.installation import install_command, is_installed
from mixling.limits import require_memory_of_torch
from mixling.networks.blocks import BlockConfig, FeedForwardConfig
from mixling.networks.config import EmbeddingConfig, HeadConfig, ModelConfig
from mixling.networks.mixer import MixerConfig
from mixling.networks.mixers import TokenMLPConfig
from mixling.text.config import TextConfig
from mixling.text.fingerprint import MinHash

_C = TypeVar("_C", bound=Config)

WORDS_AS_THEY_ARE: Mapping[str, Any] = {"augmentation": {"pseudo_words": 0.0, "typos": 0.0}}


@dataclass(frozen=True)
class Preset:
    """A named model.

    Args:
        config: the model.
        source: paper and section.
        vocabulary: rows of the embedding table in the paper's parameter counts; None: there is no table.
        defaults: values of a `RunConfig` that go with the model. The papers' models are trained on the words as they
            are, as in the papers: misspelled or made-up words have more subwords, so that an epoch of gMLP takes 1.6
            times as long.
        use: when to use it, for `mixling models`; "" for the papers' models.
    """

    config: ModelConfig
    source: str
    vocabulary: int | None = None
    defaults: dict[str, Any] = field(default_factory=lambda: {"train": WORDS_AS_THEY_ARE})
    use: str = ""


def pnlp_mixer(*, num_features: int, window: int, dim: int, num_layers: int) -> ModelConfig:
    """Return a pNLP-Mixer (section 5.3 and Table 5): 64 hashes, 64 words, hidden width 256 in both MLPs."""
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=256),), feed_forward=FeedForwardConfig(ffn_dim=256))
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=num_features, num_hashes=64), max_len=64),
        embedding=EmbeddingConfig(window=window),
        dim=dim,
        layers=(layer,) if num_layers else (),
        num_layers=num_layers,
    )


def own(*, num_features: int, dim: int, ffn_dim: int, mixer: MixerConfig | None = None, **options: Any) -> ModelConfig:
    """Return mixling's own small model: hashed words, a factorized window, channel MLPs, three pools.

    A quarter of a word's hashes are of its letters in any order, which a word keeps where two of them are swapped.
    To label texts it has one layer without token mixing, which lowers accuracy with few examples; to label words, and
    pairs of texts with many examples, it needs two layers with token mixing (experiments/README.md).
    """
    mixers = () if mixer is None else (mixer,)
    return ModelConfig(
        text=TextConfig(
            projection=MinHash(num_features=num_features, num_hashes=48, letter_hashes=16),
            max_len=128,
            contractions=True,
        ),
        embedding=EmbeddingConfig(window=1, window_type="factorized"),
        dim=dim,
        layers=(BlockConfig(mixers=mixers, feed_forward=FeedForwardConfig(ffn_dim=ffn_dim)),),
        head=HeadConfig(pooling="all", transitions=True),
        **options,
    )


_OWN = "mixling"
_OWN_DEFAULTS = {"init": {"training_texts": True}, "ngrams": {"use": "auto"}}
_TABLE_5 = "pNLP-Mixer, Table 5"
_BASELINE = "pNLP-Mixer, section 5.2"


NATIVE_PRESETS: dict[str, Preset] = {
    "mixling-tiny": Preset(
        own(num_features=2048, dim=32, ffn_dim=128),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="texts, where every kilobyte counts",
    ),
    # Its network is not trained and not read: as small as a file's can be.
    "mixling-linear": Preset(
        ModelConfig(
            text=TextConfig(projection=MinHash(num_features=64, num_hashes=4), max_len=128, contractions=True),
            dim=4,
            layers=(),
            head=HeadConfig(pooling="mean"),
        ),
        _OWN,
        defaults={"ngrams": {"use": "alone"}},
        use="texts with thousands of labels: n-grams alone",
    ),
    "mixling-small": Preset(
        own(num_features=4096, dim=64, ffn_dim=256), _OWN, defaults=_OWN_DEFAULTS, use="texts, the default"
    ),
    "mixling-mixer": Preset(
        own(num_features=4096, dim=64, ffn_dim=256, mixer=TokenMLPConfig(hidden_dim=256), num_layers=2),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="words to tag, many pairs of texts",
    ),
    "mixling-base": Preset(
        own(num_features=5120, dim=128, ffn_dim=256),
        _OWN,
        defaults=_OWN_DEFAULTS,
        use="texts, with many examples or labels",
    ),
    "pnlp-mixer-x-large": Preset(pnlp_mixer(num_features=2048, window=1, dim=512, num_layers=4), _TABLE_5),
    "pnlp-mixer-large": Preset(pnlp_mixer(num_features=2048, window=1, dim=256, num_layers=4), _TABLE_5),
    "pnlp-mixer-base": Preset(pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=2), _TABLE_5),
    "pnlp-mixer-small": Preset(pnlp_mixer(num_features=1024, window=0, dim=256, num_layers=2), _TABLE_5),
    "pnlp-mixer-x-small": Preset(pnlp_mixer(num_features=1024, window=0, dim=64, num_layers=2), _TABLE_5),
    "projection-only": Preset(pnlp_mixer(num_features=1024, window=1, dim=256, num_layers=0), _BASELINE),
    "projection-only-w4": Preset(pnlp_mixer(num_features=1024, window=4, dim=256, num_layers=0), _BASELINE),
}
_PAPERS = "mixling.research.presets:PAPER_PRESETS"
# Presets that are no models of labels, imported only to name them in messages.
_ELSEWHERE = {
    "mixling.research.vision:IMAGE_PRESETS": "a model of images; `mixling train --task image_classification` trains "
    "it, and `mixling models` lists those for text",
    "mixling.research.seq2seq.presets:SEQ2SEQ_PRESETS": "a model from text to text; `mixling train --task text2text` "
    "trains it, and `mixling models` lists those for labels",
}


class _Presets(Mapping[str, Preset]):
    """The native models, then the models of papers, which are imported when they are asked for."""

    def __getitem__(self, name: str) -> Preset:
        return NATIVE_PRESETS[name] if name in NATIVE_PRESETS else _table(_PAPERS)[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**NATIVE_PRESETS, **_table(_PAPERS)})

    def __len__(self) -> int:
        return len(NATIVE_PRESETS) + len(_table(_PAPERS))


def _table(home: str) -> Mapping[str, Any]:
    """Return a table of a module that needs PyTorch; empty where it is not installed."""
    if not is_installed("torch"):
        return {}
    require_memory_of_torch()
    module, _, table = home.partition(":")
    presets: Mapping[str, Any] = getattr(importlib.import_module(module), table)
    return presets


PRESETS: Mapping[str, Preset] = _Presets()
DEFAULT_PRESET = "pnlp-mixer-x-small"


def preset_values(name: str) -> dict[str, Any]:
    """Return a preset's defaults for a run; for a TOML file, the defaults of the preset it starts from.

    Raises:
        ConfigError: the file cannot be read.
    """
    if name.endswith(".toml"):
        name = str(read_toml(Path(name)).get("preset", ""))
    return PRESETS[name].defaults if name in PRESETS else {}


def model_config(name: str, changes: dict[str, Any] | None = None) -> ModelConfig:
    """Return the configuration of a preset, or of a TOML file, which may start from a preset (`preset = "..."`).

    Args:
        changes: nested values that override it, such as `{"dim": 32, "text": {"max_len": 128}}`.

    Raises:
        ConfigError: unknown preset, file or key.
    """
    return resolve_preset(ModelConfig, PRESETS, name, changes or {}, unknown=_unknown)


def resolve_preset(
    config_class: type[_C],
    presets: Mapping[str, Any],
    name: str,
    changes: Mapping[str, Any],
    *,
    unknown: Callable[[str], str],
) -> _C:
    """Return the configuration of a preset, or of a TOML file, which may start from a preset, with changes.

    Args:
        presets: by name, what has such a configuration.
        name: may be "", where the changes are the whole configuration.
        unknown: returns the message for a name that no preset has.

    Raises:
        ConfigError: unknown preset, file or key.
    """
    values: dict[str, Any] = {}
    where = "model"
    if name.endswith(".toml"):
        values = read_toml(Path(name))
        where = name
        name = str(values.pop("preset", ""))
    if name:
        if name not in presets:
            raise ConfigError(f"{where}: {unknown(name)}")
        values = merge(presets[name].config.to_dict(), values)
    return parse(config_class, merge(values, changes), where=where)


def _unknown(name: str) -> str:
    for home, message in _ELSEWHERE.items():
        if name in _table(home):
            return f"{name!r} is {message}"
    more = "" if _table(_PAPERS) else f"; models of papers need PyTorch: {install_command('torch')}"
    return f"unknown preset {name!r} (a file must end in .toml); {near_miss(name, PRESETS)}{more}"


def with_changes(given: str | Mapping[str, Any], changes: Mapping[str, Any]) -> ModelConfig:
    """Return a model by name, file or table (which may name a preset), with changes; raises as `model_config`."""
    if isinstance(given, str):
        return model_config(given, dict(changes))
    table = dict(given)
    return model_config(table.pop("preset", ""), merge(table, changes))
