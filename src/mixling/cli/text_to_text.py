"""What `train` does with pairs of texts, and `pretrain` for span corruption."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mixling.cli.folders import run_folder
from mixling.cli.options import layered, present, read_seconds
from mixling.cli.output import put, total_time
from mixling.errors import ConfigError, DataError, command_line, near_miss

if TYPE_CHECKING:
    from mixling.data.tables import OnBadRow
    from mixling.metrics.text_metrics import TextMetrics
    from mixling.runs.pair_config import PairRunConfig
    from mixling.training.progress import TrainingProgress

TASK = "text2text"
OPTIONS = ("source", "target", "kind", "form", "prefix")  # of `train`, that only pairs have
_FOR_LABELS = ("text", "text_pair", "label", "tokens", "slots", "group", "start", "unlabelled")


def is_text_to_text(params: Mapping[str, Any]) -> bool:
    """Whether a command line of `train` is about pairs of texts: it says so, or its folder, or its first file does.

    Raises:
        ConfigError: a file of configuration that is looked at cannot be read.
    """
    from mixling.config import read_overrides, read_toml
    from mixling.data.tables import OnBadRow, read_rows
    from mixling.models.seq2seq_presets import SEQ2SEQ_PRESETS
    from mixling.runs.artifact import TEXT_TO_TEXT, kind_of_run
    from mixling.tasks import task_names

    if params["resume"]:
        return kind_of_run(params["out"]) == TEXT_TO_TEXT
    toml = read_toml(params["config"]) if params["config"] else {}
    task = params["task"] or read_overrides(params["overrides"] or ()).get("task") or toml.get("task")
    if task is not None:
        if task not in (known := (*task_names(), TASK)):
            raise ConfigError(f"task: got {task!r}; {near_miss(str(task), known)}")
        return task == TASK
    if any(params[name] is not None for name in OPTIONS) or "tasks" in toml or params["model"] in SEQ2SEQ_PRESETS:
        return True
    if params["pretrained"] is not None:
        return writes_text(params["pretrained"])
    if not params["files"] or any(params[name] is not None for name in ("text", "label", "tokens", "slots")):
        return False
    try:
        first = next(iter(read_rows(params["files"][0], on_bad_row=OnBadRow("skip"))), None)
    except DataError:  # told when the files are read, after what is wrong with the options
        return False
    columns = set() if first is None else first.values.keys()
    return {"source", "target"} <= columns and "label" not in columns


def writes_text(folder: str) -> bool:
    """Whether it is the folder of a finished run whose model writes text."""
    from mixling.runs.artifact import TEXT_TO_TEXT, kind_of_model

    return kind_of_model(folder) == TEXT_TO_TEXT


def measure_written(
    model: str,
    files: Sequence[str],
    *,
    of: str | None,
    given: Mapping[str, str | None],
    on_bad_row: OnBadRow,
    bleu: bool,
) -> tuple[TextMetrics, list[str]]:
    """How good the answers of a saved model are on rows of one of its tasks, and the answers.

    Args:
        of: the task's name, where the model knows several.
        given: columns that take the place of the task's.

    Raises:
        DataError: rows that cannot be used.
    """
    from mixling.data.pairs import read_pairs
    from mixling.runs.generator import TextGenerator
    from mixling.runs.written import measure_task

    generator = TextGenerator(model)
    task = generator.task(of)
    columns = task.columns.model_copy(update={key: value for key, value in given.items() if value is not None})
    pairs = list(
        read_pairs(files, columns=columns, on_bad_row=on_bad_row, form=task.form, prefix=task.prefix, training=False)
    )
    return measure_task(generator, pairs, form=task.form, cut=task.cut, bleu=bleu, on_bad_row=on_bad_row)


def train_pairs(context: typer.Context) -> None:
    """`mixling train` of a model that writes text.

    Raises:
        ConfigError: options that pairs have not.
    """
    params = context.params
    if also := [name for name in _FOR_LABELS if params[name]]:
        raise ConfigError(f"--{also[0].replace('_', '-')}: is not of --task {TASK}; columns are --source and --target")
    task = {
        "name": params["form"],
        "train": params["files"],
        **{name: params[name] for name in ("dev", "dev_fraction", "form", "prefix", "on_bad_row")},
        "columns": {name: params[name] for name in ("source", "target", "kind")},
    }
    options = {"start": params["pretrained"], "model": params["model"], **training_values(params)}
    _run(context, present({**options, "tasks": [present(task)] if present(task) else []}))


def pretrain_spans(context: typer.Context) -> None:
    """`mixling pretrain --objective span-corruption`."""
    params = context.params
    corpus = {"files": params["files"], "dev": params["dev"], "text": params["text"]}
    options = present({"corpus": corpus, "model": params["model"], **training_values(params)})
    _run(context, {**options, "corpus": options.get("corpus", {})})


def training_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """The table `train` of a run, from the options."""
    budget = params["time_budget"]
    return {
        "train": {
            **{name: params.get(name) for name in ("steps", "epochs", "seed")},
            "time_budget": None if budget is None else read_seconds(budget),
        }
    }


def _run(context: typer.Context, options: Mapping[str, Any]) -> None:
    from mixling.runs.artifact import TEXT_TO_TEXT
    from mixling.runs.pair_config import PairRunConfig
    from mixling.runs.text_to_text import fit_pairs

    params = context.params
    command = f"mixling {context.info_name}"

    def settle(terminal: TrainingProgress) -> PairRunConfig:
        config = configure(
            options, toml=params["config"], vocabulary=params["vocabulary"], overrides=params["overrides"] or ()
        )
        terminal.metric = "exact_match" if config.tasks else "perplexity"
        if not config.tasks and config.corpus is None:
            raise ConfigError(f"no input; name at least one file: {command} FILE -o DIR")
        return config

    run = run_folder(
        context,
        schema=PairRunConfig,
        kind=TEXT_TO_TEXT,
        settle=settle,
        run=functools.partial(fit_pairs, command=command),
    )
    if run is None:
        return
    done, terminal = run
    terminal.say(total_time(context))
    for name, metrics in done.metrics.items():
        put(f"dev: {f'{name}: ' if len(done.metrics) > 1 else ''}{metrics.summary()}\n")
    if not done.metrics:
        put(f"held-out: perplexity {done.held_out['perplexity']:.3f}, accuracy {done.held_out['accuracy']:.4f}\n")
    following = [command_line("mixling", "train", "PAIRS", "--task", TASK, "--from", done.folder, "-o", "DIR")]
    if done.metrics:
        following = [
            command_line("mixling", "generate", done.folder, "a text"),
            command_line("mixling", "evaluate", done.folder, "TEST_FILE"),
        ]
    commands = "\n       ".join(following)
    terminal.say(f"{done.folder}: {done.parameters:,} parameters\nnext:  {commands}")


def configure(
    options: Mapping[str, Any], *, toml: str | None, vocabulary: str | None, overrides: Sequence[str]
) -> PairRunConfig:
    """The configuration of a run: its recipe, over it the TOML file's values, the options, and `--set`.

    Raises:
        ConfigError: an unknown key or a value that is not allowed.
    """
    from mixling.config import merge, parse
    from mixling.models.seq2seq_presets import seq2seq_with_changes, with_dropout
    from mixling.runs.generator import read_saved
    from mixling.runs.pair_config import DEFAULT_MODEL, RECIPE, PairRunConfig

    if toml is not None and (own := options.get("tasks")):
        options = {**options, "tasks": [merge(_only_task(toml, own[0]), own[0])]}
    if vocabulary is not None:
        options = merge(options, {"pieces": {"vocabulary": vocabulary}})
    values, changes = layered(options, toml=toml, vocabulary=None, overrides=overrides)
    values = merge({"train": RECIPE.to_dict()}, values)
    given = values.get("model", {})
    if values.get("start") is not None:
        folder = str(values["start"])
        if isinstance(given, str) or given:
            raise ConfigError(f"--from {folder} is the model; leave out --model")
        saved = read_saved(Path(folder))["model"]
        if "dropout" in changes:  # of a preset it reaches every layer
            saved = with_dropout(saved, changes["dropout"])
        values["model"] = merge(saved, changes)
    else:
        if not (isinstance(given, str) or {"preset", "encoder"} & given.keys()):
            given = merge({"preset": DEFAULT_MODEL}, given)
        values["model"] = seq2seq_with_changes(given, changes).to_dict()
    return parse(PairRunConfig, values, where=toml or "options")


def _only_task(toml: str, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task of a file of configuration, over which options are laid; of several it is not known which they mean."""
    from mixling.config import read_toml

    tasks = read_toml(toml).get("tasks", [])
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        return {}  # which is told of the file
    if len(tasks) > 1:
        given = ", ".join(sorted(own))
        raise ConfigError(
            f"{toml} has {len(tasks)} tasks, and of which are: {given}? Write them there, or --set tasks.0.KEY=VALUE"
        )
    return tasks[0] if tasks else {}
