"""Runs of models that write text: every family, mixtures, exact resumption, several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mixling import ConfigError, DataError, ModelFileError, TextGenerator
from mixling.artifacts import is_finished
from mixling.config import merge, parse
from mixling.data import OnBadRow
from mixling.errors import Interrupted, TrainingError
from mixling.research.seq2seq import (
    SEQ2SEQ_DEFAULTS,
    GenerationConfig,
    Pair,
    PairRunConfig,
    evaluate_task,
    fit_pairs,
    hypermixer,
    mixer,
    mixer_transformer,
    remixer,
    seq2seq_config,
    t5,
)
from mixling.research.seq2seq.config import PairTaskConfig
from mixling.research.seq2seq.presets import scaled_remixer
from mixling.research.seq2seq.tasks import read_task
from mixling.training import Callback

pytestmark = pytest.mark.slow  # each trains a model

ROOT = Path(__file__).resolve().parents[3]
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
    from mixling.research.seq2seq import Shape

    sizes = {"dim": 16, "ffn_dim": 24, "num_heads": 2, "head_dim": 8, "num_layers": 1, "num_decoder_layers": 1}
    return Shape(**{**sizes, "max_source_len": 16, "max_target_len": 16, **changes})


def config(folder: Path, family: str = "t5", *, text: bool = False, **changes: Any) -> PairRunConfig:
    decoder = {"num_decoder_layers": 4} if family == "scaled-remixer" else {}
    training = {"steps": 6, "batch_size": 8, "evaluations": 2, "precision": "float32", "device": "cpu"}
    values: dict[str, Any] = {
        "tasks": [{"name": "colors", "train": [str(folder / "rows.jsonl")]}],
        "tokenizer": {"size": 100},
        "model": FAMILIES[family](shape(**decoder, dropout=changes.pop("dropout", 0.0))).to_dict(),
        "train": merge(SEQ2SEQ_DEFAULTS.to_dict(), training),
    }
    if text:
        values["tokenizer"] = {"size": 200}
        values["corpus"] = {"files": [str(folder / "text.txt")], "validation_fraction": 0.2}
    return parse(PairRunConfig, merge(values, changes), where="test")


def write_data(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    with (folder / "rows.jsonl").open("w") as file:
        for _ in range(90):
            words = [str(word) for word in rng.choice(WORDS, size=int(rng.integers(1, 5)))]
            file.write(json.dumps({"source": " ".join(words), "target": " ".join(reversed(words))}) + "\n")
    with (folder / "text.jsonl").open("w") as file:
        file.writelines(json.dumps({"source": f"word{i}", "target": f"wort{i}"}) + "\n" for i in range(30))
    with (folder / "text.txt").open("w") as file:
        file.writelines(" ".join(rng.choice(WORDS, size=20)) + "\n" for _ in range(100))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the default configuration, to be copied."""
    folder = write_data(tmp_path_factory.mktemp("trained"))
    fit_pairs(config(folder), folder=folder / "run")
    return folder / "run"


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
    assert run.metrics["colors"].exact_match == best["val_exact_match"]
    assert "mixling generate" in (data / "run" / "README.md").read_text()


def test_answers_are_as_long_as_targets_unless_they_are_to_be_shorter() -> None:
    small = seq2seq_config("t5-1.1-small")
    assert PairRunConfig(model=small).generation.max_len == 512
    assert PairRunConfig(model=seq2seq_config("t5-2m", max_target_len=64)).generation.max_len == 64
    given = PairRunConfig.model_validate({"model": small.to_dict(), "generation": {"num_beams": 4}}).generation
    assert (given.max_len, given.num_beams) == (512, 4)
    assert PairRunConfig(model=small, generation=GenerationConfig(max_len=9)).generation.max_len == 9


