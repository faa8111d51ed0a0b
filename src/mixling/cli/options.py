"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mixling.errors import ConfigError
from mixling.tasks import own_tasks

_SECONDS = {"s": 1, "m": 60, "h": 3600}

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or a model.onnx.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN", help="Column of the text [text, or that of the model's training rows]."),
]
TextPairOption = Annotated[str | None, typer.Option("--text-pair", metavar="COLUMN", help="Column of a second text.")]
LabelOption = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Column of the label [label].")]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", metavar="COLUMN", help="Rows with one value there are set aside together, or not at all."),
]
TokensOption = Annotated[
    str | None, typer.Option("--tokens", metavar="COLUMN", help="Tagging: column of the words [tokens].")
]
SlotsOption = Annotated[
    str | None, typer.Option("--slots", metavar="COLUMN", help="Tagging: column of the IOB tags [slots].")
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="COLUMN", help="Text to text: column of what is read [source].")
]
TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="COLUMN", help="Text to text: column of what is written [target].")
]
KindOption = Annotated[
    str | None,
    typer.Option("--kind", metavar="COLUMN", help="Text to text: column of groups that are measured each, too."),
]
FormOption = Annotated[
    str | None,
    typer.Option("--form", metavar="NAME", help="Text to text: the rows are those of a task, such as rte or boolq."),
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="Text to text: is laid before each source.")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads of one computation.")]

# Of the commands that train.
RowsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES...", help="Labelled rows: CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or hf:NAME[@REVISION][:SPLIT]."
    ),
]
RunOption = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The folder of the run.")]
DevOption = Annotated[
    list[str] | None,
    typer.Option("--dev", metavar="FILE", help="Rows to choose the best epoch on; may be repeated."),
]
DevFractionOption = Annotated[
    float | None, typer.Option("--dev-fraction", help="Share of the rows set aside for dev without --dev [0.1].")
]
_TASKS, _SEEN = "|".join(own_tasks()), "By default seen from the rows."
TaskOption = Annotated[str | None, typer.Option("--task", metavar=_TASKS, help=_SEEN)]
AnyTaskOption = Annotated[str | None, typer.Option("--task", metavar=f"{_TASKS}|text2text", help=_SEEN)]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME|FILE.toml", help="A model by name, or a file of one [by the data]."),
]
VocabularyOption = Annotated[
    str | None,
    typer.Option("--vocabulary", metavar="FILE", help="Units to use; by default trained on the training rows."),
]
StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="DIR", help="Begin with the word vectors that `mixling vectors` wrote there."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="DIR", help="Begin with the model of a run, such as one of `mixling pretrain`."),
]
EpochsOption = Annotated[int | None, typer.Option("--epochs", help="By default from the number of rows.")]
TimeBudgetOption = Annotated[
    str | None,
    typer.Option("--time-budget", metavar="90s|3m|1h", help="Train for fewer epochs where they would take longer."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Of all that is random [0].")]
OnBadRowOption = Annotated[
    str | None, typer.Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row [error], or count it.")
]
ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE.toml", help="A run's configuration; options go before it.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any value of the configuration, e.g. train.optim.lr=0.002."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue the unfinished run in DIR; it ends with the same bytes.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run in DIR; its model stays until the new one is finished.")
]

# Of the commands that answer.
InputsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="INPUT...", help="A text; or files (.txt: a text on each line); or - for standard input."),
]
AnswersOption = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write there, at once when all is done.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="jsonl|csv|text", help="By default of FILE's name; text for a terminal."),
]
AnswerBadRowOption = Annotated[
    str, typer.Option("--on-bad-row", metavar="error|skip", help="skip: the row's answer is its error.")
]
EscapeOption = Annotated[
    bool, typer.Option("--escape-formulas", help="CSV: an apostrophe before cells that a spreadsheet would compute.")
]
BatchSizeOption = Annotated[int, typer.Option("--batch-size", min=1, help="Texts computed together.")]


def run_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command that trains, by their names, laid out as `RunConfig` is; None or (): not given."""
    columns = ("text", "text_pair", "label", "tokens", "slots", "group")
    budget = params["time_budget"]
    return {
        "task": params["task"],
        "data": {
            "train": params["files"],
            **{name: params[name] for name in ("dev", "dev_fraction", "on_bad_row")},
            "columns": {name: params[name] for name in columns},
        },
        "start": {
            "vectors": params["start"],
            "texts": params["unlabelled"],
            "pretrained": params.get("pretrained"),
        },
        "model": params["model"],
        "train": {
            "epochs": params["epochs"],
            "time_budget": None if budget is None else read_seconds(budget),
            "seed": params.get("seed"),
        },
    }


def layered(
    options: Mapping[str, Any], *, toml: str | None, vocabulary: str | None, overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a run: the TOML file's, over them the options, over them `--set`; and what goes over the model.

    A model that an option or `--set` names takes the place of the file's.

    Raises:
        ConfigError: the file or a value of `--set` cannot be read.
    """
    from mixling.config import merge, read_overrides, read_toml

    values = read_toml(toml) if toml else {}
    values = values | {"model": options["model"]} if "model" in options else values
    values = merge(values, {key: value for key, value in options.items() if key != "model"})
    changes = read_overrides(overrides)
    model_changes = changes.pop("model", {})
    if isinstance(model_changes, str):
        values["model"], model_changes = model_changes, {}
    if vocabulary is not None:
        model_changes = merge({"text": {"vocabulary": vocabulary}}, model_changes)
    return merge(values, changes), model_changes


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the options that were not given."""
    out = {key: present(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in out.items() if value is not None and value not in ({}, [], ())}


def read_seconds(text: str) -> float:
    """Return the seconds of "90s", "3m" or "1h".

    Raises:
        ConfigError: the text is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"--time-budget: got {text!r}; a number with s, m or h is allowed, such as 90s or 3m")
    if not match[2]:
        choices = " or ".join(f"{match[1]}{unit}" for unit in _SECONDS)
        raise ConfigError(f"--time-budget: got {text!r} without a unit; give {choices}")
    return float(match[1]) * _SECONDS[match[2]]
