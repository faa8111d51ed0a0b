"""Runs of models that write text: every family, mixtures, exact resumption, several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mixling.config import merge, parse
from mixling.data.pairs import Pair
from mixling.errors import ConfigError, DataError, Interrupted, ModelFileError, TrainingError
from mixling.models.generation import GenerationConfig
from mixling.models.seq2seq_presets import (
    hypermixer,
    mixer,
    mixer_transformer,
    remixer,
    scaled_remixer,
    seq2seq_config,
    t5,
)
from mixling.runs.config import is_finished
from mixling.runs.generator import TextGenerator
from mixling.runs.pair_config import RECIPE, PairRunConfig
from mixling.runs.text_to_text import fit_pairs
from mixling.runs.written import measure_task
from mixling.training.observers import Observer

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("red", "green", "blue", "black", "white")
FAMILIES = {
    "t5": t5,
    "remixer": remixer,
    "scaled-remixer": scaled_remixer,
    "mixer-transformer": mixer_transformer,
    "mixer": mixer,
    "hypermixer": hypermixer,
}


def shape(**changes: Any) -> Any:
    from mixling.models.seq2seq_presets import Shape

    sizes = {"dim": 16, "ffn_dim": 24, "num_heads": 2, "head_dim": 8, "num_layers": 1, "num_decoder_layers": 1}
    return Shape(**{**sizes, "max_source_len": 16, "max_target_len": 16, **changes})


def config(folder: Path, family: str = "t5", *, text: bool = False, **changes: Any) -> PairRunConfig:
    decoder = {"num_decoder_layers": 4} if family == "scaled-remixer" else {}
    training = {"steps": 6, "batch_size": 8, "evaluations": 2, "precision": "float32", "device": "cpu"}
    values: dict[str, Any] = {
        "tasks": [{"name": "colours", "train": [str(folder / "rows.jsonl")]}],
        "pieces": {"size": 100},
        "model": FAMILIES[family](shape(**decoder, dropout=changes.pop("dropout", 0.0))).to_dict(),
        "train": merge(RECIPE.to_dict(), training),
    }
    if text:
        values["corpus"] = {"files": [str(folder / "text.txt")], "dev_fraction": 0.2}
    return parse(PairRunConfig, merge(values, changes), where="test")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with (tmp_path / "rows.jsonl").open("w") as file:
        for _ in range(90):
            words = [str(word) for word in rng.choice(WORDS, size=int(rng.integers(1, 5)))]
            file.write(json.dumps({"source": " ".join(words), "target": " ".join(reversed(words))}) + "\n")
    with (tmp_path / "text.jsonl").open("w") as file:
        file.writelines(json.dumps({"source": f"word{i}", "target": f"wort{i}"}) + "\n" for i in range(30))
    with (tmp_path / "text.txt").open("w") as file:
        file.writelines(" ".join(rng.choice(WORDS, size=20)) + "\n" for _ in range(100))
    return tmp_path


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_trained_saved_and_answers(family: str, data: Path) -> None:
    run = fit_pairs(config(data, family), folder=data / "run")
    assert run is not None
    assert is_finished(data / "run")
    generator = TextGenerator(data / "run")
    assert sum(value.numel() for value in generator.model.parameters()) == run.parameters
    texts = ["red green", "blue", "white white black red"]
    answers = generator.generate(texts)
    for text, answer in zip(texts, answers, strict=True):  # batch mates do not matter, but for rounding
        (alone,) = generator.generate([text])
        assert (alone.text, alone.stopped) == (answer.text, answer.stopped)
        assert alone.score == pytest.approx(answer.score, abs=1e-5)
    best = next(record for record in reversed(run.history) if record["best"])
    assert run.metrics["colours"].exact_match == best["dev_exact_match"]
    assert "mixling generate" in (data / "run" / "README.md").read_text()


def test_answers_are_as_long_as_targets_unless_they_are_to_be_shorter() -> None:
    small = seq2seq_config("t5-1.1-small")
    assert PairRunConfig(model=small).generation.max_len == 512
    assert PairRunConfig(model=seq2seq_config("t5-2m", max_target_len=64)).generation.max_len == 64
    given = PairRunConfig.model_validate({"model": small.to_dict(), "generation": {"num_beams": 4}}).generation
    assert (given.max_len, given.num_beams) == (512, 4)
    assert PairRunConfig(model=small, generation=GenerationConfig(max_len=9)).generation.max_len == 9


def test_answers_of_beams_are_measured_as_they_are_given(data: Path) -> None:
    fit_pairs(config(data, "t5"), folder=data / "run")
    generator = TextGenerator(data / "run")
    pairs = [Pair(source=text, target="red", path="", line=number) for number, text in enumerate(WORDS)]
    for num_beams, cut in ((1, True), (3, False)):
        generator.generation = GenerationConfig(max_len=16, num_beams=num_beams)
        whole = [answer.text for answer in generator.generate(WORDS)]
        metrics, answers = measure_task(generator, pairs, form=None, cut=False)
        assert metrics.exact_match == np.mean([text == "red" for text in whole])
        assert (answers != whole) == cut  # by one beam they need not be told to their end


class Stop(Observer):
    """Interrupts at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stepped(self, *arguments: Any) -> None:
        self.at -= 1
        if not self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_an_interrupted_mixture_goes_on_to_the_same_bytes(optimizer: str, data: Path) -> None:
    optim = {"name": optimizer, "lr": 1e-3, "schedule": "constant"}
    settings = config(
        data, "remixer", text=True, dropout=0.1, train={"checkpoint_seconds": 1e-9, "optim": optim, "steps": 7}
    )
    fit_pairs(settings, folder=data / "whole")
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings, folder=data / "cut", observer=Stop(4))
    assert not is_finished(data / "cut")
    (data / "text.txt").unlink()  # it was read
    fit_pairs(settings, folder=data / "cut", resume=True)
    whole, cut = ({path.name: path for path in (data / name).iterdir()} for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    for name, path in whole.items():
        assert path.read_bytes() == cut[name].read_bytes(), name


def test_recombined_pairs_are_the_same_after_an_interruption(data: Path) -> None:
    with (data / "rows.jsonl").open("w") as file:
        for i in range(40):
            file.write(json.dumps({"source": f"see name{i} now", "target": f"see ( name{i} )"}) + "\n")

    def settings(share: float) -> PairRunConfig:
        task = {"name": "names", "train": [str(data / "rows.jsonl")], "recombination": share}
        return config(data, tasks=[task], pieces={"whole_words": 1}, train={"checkpoint_seconds": 1e-9})

    for name, share in (("never", 0.0), ("whole", 0.5)):
        fit_pairs(settings(share), folder=data / name)
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings(0.5), folder=data / "cut", observer=Stop(3))
    with pytest.raises(TrainingError, match="belongs to other"):
        fit_pairs(settings(0.25), folder=data / "cut", resume=True)
    fit_pairs(settings(0.5), folder=data / "cut", resume=True)
    never, whole, cut = ((data / name / "model.safetensors").read_bytes() for name in ("never", "whole", "cut"))
    assert cut == whole
    assert never != whole