def test_what_is_evaluated_is_what_is_answered(data: Path) -> None:
    fit_pairs(config(data, "remixer"), folder=data / "run")
    generator = TextGenerator(data / "run")
    answers = [answer.text for answer in generator.generate(WORDS)]
    assert any(" " in answer.strip() for answer in answers), answers
    # Spaces are written as the subwords have them: what differs in these only is right.
    right = [f" {answer.replace(' ', '  ')}\n" for answer in answers]
    pairs = [Pair(source=w, target=t, path="x.csv", line=n) for n, (w, t) in enumerate(zip(WORDS, right, strict=True))]
    pairs.append(Pair(source="red", target="pink", path="x.csv", line=8))
    metrics, given = evaluate_task(generator, pairs, template=None, cut=False)
    assert given == [*answers, answers[0]]
    assert metrics.exact_match == 5 / 6
    long = [*pairs, Pair(source="red " * 20, target="red", path="x.csv", line=9)]
    with pytest.raises(
        DataError, match=r"x\.csv:9: the source has .* at most 16; shorten it, or pass --on-bad-row skip"
    ):
        evaluate_task(generator, long, template=None, cut=False)
    bad = OnBadRow("skip")
    assert evaluate_task(generator, long, template=None, cut=False, on_bad_row=bad)[0] == metrics
    assert bad.skipped == 1
    assert evaluate_task(generator, long, template=None, cut=True)[0].n == 7


def test_rows_that_are_skipped_are_not_evaluated(data: Path) -> None:
    with (data / "rows.jsonl").open("a") as file:
        file.writelines(json.dumps({"source": f"{word} " * 20, "target": word}) + "\n" for word in WORDS)
    task = {"name": "colors", "train": [str(data / "rows.jsonl")], "on_bad_row": "skip", "validation_fraction": 0.5}
    run = fit_pairs(config(data, "remixer", tasks=[task]), folder=data / "run")
    assert run is not None
    assert 0 < run.metrics["colors"].n < 50


def test_queries_with_several_right_answers_are_evaluated_once(data: Path) -> None:
    encoding = {"text": "Ann met Bob and Eve", "entities": [{"start": s, "end": s + 2} for s in (0, 8, 16)]}
    answers = [{"text": name} for name in ("Ann", "Bob", "Eve")]
    query = {"query": "Who met @placeholder", "answers": answers}
    path = data / "record.jsonl"
    path.write_text("".join(json.dumps({"passage": encoding, "qas": [query, query]}) + "\n" for _ in range(6)))
    task = PairTaskConfig(template="record", train=(str(path),), validation_fraction=0.5)
    rows = read_task(task, seed=0, log=print)
    assert len({pair.question for pair in rows.validation}) == len(rows.validation) == 6
    assert all(pair.references == ("Ann", "Bob", "Eve") for pair in rows.validation)
    assert len(rows.train) == 18


