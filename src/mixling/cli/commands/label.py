"""`mixling label`: label texts in a browser."""

from __future__ import annotations

import csv
import getpass
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import LabeledColumns
from mixling.cli.output import has_display, no_collections
from mixling.errors import ConfigError, DataError, command_line, shown, shown_list


@dataclass(frozen=True, kw_only=True)
class Labeled(LabeledColumns):
    """The texts, and what can be said of them."""

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Texts, in any format of `train`, with or without labels; or .txt.")
    ]
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="classification|multi_label|tagging",
            help="One label a text, several, or spans; by default what the labels in FILE are.",
        ),
    ] = None
    names: Annotated[
        str | None,
        typer.Option("--names", metavar="A,B,C", help="Labels to begin with; the page adds, renames and merges them."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Which texts are asked, and whom."""

    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="suggest|uncertain|random",
            help="Which texts come next: uncertain ones that differ, uncertain ones, or any.",
        ),
    ] = "suggest"
    no_model: Annotated[bool, typer.Option("--no-model", help="Train no model meanwhile.")] = False
    annotator: Annotated[
        str | None, typer.Option("--annotator", metavar="NAME", help="Who labels [the name of the user].")
    ] = None
    overlap: Annotated[
        float,
        typer.Option("--overlap", min=0, max=100, help="Percent of the texts that all annotators are asked."),
    ] = 0.0


@dataclass(frozen=True, kw_only=True)
class Served:
    """Where the page is."""

    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than 127.0.0.1 need the token that is printed.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 8010
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Where the labeled rows are written."""

    panel: ClassVar[str] = OUTPUT
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE|DIR", help="Write the rows that have labels, in the format of the name, and end."
        ),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="doccano|prodigy|...", help="Format of --export; see docs/how-to/label.md for all."
        ),
    ] = None
    agreed: Annotated[
        bool,
        typer.Option("--agreed", help="Leave out texts on which annotators differ and nobody decided."),
    ] = False


def label_command(data: Labeled, asking: Asking, served: Served, exported: Exported) -> None:
    """Label texts in a browser, while a model learns.

    The page is on this machine, and texts stay on it. Each answer is in FILE.labels.jsonl before the next request, so
    that labeling goes on where it ended. A fifth of the texts are random; on these the model is tested. --export writes
    the rows, for `train` and for other tools. Needs the extra "serve".
    """
    with no_collections():
        from mixling.config import parse, present
        from mixling.data.config import ColumnsConfig
        from mixling.labeling.app import serve_page
        from mixling.labeling.exports import format_for, write_labeled
        from mixling.labeling.queue import STRATEGIES, Queue
        from mixling.labeling.record import Record
        from mixling.labeling.session import LabelingSession
        from mixling.labeling.texts import read_file_texts
        from mixling.serving.callers import hosts_of
        from mixling.serving.server import Address

    if asking.strategy not in STRATEGIES:
        raise ConfigError(f"--strategy: got {asking.strategy!r}; allowed: {', '.join(STRATEGIES)}")
    file = data.file
    if not file.is_file():
        raise DataError("no such file; give a table, or a .txt file with a text on each line", path=file)
    if exported.export is None and (exported.form or exported.agreed):
        raise ConfigError(f"{'--format' if exported.form else '--agreed'}: is for --export; name the file to write")
    task, named = _task_and_columns(data)
    names = next(csv.reader([data.names or ""], skipinitialspace=True), [])
    with Record(file.with_name(f"{file.name}.labels.jsonl"), data.task, names) as record:
        texts = read_file_texts(file, task=record.task or task, columns=parse(ColumnsConfig, named, where="columns"))
        record.begin(texts)
        print(_summary(texts, record), file=sys.stderr)
        if exported.export is not None:
            form = format_for(exported.export, texts.task, exported.form)
            values = record.values(texts, agreed=exported.agreed)
            write_labeled(exported.export, texts, values, form)
            print(f"{exported.export}: {len(values):,} of {len(texts.by_key):,} texts have labels", file=sys.stderr)
            _print_agreement(record, agreed=exported.agreed)
            return
        address = Address(host=served.host, port=served.port)
        queue = Queue(texts, record, overlap=asking.overlap)
        serve_page(
            lambda call: LabelingSession(
                texts, record, queue, strategy=asking.strategy, call=call, learn=not asking.no_model
            ),
            address,
            hosts=hosts_of(address.number, ()),
            annotator=asking.annotator or user_name(),
            show=not served.no_open and has_display(),
        )
        columns: list[str] = []
        for key, value in present(data.named_columns()).items():
            columns += (f"--{key.replace('_', '-')}", str(value))
        out = f"{file.stem}.labeled.{'jsonl' if texts.task == 'tagging' else 'csv'}"
        print(f"{record.path}: {len(record):,} lines; the rows that have labels, for `mixling train`:", file=sys.stderr)
        print(command_line("mixling", "label", file, *columns, "--export", out), file=sys.stderr)


