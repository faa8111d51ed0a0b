"""Mixers of other packages: registered or found by an entry point, named in TOML, saved and loaded back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
import torch
from pydantic import Field
from torch import Tensor

import mixling.mixers
from mixling import ConfigError, ModelConfig, TextConfig, Vocabulary, build_model, model_config
from mixling.answers import LabelSet
from mixling.artifacts import write_model
from mixling.config import parse
from mixling.mixers import Mixer, MixerConfig, config_class, mixer_config, mixer_types, register_mixer
from mixling.models import weights_of
from mixling.networks import BlockConfig
from mixling.research import load_model
from mixling.text import MinHash

SOURCE = '''
from typing import Literal
from pydantic import Field
from mixling.mixers import Mixer, MixerConfig

class Shift(Mixer):
    """Y_i = X_{i-steps}."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def mix(self, x, mask):
        return x.masked_fill(~mask[..., None], 0).roll(self.steps, 1)

    def flops(self, batch, length, context_length=None):
        return 0

class ShiftConfig(MixerConfig):
    """A shift."""
    type: Literal["shift"] = "shift"
    steps: int = Field(1, description="tokens to the right")

    def _build(self, dim, max_len, causal):
        return Shift(self.steps)
'''


class Shift(Mixer):
    """Y_i = X_{i-steps}, and the first tokens see the last."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def mix(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(~mask[..., None], 0).roll(self.steps, 1)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 0


class ShiftConfig(MixerConfig):
    """A shift."""

    type: Literal["shift"] = "shift"
    steps: int = Field(1, description="tokens to the right")

    def _build(self, dim: int, max_len: int, causal: bool) -> Shift:
        return Shift(self.steps)


@pytest.fixture
def registered() -> Iterator[type[MixerConfig]]:
    yield register_mixer(ShiftConfig)
    mixling.mixers.MIXERS.registered.pop("shift")


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(mixling.mixers.MIXERS, "entry_points", found)
    return found


def found_at(value: str, name: str = "shift") -> EntryPoint:
    return EntryPoint(name, value, mixling.mixers.MIXER_ENTRY_POINTS)


def test_an_unknown_mixer_names_both_ways(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown mixer 'shift'; .*entry point of the group 'mixling.mixers'.*regist"
    ):
        mixer_config({"type": "shift"})


@pytest.mark.usefixtures("registered")
def test_a_registered_mixer_is_named_in_toml_saved_and_loaded_back(tmp_path: Path) -> None:
    assert "shift" in mixer_types()
    (tmp_path / "model.toml").write_text('dim = 4\n[[layers]]\nmixers = [{ type = "shift", steps = 2 }]\n')
    named = model_config(str(tmp_path / "model.toml"), {"text": {"max_len": 8}})
    assert named.layers[0].mixers == (ShiftConfig(steps=2),)
    assert parse(ModelConfig, named.to_dict(), where="x") == named
    with pytest.raises(ConfigError, match="mixer 'shift': unknown key 'step'; did you mean 'steps'"):
        mixer_config({"type": "shift", "step": 2})

    text = TextConfig(projection=MinHash(num_features=16, num_hashes=4), max_len=8)
    config = ModelConfig(text=text, dim=4, layers=(BlockConfig(mixers=(ShiftConfig(steps=3),)),))
    vocabulary = Vocabulary.train(["the film is good", "a dull plot"] * 9, size=100)
    name, content = vocabulary.serialize()
    (tmp_path / name).write_text(content)
    labels = LabelSet(("no", "yes"), "single")
    saved = {"task": "classification", "model": config.to_dict(), "labels": labels.to_dict(), "vocabulary": name}
    model = build_model(config, num_outputs=2, seed=1).eval()
    write_model(tmp_path, weights_of(model), saved)
    loaded = load_model(tmp_path)[0]
    assert isinstance(loaded.encoder.layers[0].mixers[0], Shift)
    given = torch.tensor([[1, 2, 3]]), None, torch.tensor([[1, 1, 0]]), torch.tensor([[True, True, False]])
    torch.testing.assert_close(loaded.eval()(*given), model(*given), rtol=0, atol=0)


@pytest.mark.usefixtures("registered")
def test_a_cell_that_is_run_again_replaces_its_class_and_nothing_else_takes_the_name() -> None:
    again = type("ShiftConfig", (ShiftConfig,), {"__module__": __name__, "__qualname__": "ShiftConfig"})
    assert register_mixer(again) is config_class("shift") is again
    other = type("Other", (ShiftConfig,), {"__module__": __name__})
    with pytest.raises(ConfigError, match=r"mixer 'shift': .*\.ShiftConfig has a mixer of this type; choose another"):
        register_mixer(other)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (type("Mine", (ShiftConfig,), {"__annotations__": {"type": str}, "type": "pooling"}), "mixling has a mixer"),
        (type("Mine", (MixerConfig,), {}), "has no type; add the field `type: Literal"),
        (Shift, "a mixer is given by a subclass of mixling.mixers.MixerConfig"),
        ("shift", "got 'shift'; a mixer is given by a subclass"),
    ],
)
def test_what_cannot_be_registered_is_refused(config: type[MixerConfig], message: str) -> None:
    before = mixer_types()
    with pytest.raises(ConfigError, match=message):
        register_mixer(config)
    assert mixer_types() == before


def test_an_entry_point_is_loaded_when_it_is_named(entry_points: dict[str, EntryPoint]) -> None:
    entry_points["shift"] = found_at(f"{__name__}:ShiftConfig")
    sys.modules.setdefault(__name__, sys.modules[ShiftConfig.__module__])
    assert "shift" in mixer_types()
    assert mixer_config({"type": "shift", "steps": 4}) == ShiftConfig(steps=4)


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        ("no_such_module:Config", "shift", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("json:Config", "shift", "cannot be loaded: AttributeError: "),
        ("json:dumps", "shift", "a mixer is given by a subclass"),
        ("mixling.mixers.pooling:PoolingConfig", "shift", "its type is 'pooling'; name the entry point so"),
    ],
)
def test_an_entry_point_that_is_of_no_use_is_named(
    entry_points: dict[str, EntryPoint], value: str, name: str, message: str
) -> None:
    entry_points[name] = found_at(value, name)
    with pytest.raises(ConfigError, match=message):
        mixer_config({"type": name})


@pytest.mark.slow
def test_an_installed_package_s_mixer_is_trained_and_predicts(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "shifting-1.0.dist-info").mkdir(parents=True)
    (package / "shifting.py").write_text(SOURCE)
    (package / "shifting-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: shifting\nVersion: 1.0\n"
    )
    (package / "shifting-1.0.dist-info" / "entry_points.txt").write_text(
        "[mixling.mixers]\nshift = shifting:ShiftConfig\n"
    )
    (tmp_path / "model.toml").write_text(
        'preset = "mixling-tiny"\nnum_layers = 1\n[layers.0]\nmixers = [{ type = "shift", steps = 2 }]\n'
    )
    rows = "".join(
        f"a {word} film {number},{label}\n" for number in range(20) for word, label in (("good", 1), ("bad", 0))
    )
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    code = (
        "import sys; from mixling.cli.main import run; from mixling import Predictor\n"
        "sys.argv = 'mixling train rows.csv --model model.toml -o run --epochs 1'.split()\n"
        "try: run()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert Predictor('run').predict(['a good film'])[0].label in ('0', '1')\n"
        "from mixling.research import load_model\n"
        "print(type(load_model('run')[0].encoder.layers[0].mixers[0]).__module__)\n"
    )
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "shifting"