def test_rows_that_changed_are_not_gone_on_with(data: Path) -> None:
    settings = config(data, train={"checkpoint_seconds": 1e-9})
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings, folder=data / "run", observer=Stop(3))
    rows = (data / "rows.jsonl").read_text().splitlines()
    (data / "rows.jsonl").write_text("\n".join([*rows[1:], rows[0]]))
    with pytest.raises(TrainingError, match="belongs to other data"):
        fit_pairs(settings, folder=data / "run", resume=True)


def test_tasks_are_drawn_by_their_rates_and_measured_each(data: Path) -> None:
    settings = config(data, text=True, mixing={"weights": {"colours": 3.0, "spans": 1.0}})
    said: list[str] = []
    run = fit_pairs(settings, folder=data / "run", say=said.append)
    assert run is not None
    names = {"dev_colours_exact_match", "dev_spans_perplexity", "dev_exact_match", "dev_perplexity"}
    assert names <= run.history[-1].keys()
    assert run.history[-1]["dev_exact_match"] == run.history[-1]["dev_colours_exact_match"]
    assert len([line for line in said if "pieces" in line]) == 1
    assert not (data / "run" / "corpus").exists()


def test_text_that_was_kept_serves_other_models(data: Path) -> None:
    first = config(data, text=True, corpus={"keep": True})
    fit_pairs(first.model_copy(update={"tasks": ()}), folder=data / "one")
    (data / "text.txt").unlink()
    second = config(data, "remixer", text=True, corpus={"files": [], "prepared": str(data / "one")})
    run = fit_pairs(second.model_copy(update={"tasks": ()}), folder=data / "two")
    assert run is not None
    assert (data / "two" / "tokenizer.json").read_bytes() == (data / "one" / "tokenizer.json").read_bytes()
    tuned = config(data, "remixer", start=str(data / "two"))
    assert fit_pairs(tuned, folder=data / "three") is not None