def user_name() -> str:
    """Return the name of the user at the machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # of a container, without a name
        return "somebody"


def _task_and_columns(data: Labeled) -> tuple[str, dict[str, Any]]:
    """Return the task of a file, and its columns; the labels' may be missing.

    Raises:
        ConfigError: the file does not say which column has the texts.
        DataError: it cannot be read.
    """
    from mixling.config import present
    from mixling.data.corpora import is_plain
    from mixling.data.guess import guess_columns, is_label_name
    from mixling.labeling.texts import LABELING_TASKS
    from mixling.tasks import DEFAULT_TASK, infer_task

    named = present(data.columns())
    if is_plain(str(data.file)):
        return data.task or DEFAULT_TASK, named
    if not named.keys() - {"text", "text_pair", "label"} and data.task != "tagging":
        guess = guess_columns(str(data.file), text=named.get("text"), text_pair=named.get("text_pair", ()))
        if guess is not None and not data.text:
            if len(guess.text) != 1:
                columns = shown_list(guess.columns)
                raise ConfigError(f"{data.file}: which column has the texts? name it with --text; there are {columns}")
            named["text"] = guess.text[0].name
            if guess.text_pair is not None:
                named["text_pair"] = (guess.text_pair.name,)
        if guess is not None and not data.label and guess.label and is_label_name(guess.label[0].name):
            named["label"] = guess.label[0].name
    if data.task:
        return data.task, named
    task = infer_task({"train": [str(data.file)], "columns": named, "on_bad_row": "skip"})[0]
    return task if task in LABELING_TASKS else DEFAULT_TASK, named


def _summary(texts: Any, record: Any) -> str:
    """Return what there is to label."""
    given = sum(text.given is not None for text in texts.by_key.values())
    answered = sum(record.answer(key) is not None for key in record.texts())
    column = texts.columns.label if texts.task != "tagging" else "spans"
    torn = ""
    if record.torn:
        torn = (
            f"{record.path}: its last line was cut off, and is dropped: {shown(record.torn)}; the page sends it again\n"
        )
    of_file = f", {given:,} with labels (column {column})" if given else ""
    return (
        f"{texts.path}: {len(texts.by_key):,} different texts{of_file}; {record.path.name}: {answered:,} answers\n"
        f"{torn}task {texts.task}, text column {texts.columns.text}"
    )


def _print_agreement(record: Any, *, agreed: bool) -> None:
    """Print how much annotators agree, where there are several."""
    from mixling.labeling.agreement import agreement_of, number_of

    found = agreement_of([record.answers(key) for key in record.texts()])
    if not found.texts:
        return
    kappas = ", ".join(f"{' and '.join(pair)} {number_of(kappa)}" for pair, kappa in found.kappas.items())
    alpha = f"Krippendorff's alpha {number_of(found.alpha)}; Cohen's kappa: {kappas}"
    print(f"{found.texts:,} texts have several answers: {alpha}", file=sys.stderr)
    if undecided := sum(1 for _ in record.differing(undecided=True)):
        rule = "left out" if agreed else "each with the answer of most, or the first one"
        print(f"on {undecided:,} of them annotators differ, and nobody decided: {rule}", file=sys.stderr)
