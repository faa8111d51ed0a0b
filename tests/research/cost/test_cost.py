"""Counts against the counter of torch, and the measuring of encoders."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mixling import PRESETS, build_model, model_config
from mixling.models import count, count_parameters
from mixling.networks import sized
from mixling.provenance import provenance
from mixling.research.cost import timing
from mixling.research.cost.flops import count_encoder_decoder, count_images
from mixling.research.seq2seq import build_encoder_decoder, seq2seq_config
from mixling.research.vision import IMAGE_PRESETS, build_image_model
from mixling.tuning.cost import ResultCost


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 64])
@pytest.mark.parametrize(
    "name", ["pnlp-mixer-base", "gmlp-18", "amlp-base", "hypermixer", "transformer", "linear-transformer", "bert-base"]
)
def test_flops_are_those_that_torch_counts(name: str, length: int) -> None:
    config = sized(model_config(name))
    # Autocast, which two of them switch off for their sums, does not know the device without memory.
    with torch.device("cpu" if name in ("hypermixer", "linear-transformer") else "meta"):
        model = build_model(config, num_outputs=2, output="text")
        x, mask = torch.zeros(2, length, config.dim), torch.ones(2, length, dtype=torch.bool)
    model.eval()  # in training steps, feed-forwards are computed in C, which torch does not count
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model.encoder(x, mask)
    assert 2 * count(config, length=length).flops == counter.get_total_flops()


def test_parameters_are_those_of_the_built_model() -> None:
    counts = count(model_config("pnlp-mixer-base"))
    model = build_model(model_config("pnlp-mixer-base"), num_outputs=2, output="text")
    assert counts.parameters == count_parameters(model) - count_parameters(model.head)
    assert counts.body == count_parameters(model.encoder)
    assert counts.length == 64
    longer = count(sized(model_config("pnlp-mixer-base"), max_len=100))
    assert longer.body == counts.body + 2 * (36 * (256 + 256 + 1))
    table = count(model_config("hypermixer"), vocabulary=7).parameters
    assert count(model_config("hypermixer"), vocabulary=8).parameters == table + 256


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": True}, {"source_positions": "learned"}, "by hand"],
    ids=["own table", "tied", "places", "by hand"],
)
@pytest.mark.parametrize("name", ["t5-2m", "remixer-scaled-2m", "mixer-transformer-2m"])
def test_counts_of_an_encoder_decoder_are_those_of_the_built_one(name: str, changes: dict | str) -> None:
    if changes == "by hand":  # its layers stand one by one
        stacks = {
            part: {"layers": stack["layers"] * stack["num_layers"], "num_layers": None}
            for part in ("encoder", "decoder")
            for stack in [seq2seq_config(name).to_dict()[part]]
        }
        config = seq2seq_config(name, stacks)
    else:
        config = seq2seq_config(name, changes, max_source_len=20, max_target_len=12)
    source, target = config.max_source_len, config.max_target_len
    counts = count_encoder_decoder(config, vocabulary=50)
    assert (counts.length, counts.target_length) == (source, target)
    with torch.device("meta"):
        model = build_encoder_decoder(config, vocab_size=50).eval()
        units = torch.zeros(1, source, dtype=torch.long), torch.zeros(1, target, dtype=torch.long)
        mask = torch.ones(1, source, dtype=torch.bool)
    assert counts.parameters == count_parameters(model)
    assert counts.body == count_parameters(model.encoder) + count_parameters(model.decoder)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(units[0], mask, units[1])
    assert counts.flops == counter.get_total_flops() - 2 * target * 50 * config.dim  # the product with the table


@pytest.mark.parametrize(
    "name",
    ["pnlp-mixer-base", "gmlp-18", "amlp-base", "bert-6-relative", "bert-6-relative shared", "linear-transformer"],
)
def test_counts_of_equal_layers_are_those_of_all_of_them(name: str) -> None:
    preset, _, shared = name.partition(" ")
    config = sized(model_config(preset))
    if shared:  # the biases of the first layer are those of all, as in T5
        (layer,) = config.to_dict()["layers"]
        layer["mixers"][0]["positions"]["shared"] = True
        config = sized(model_config(preset, {"layers": [layer]}))
    with torch.device("meta"):
        model = build_model(config, num_outputs=2, output="text")
    counts = count(config, length=50)
    assert counts.body == count_parameters(model.encoder)
    assert counts.parameters == count_parameters(model) - count_parameters(model.head)
    assert counts.flops == model.encoder.flops(1, 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGE_PRESETS)
def test_counts_of_image_models(name: str) -> None:
    config = IMAGE_PRESETS[name].config
    with torch.device("meta"):
        model = build_image_model(config, num_outputs=2)
        head = nn.ModuleList(part for part in (model.pre_logits, model.output) if part is not None)
        x, mask = torch.zeros(1, config.num_tokens, config.dim), torch.ones(1, config.num_tokens, dtype=torch.bool)
    counts = count_images(config)
    assert counts.parameters == count_parameters(model) - count_parameters(head)
    assert counts.body == count_parameters(model.encoder)
    assert counts.length == config.num_tokens
    with FlopCounterMode(display=False) as counter:
        model.encoder(x, mask)
    assert counts.flops == counter.get_total_flops()


def test_token_mixing_is_measured_without_the_feed_forward() -> None:
    config = model_config("pnlp-mixer-x-small")
    (row,) = timing.time_model({"x": config}, [8], repeats=1, mixing_only=True)
    (whole,) = timing.time_model({"x": config}, [8], repeats=1)
    assert row.flops == 2 * 2 * (2 * 64 * 8 * 256)  # two layers, each of two matrices of 8 x 256, for 64 channels
    assert whole.flops - row.flops == 2 * 2 * (2 * 8 * 64 * 256)
    assert row.parameters == whole.parameters - 2 * (2 * 64 * 256 + 256 + 64 + 2 * 64)


def test_every_model_runs_at_every_length() -> None:
    configs = {name: model_config(name) for name in ("pnlp-mixer-x-small", "hypermixer")}
    rows = list(timing.time_model(configs, [200, 8], batch=2, repeats=2))
    assert [(row.model, row.length) for row in rows] == [(name, n) for n in (8, 200) for name in configs]
    for row in rows:
        assert 0 < row.fastest <= row.seconds
        assert row.flops == 2 * count(sized(configs[row.model], max_len=200), length=row.length).flops
        assert row.peak_bytes > 2 * row.length * configs[row.model].dim * 4


def test_a_model_that_takes_too_long_is_left_out_and_that_is_said() -> None:
    said: list[str] = []
    rows = list(timing.time_model({"x": model_config("pnlp-mixer-x-small")}, [4, 8], time_limit=0.0, log=said.append))
    assert [row.length for row in rows] == [4]
    assert said[0].startswith("x: ")
    assert "longer texts are left out" in said[0]


def test_the_peak_counts_what_lives_at_the_same_time() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(10, 1000))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            y = x @ self.weight[:, :1000]  # a view of the weight takes no memory
            y = y.view(-1).relu_()  # nor does what happens in place
            y = y * 2  # two live at once, for a moment
            return y + 1

    size = 3 * 1000 * 4
    assert timing._peak(Steps(), torch.zeros(3, 10), torch.ones(1, dtype=torch.bool)) == 2 * size


@pytest.mark.parametrize("name", ["gmlp-36", "bert-12-relative", "mlp-mixer-text"])
def test_parameters_over_the_papers_vocabulary(name: str) -> None:
    preset = PRESETS[name]
    assert count(preset.config, vocabulary=preset.vocabulary).parameters > 32_000 * preset.config.dim


def test_ffts_count() -> None:
    def flops(weights: str) -> int:
        mixer = {"type": "spatial_gating", "ffn_dim": 8, "weights": weights}
        changes = {"dim": 4, "num_layers": 1, "layers": [{"mixers": [mixer]}], "text": {"max_len": 512}}
        return count(model_config("gmlp-18", changes), vocabulary=9).flops

    projections = 2 * 512 * (4 * 8 + 4 * 4)
    assert flops("dense") == projections + 2 * 512 * 512 * 4
    transform = 2.5 * 1024 * 10  # the power of two that 2 N - 1 = 1,023 fits into
    assert flops("toeplitz") == projections + transform + 4 * (2 * transform + 3 * 1024)
    config = PRESETS["fnet"].config
    feed_forward = 2 * 2 * 128 * 256 * config.layers[0].feed_forward.ffn_dim  # type: ignore[union-attr]
    assert count(config, vocabulary=9).flops == 6 * (feed_forward + 5 * 128 * 256 * 15)


def test_results_say_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["a script.py", "--seed", "3"])
    made = provenance(seed=3, packages=["pydantic"])
    assert made["command"].endswith(" 'a script.py' --seed 3")
    assert made["seed"] == 3
    assert made["hardware"]["threads"] == torch.get_num_threads()
    assert made["versions"]["torch"] == version("torch")  # without the build that torch.__version__ may name
    assert list(made["versions"]) == ["python", "mixling", "torch", "numpy", "pydantic"]
    assert made["commit"] is None or len(made["commit"]) == 40


def test_changed_code_is_dirty_and_changed_results_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, result = tmp_path / "src" / "provenance.py", tmp_path / "benchmarks" / "results" / "a.json"
    for path in (code, result):
        path.parent.mkdir(parents=True)
        path.touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.setattr("mixling.provenance.__file__", str(code))
    result.write_text("another")
    assert provenance()["dirty"] is False
    code.write_text("another")
    assert provenance()["dirty"] is True


def test_the_commit_of_an_unrelated_checkout_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # as where the library lies in the environment of somebody's project
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr("mixling.provenance.__file__", str(tmp_path / "provenance.py"))
    (tmp_path / "provenance.py").touch()
    made = provenance()
    assert (made["commit"], made["dirty"]) == (None, None)


def test_the_cost_of_a_result_is_the_product_of_its_three_factors() -> None:
    config = model_config("pnlp-mixer-x-small")
    cost = ResultCost.of(config, examples=7_000, trainings=20)
    layer = 2 * (2 * 64 * 64 * 256) + 2 * (2 * 64 * 64 * 256)
    assert cost.flops == 2 * layer
    assert cost.total == 2 * layer * 7_000 * 20
    assert cost.line() == (
        "cost of the result: 16.78 MFLOPs an example x 7,000 examples x 20 trainings = 2,349 GFLOPs an epoch"
    )