def test_what_does_not_fit_is_refused(data: Path) -> None:
    fit_pairs(config(data), folder=data / "run")
    with pytest.raises(ConfigError, match="needs"):
        fit_pairs(config(data, "remixer", start=str(data / "run")), folder=data / "other")
    assert not (data / "other" / "model.safetensors").exists()
    both = config(data, start=str(data / "run"), pieces={"vocabulary": "x.model"})
    with pytest.raises(ConfigError, match=r"leave out pieces\.vocabulary"):
        fit_pairs(both, folder=data / "other")
    with pytest.raises(ConfigError, match="stands twice"):
        config(data, tasks=[{"name": "a", "train": ["x"]}, {"name": "a", "train": ["y"]}])
    with pytest.raises(DataError, match="no such file"):
        fit_pairs(config(data, tasks=[{"train": [str(data / "gone.jsonl")]}]), folder=data / "other")
    with pytest.raises(ConfigError, match="sentinels"):
        fit_pairs(config(data, text=True, pieces={"sentinels": 0}), folder=data / "other")
    fit_pairs(config(data, pieces={"size": 120}, tasks=[{"train": [str(data / "text.jsonl")]}]), folder=data / "other")
    pieces = (data / "run" / "tokenizer.json").read_text()
    (data / "run" / "tokenizer.json").write_text((data / "other" / "tokenizer.json").read_text())
    with pytest.raises(ModelFileError, match=r"pieces, the model was trained with \d+; put back the file"):
        TextGenerator(data / "run")
    (data / "run" / "tokenizer.json").write_text(pieces)
    (data / "run" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelFileError, match="is not a complete run folder"):
        TextGenerator(data / "run")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_give_what_one_gives(parallel: str, data: Path) -> None:
    settings = config(data, "remixer", text=True, train={"parallel": parallel, "optim": {"eps": 1e-4}})
    alone = fit_pairs(settings, folder=data / "alone")
    assert alone is not None
    (data / "config.json").write_text(settings.model_dump_json())
    (data / "work.py").write_text(
        "import torch\nfrom pathlib import Path\n"
        "from mixling.runs.pair_config import PairRunConfig\nfrom mixling.runs.text_to_text import fit_pairs\n"
        "from mixling.training.distributed import processes\n"
        "torch.set_num_threads(1)\nconfig = PairRunConfig.model_validate_json(Path('config.json').read_text())\n"
        "with processes() as ranks:\n    fit_pairs(config, folder=Path('together'), processes=ranks)\n"
        "names = [(task / 'comm').read_text() for task in Path('/proc/self/task').glob('*')]\n"
        "assert not [name for name in names if 'gloo' in name], 'they may abort at the end'\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "work.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=data, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    mine, wanted = (load_file(data / name / "model.safetensors") for name in ("together", "alone"))
    for name, value in wanted.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=1e-4)