BAD = {
    "another shape": ({"pretrained": "old"}, "remixer", "needs the shape|the model needs"),
    "itself": ({"pretrained": "run"}, "t5", "a run cannot replace its pretrained model"),
    "a weight of no task": ({"mixing": {"weights": {"color": 1.0}}}, "t5", "there is no task 'color'"),
    "no text": (
        {"corpus": {"files": ["gone.txt"]}, "tokenizer": {"vocabulary": "old/tokenizer.json"}},
        "t5",
        "no such file",
    ),
    "no held-out text": (
        {"corpus": {"files": ["text.txt"], "validation": ["gone.txt"]}, "tokenizer": {"size": 200}},
        "t5",
        "no such file",
    ),
    "few sentinels": (
        {"corpus": {"files": ["text.txt"], "validation_fraction": 0.2}, "tokenizer": {"size": 200, "sentinels": 0}},
        "t5",
        "spans",
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_run_that_cannot_begin_leaves_the_folder_as_it_was(
    problem: str, data: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    for name in ("old", "run"):
        copytree(trained, name)
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    changes, family, message = BAD[problem]
    if "pretrained" in changes or "vocabulary" in changes.get("tokenizer", {}):
        changes = merge({"tokenizer": {"size": None}}, changes)
    for folder in ("run", "new"):
        if problem == "itself" and folder == "new":
            continue
        with pytest.raises((ConfigError, DataError), match=message):
            fit_pairs(config(data, family, **changes), folder=Path(folder))
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before
    assert not Path("new").exists()


def test_subwords_of_another_run_are_refused_even_if_there_are_as_many(data: Path, trained: Path) -> None:
    copytree(trained, data / "run")
    path = data / "run" / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary[-2:] = vocabulary[:-3:-1]
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: does not match its checksum"):
        TextGenerator(data / "run")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: does not match its checksum"):
        fit_pairs(config(data, pretrained=str(data / "run"), tokenizer={"size": None}), folder=data / "other")


def test_a_tuned_run_goes_on_without_the_one_that_it_began_with(data: Path, trained: Path) -> None:
    copytree(trained, data / "old")
    settings = config(
        data, pretrained=str(data / "old"), tokenizer={"size": None}, train={"checkpoint_seconds": 1e-9, "seed": 3}
    )
    fit_pairs(settings, folder=data / "whole")
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings, folder=data / "cut", callback=Stop(4))
    (data / "old").rename(data / "moved")
    fit_pairs(settings, folder=data / "cut", resume=True)
    whole, cut = ((data / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert whole == cut


def test_characters_without_subwords_are_reported(data: Path, trained: Path) -> None:
    rows = [json.dumps({"source": f"red{'~' * (i > 5)}", "target": "{ red }" if i > 3 else "red"}) for i in range(20)]
    (data / "other.jsonl").write_text("\n".join(rows))
    copytree(trained, data / "run")
    task = {"train": [str(data / "other.jsonl")], "validation": [str(data / "rows.jsonl")]}
    outputs: list[str] = []
    fit_pairs(
        config(data, pretrained=str(data / "run"), tokenizer={"size": None}, tasks=[task]),
        folder=data / "b",
        log=outputs.append,
    )
    (targets,) = [line for line in outputs if "targets have characters" in line]
    assert "16 of 20 targets" in targets
    assert "the model cannot generate: '{' '}', first at" in targets
    assert "other.jsonl:5;" in targets
    assert any("14 of 20 sources have characters" in line and "'~'" in line for line in outputs)


class Stop(Callback):
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
        fit_pairs(settings, folder=data / "cut", callback=Stop(4))
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

    def settings(fraction: float) -> PairRunConfig:
        task = {"name": "names", "train": [str(data / "rows.jsonl")], "recombination": fraction}
        return config(data, tasks=[task], tokenizer={"whole_words": 1}, train={"checkpoint_seconds": 1e-9})

    for name, fraction in (("never", 0.0), ("whole", 0.5)):
        fit_pairs(settings(fraction), folder=data / name)
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings(0.5), folder=data / "cut", callback=Stop(3))
    with pytest.raises(TrainingError, match="belongs to other"):
        fit_pairs(settings(0.25), folder=data / "cut", resume=True)
    fit_pairs(settings(0.5), folder=data / "cut", resume=True)
    never, whole, cut = ((data / name / "model.safetensors").read_bytes() for name in ("never", "whole", "cut"))
    assert cut == whole
    assert never != whole


def test_rows_that_changed_are_not_gone_on_with(data: Path) -> None:
    settings = config(data, train={"checkpoint_seconds": 1e-9})
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        fit_pairs(settings, folder=data / "run", callback=Stop(3))
    rows = (data / "rows.jsonl").read_text().splitlines()
    (data / "rows.jsonl").write_text("\n".join([*rows[1:], rows[0]]))
    with pytest.raises(TrainingError, match="belongs to other data"):
        fit_pairs(settings, folder=data / "run", resume=True)


def test_tasks_are_drawn_by_their_rates_and_evaluated_each(data: Path) -> None:
    settings = config(data, text=True, mixing={"weights": {"colors": 3.0, "spans": 1.0}})
    outputs: list[str] = []
    run = fit_pairs(settings, folder=data / "run", log=outputs.append)
    assert run is not None
    names = {"val_colors_exact_match", "val_spans_perplexity", "val_exact_match", "val_perplexity"}
    assert names <= run.history[-1].keys()
    assert run.history[-1]["val_exact_match"] == run.history[-1]["val_colors_exact_match"]
    assert len([line for line in outputs if "subwords" in line]) == 1
    assert not (data / "run" / "corpus").exists()


def test_text_that_was_kept_serves_other_models(data: Path) -> None:
    first = config(data, text=True, corpus={"keep": True})
    fit_pairs(first.model_copy(update={"tasks": ()}), folder=data / "one")
    (data / "text.txt").unlink()
    given = {"corpus": {"files": [], "prepared": str(data / "one")}, "tokenizer": {"size": None}}
    second = config(data, "remixer", text=True, **given)
    run = fit_pairs(second.model_copy(update={"tasks": ()}), folder=data / "two")
    assert run is not None
    assert (data / "two" / "tokenizer.json").read_bytes() == (data / "one" / "tokenizer.json").read_bytes()
    tuned = config(data, "remixer", pretrained=str(data / "two"), tokenizer={"size": None})
    assert fit_pairs(tuned, folder=data / "three") is not None


def test_subwords_of_a_pretraining_can_write_what_its_text_lacks(data: Path) -> None:
    fit_pairs(config(data, text=True, tasks=[]), folder=data / "run")
    coder = TextGenerator(data / "run").coder
    label = "not_entailment { [IN:GET ~ ] }"
    assert coder.decode(coder.encode(label)) == label
    assert coder.decode(coder.encode("é")) != "é"


def test_what_does_not_fit_is_refused(data: Path, trained: Path) -> None:
    copytree(trained, data / "run")
    with pytest.raises(ConfigError, match="needs"):
        fit_pairs(
            config(data, "remixer", pretrained=str(data / "run"), tokenizer={"size": None}), folder=data / "other"
        )
    assert not (data / "other").exists()
    for key, value in (("size", 200), ("join_symbols", True), ("whole_words", 1)):
        with pytest.raises(ConfigError, match=rf"tokenizer\.{key} applies to trained .*, but pretrained = "):
            config(data, pretrained=str(data / "run"), tokenizer={"size": None, key: value})
    both = config(data, pretrained=str(data / "run"), tokenizer={"vocabulary": "x.model", "size": None})
    with pytest.raises(ConfigError, match=r"leave out tokenizer\.vocabulary"):
        fit_pairs(both, folder=data / "other")
    with pytest.raises(ConfigError, match="'a' is not unique"):
        config(data, tasks=[{"name": "a", "train": ["x"]}, {"name": "a", "train": ["y"]}])
    with pytest.raises(DataError, match="no such file"):
        fit_pairs(config(data, tasks=[{"train": [str(data / "gone.jsonl")]}]), folder=data / "other")
    with pytest.raises(ConfigError, match="sentinels"):
        fit_pairs(config(data, text=True, tokenizer={"sentinels": 0}), folder=data / "other")
    (data / "run" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelFileError, match=r"model\.safetensors: does not match its checksum"):
        TextGenerator(data / "run")


def test_two_processes_give_what_one_gives(data: Path) -> None:
    settings = config(data, "remixer", text=True, train={"optim": {"eps": 1e-4}})
    assert fit_pairs(settings, folder=data / "alone") is not None
    (data / "config.json").write_text(settings.model_dump_json())
    (data / "work.py").write_text(
        "import torch\nfrom pathlib import Path\n"
        "from mixling.research.seq2seq.config import PairRunConfig\n"
        "from mixling.research.seq2seq.run import fit_pairs\n"
        "from mixling.training.distributed import distributed_context\n"
        "from mixling.training.callbacks import Callback\n"
        "errors = []\n"
        "class Keeping(Callback):\n"  # errors as caches of matplotlib do, and with them the frames of the training
        "    def stepped(self, *arguments):\n"
        "        try:\n            raise ValueError\n"
        "        except ValueError as error:\n            errors.append(error)\n"
        "torch.set_num_threads(1)\n"
        "with distributed_context() as ranks:\n"
        "    config = PairRunConfig.model_validate_json(Path('config.json').read_text())\n"
        "    fit_pairs(config, folder=Path('together'), distributed=ranks, callback=Keeping())\n"
        "names = [(task / 'comm').read_text() for task in Path('/proc/self/task').glob('*')]\n"
        "assert not [name for name in names if 'gloo' in name], 'they may abort at the end'\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "work.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=data, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    wanted = load_file(data / "alone" / "model.safetensors")
    mine = load_file(data / "together" / "model.safetensors")
    for name, value in wanted.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-3, atol=1e-4)


def test_a_model_that_writes_replaces_one_that_labels(data: Path) -> None:
    """Until it is finished the folder has the old files, afterwards the new ones alone."""
    old = {"model.onnx": "onnx", "vocab.txt": "words", "config.json": "{}", "corpus/train.rows": "rows"}
    for name, content in old.items():
        (data / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (data / "run" / name).write_text(content)

    class Stop(Callback):
        def stepped(self, step: Any) -> None:
            raise Interrupted("stopped", signum=15)

    with pytest.raises(Interrupted, match="its model is unchanged"):
        fit_pairs(config(data), folder=data / "run", callback=Stop())
    assert {name: (data / "run" / name).read_text() for name in old} == old
    fit_pairs(config(data), folder=data / "whole")
    fit_pairs(config(data), folder=data / "run", resume=True)
    assert {path.name for path in (data / "run").iterdir()} == {path.name for path in (data / "whole").iterdir()}
    assert (data / "run" / "model.safetensors").read_bytes() == (data / "whole" / "model.safetensors").read_bytes()
    assert TextGenerator(data / "run").generate(["red green"])
