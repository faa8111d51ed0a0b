"""Where the values of a run's configuration come from, and which of them wins."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mixling import PRESETS, ConfigError, DataError, ModelFileError, RunConfig
from mixling.cli.inputs import input_kind
from mixling.cli.output import format_seconds
from mixling.cli.training_options import read_seconds
from mixling.data import MAX_LINE, stream_items
from mixling.runs.evaluation import columns_of
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import infer_task


def config_of(options: dict, *, toml: Path | None = None, overrides: tuple[str, ...] = ()) -> RunConfig:
    options = {"task": "classification", **options}
    return resolve(options, spec=LABELS, toml=str(toml) if toml else None, overrides=overrides).config


def test_toml_then_options_then_set(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(
        'decisions.precision = "float32"\n[train]\nseed = 1\nepochs = 1\nbatch_size = 8\n[data]\ntrain = ["a.csv"]\n'
    )
    config = config_of(
        {"train": {"seed": 2, "epochs": 2}}, toml=toml, overrides=("train.epochs=3", "train.optim.lr=0.5")
    )
    assert (config.train.batch_size, config.train.seed, config.train.epochs) == (8, 2, 3)
    assert config.train.optim.lr == 0.5
    assert config.data.train == ("a.csv",)
    assert config.decisions.precision == "float32"


def test_models_by_name_table_and_file(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    assert config_of({}).model == PRESETS["pnlp-mixer-x-small"].config
    assert config_of({"model": "pnlp-mixer-base"}).model == PRESETS["pnlp-mixer-base"].config
    toml.write_text('model = "pnlp-mixer-small"\n')
    assert config_of({}, toml=toml).model == PRESETS["pnlp-mixer-small"].config
    assert config_of({"model": "pnlp-mixer-base"}, toml=toml).model == PRESETS["pnlp-mixer-base"].config
    toml.write_text('[model]\npreset = "pnlp-mixer-small"\ndim = 48\n')
    model = config_of({}, toml=toml, overrides=("model.text.max_len=128",)).model
    assert (model.dim, model.text.max_len, model.num_layers) == (48, 128, 2)
    toml.write_text("[model]\ndim = 48\n")
    assert config_of({}, toml=toml).model == PRESETS["pnlp-mixer-x-small"].config.model_copy(update={"dim": 48})
    (tmp_path / "model.toml").write_text('preset = "pnlp-mixer-base"\ndim = 24\n')
    assert config_of({"model": str(tmp_path / "model.toml")}).model.dim == 24
    assert config_of({}, overrides=("model=pnlp-mixer-large",)).model == PRESETS["pnlp-mixer-large"].config


def test_a_written_configuration_is_read_back(tmp_path: Path) -> None:
    config = config_of({"model": "pnlp-mixer-base", "train": {"seed": 3}})
    assert RunConfig.model_validate(json.loads(json.dumps(config.to_dict()))) == config


def test_a_misspelt_key_is_named_with_its_file(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text("[trian]\nseed = 1\n")
    with pytest.raises(ConfigError, match=r"run\.toml: unknown key 'trian'; did you mean 'train'"):
        config_of({}, toml=toml)


@pytest.mark.parametrize("options", [{}, {"model": "pnlp-mixer-base"}])
def test_a_misspelt_key_of_the_model_names_no_preset(options: dict) -> None:
    """The examples may choose another one than that which the keys are checked with."""
    with pytest.raises(ConfigError, match=r"^model: unknown key 'head.poling'; did you mean 'head.pooling'"):
        config_of(options, overrides=("model.head.poling=mean",))


@pytest.mark.parametrize(
    ("name", "content", "columns", "task"),
    [
        ("a.jsonl", '{"tokens": ["a"], "slots": ["O"]}\n', {}, "tagging"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n', {}, "classification"),
        ("a.jsonl", '{"tokens": ["a"], "slots": ["O"], "text": "a", "label": "b"}\n', {}, "classification"),
        ("a.jsonl", '{"tokens": ["a"], "slots": ["O"], "intent": "b"}\n', {"label": "intent"}, "classification"),
        ("a.jsonl", '{"words": ["a"], "tags": ["O"]}\n', {"tokens": "words", "slots": "tags"}, "tagging"),
        ("a.conll", "a O\n", {}, "tagging"),
        ("a.csv", "text,label\na,b\n", {}, "classification"),
        ("a.jsonl", '{"text": "a", "label": ["b", "c"]}\n', {}, "multi_label"),
        ("a.jsonl", '{"text": "a", "label": []}\n', {}, "multi_label"),
        ("a.jsonl", '{"t": "a", "topics": ["b","d"], "label": "c"}\n', {"text": "t", "label": "topics"}, "multi_label"),
        ("a.jsonl", '{"t": "a", "topics": ["b"], "label": "c"}\n', {"text": "t"}, "classification"),
    ],
)
def test_the_task_is_seen_from_the_rows(name: str, content: str, columns: dict, task: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert infer_task({"train": [str(tmp_path / name)], "columns": columns})[0] == task


def test_the_task_is_found_up_to_the_first_bad_row(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text('text,label\na,b\na,"b"b\n' + "a,b\n" * 9)
    with pytest.raises(DataError, match=r"rows\.csv:3"):  # else a file of gigabytes is read to its end, in vain
        infer_task({"train": [str(rows)]})
    assert infer_task({"train": [str(rows)], "on_bad_row": "skip"})[0] == "classification"


def test_a_second_text_that_is_not_read_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,Sentence2,label\na,b,c\n")
    hint = "the column 'Sentence2' is not read; to learn from both texts add --text text --text Sentence2"
    options = {"data": {"train": [str(tmp_path / "a.csv")]}}
    assert resolve(options, spec=LABELS).remarks[-1] == hint
    options["data"]["columns"] = {"text_pair": "Sentence2"}
    assert all("not read" not in remark for remark in resolve(options, spec=LABELS).remarks)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("3m", 180), ("1.5h", 5400)])
def test_time_budgets(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-3m", "0s", "3 minutes", "1d"])
def test_bad_time_budgets(text: str) -> None:
    with pytest.raises(ConfigError, match="90s"):
        read_seconds(text)


def test_a_time_budget_has_a_subword() -> None:
    with pytest.raises(ConfigError, match=r"got '5' without a unit; give 5s or 5m or 5h"):
        read_seconds("5")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 m 00 s"), (185, "3 m 05 s"), (7260, "2 h 01 m")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


def test_columns_given_known_and_usual(tmp_path: Path) -> None:
    assert columns_of(str(tmp_path), {}).text == "text"
    assert columns_of(str(tmp_path / "model.onnx"), {"text": "t"}).text == "t"
    saved = {"config": {"data": {"columns": {"text": "review", "label": "stars"}}}, "finished": True}
    (tmp_path / "run.json").write_text(json.dumps(saved))
    columns = columns_of(str(tmp_path), {"text": None, "label": "grade"})
    assert (columns.text, columns.label) == ("review", "grade")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ModelFileError, match="damaged"):
        columns_of(str(tmp_path), {})


def test_kinds_of_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("text\na\n")
    Path("film").mkdir()
    assert input_kind(["-"]) == "stdin"
    assert input_kind(["a.csv", "a.csv", "hf:imdb:test"]) == "files"
    assert (
        input_kind(["what a film"])
        == input_kind(["film"])
        == input_kind(["x" * 10_000])
        == input_kind(["open a.csv now"])
        == "text"
    )
    assert input_kind([" ".join(["film"] * 100)]) == "text"  # longer than a file's name may be
    Path("my films.csv").write_text("text\na\n")
    Path("my films").write_text("")
    assert input_kind(["my films.csv"]) == input_kind(["my films"]) == "files"
    Path("b.csv").mkdir()
    for folder in ("./film", "film/", ".", str(tmp_path), "b.csv"):
        with pytest.raises(DataError, match="is a folder; name the files in it"):
            input_kind([folder])
    Path("b.csv").rmdir()
    with pytest.raises(DataError, match=r"b\.csv: no such file"):
        input_kind(["b.csv"])
    for inputs in (["a.csv", "-"], ["a.csv", "a text"], ["-", "a text"]):
        with pytest.raises(ConfigError, match="several kinds"):
            input_kind(inputs)


def test_a_line_that_never_ends_is_reported_and_what_is_skipped_of_it_not_kept() -> None:
    content = b"one\n" + b"x" * (MAX_LINE + (1 << 20)) + b"\nthree\n"
    with pytest.raises(DataError, match="<stdin>:2: the line is longer than 16 MiB"):
        list(stream_items(io.BytesIO(content), "<stdin>"))
    items = [item for window in stream_items(io.BytesIO(content), "<stdin>", skip=True) for item in window]
    assert [item.text for item in items] == ["one", None, "three"]
    assert items[1].error == "<stdin>:2: the line is longer than 16 MiB"
