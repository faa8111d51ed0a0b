"""`mixling predict`: predictions for texts, files, or lines of standard input."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mixling.cli.bulk import is_bulk, predict_into_folder
from mixling.cli.folders import refuse_unfinished
from mixling.cli.options import (
    ModelArgument,
    read_threshold,
)
from mixling.cli.output import no_collections
from mixling.cli.predict_options import PredictOptions
from mixling.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mixling.cli.inputs import Finished
    from mixling.cli.kinds import KindCommands
    from mixling.data.inputs import Item
    from mixling.runtime.predictor import Predictor
    from mixling.serving.client import RemotePredictor

KEY_VARIABLE = "MIXLING_API_KEY"


def predict_command(model: ModelArgument, options: PredictOptions) -> None:
    """Predict with a saved model.

    Each row of input gives one row of output, in order. JSON lines have label and probabilities (or labels; or tokens,
    tags and spans; or answer, start, end, score and no_answer); CSV has label and probability, or the fields of an
    answer, or with --probabilities a column for each label. Where a model abstains, "abstained" is true, and in CSV the
    label is empty. Texts without words have "empty": true. Lines of standard input are processed as they arrive. Texts
    that are longer than the model's maximum are read to the end, in windows; with --too-long error they are bad rows.
    Rows have the input's columns that --columns names: --columns id --probabilities -o FILE.csv writes what a
    competition asks for.
    Torch is not needed. An unfinished run has no model yet: resume it, or export its best model so far with `mixling
    export`. With --url, a server predicts; if it requires an API key, set MIXLING_API_KEY.

    Bulk prediction: with a folder (-o FOLDER/, also a URL such as s3://bucket/folder/), Parquet, JSONL and CSV files of
    any size are predicted in parts by several processes. Outputs have all columns of the input. With --resume
    an interrupted job continues; a finished one has a manifest.
    """
    if options.url is None and (commands := _other_commands(model)) is not None:
        commands.predict(model, options)
        return
    if is_bulk(options.out):
        refuse_unfinished(model)
        predict_into_folder(model, options)
        return
    _refuse_bulk(options)
    with no_collections():
        from mixling.cli.inputs import finish_plain, has_rows, input_kind, read_request, typed_lines, write_predictions
        from mixling.cli.predictions import task_results, writer_for
        from mixling.data.inputs import Item, file_items, plain_or_items, stream_items
        from mixling.data.readers import STDIN, OnBadRow
        from mixling.runtime.windows import too_long_for
        from mixling.tasks.presentation import DEFAULT_SHOWN

    question = [] if options.inputs and input_kind(options.inputs) == "files" else _question(options)
    request = read_request(options, kind="text" if question else None, echo=options.echo)
    predictor = _open(model, options)
    if (options.question or options.context) and not predictor.task.windows:
        raise ConfigError(f"--question: {model} does not answer questions; its task is {predictor.task.name}")
    if request.output_format == "parquet":
        raise ConfigError("--format: parquet is written into folders only, by bulk prediction: -o FOLDER/")
    if request.output_format == "csv" and not predictor.task.csv_columns:
        raise ConfigError(f"the model predicts {predictor.task.gives}, which CSV cannot hold; use --format jsonl")
    shown = options.shown
    kept = options.kept
    predictor.task.check_shown(shown)
    labels = () if predictor.labels is None else predictor.labels.names
    results = task_results(predictor.task, labels, shown=shown, kept=kept)
    header, row = writer_for(
        request.output_format, results, echo=request.echo, skip=request.skip, escape=options.escape
    )
    windows: Iterator[Sequence[Item] | Finished]
    report = OnBadRow()
    inputs = options.inputs or []
    if request.kind != "text":
        from mixling.runs.evaluation import columns_of

        reader = predictor.task.reader
        columns = columns_of(model, options.columns(), predictor.features)
        rows_alone = request.output_format == "jsonl" and not request.echo and not columns.text_pair
        rows_alone = rows_alone and options.url is None and options.too_long != "error"
        rows_alone = rows_alone and not kept and shown == DEFAULT_SHOWN
        sources = inputs if request.kind == "files" else [STDIN]
        if not has_rows(options, request.kind):
            lines = stream_items(sys.stdin.buffer, STDIN, skip=request.skip)
            windows = typed_lines(options, lines, getattr(columns, reader.wanted[0]))
        elif not rows_alone or not predictor.task.json_of_texts:
            windows = file_items(sources, reader=reader, columns=columns, skip=request.skip, keep=kept, report=report)
        else:
            options_of: dict[str, Any] = {"reader": reader, "columns": columns, "skip": request.skip, "report": report}
            parts = (plain_or_items(source, **options_of) for source in sources)
            json_lines = predictor.json_lines  # type: ignore[union-attr]  # no server: see above
            threads = options.threads if request.kind == "files" else 0  # which would wait for more rows
            windows = finish_plain(itertools.chain.from_iterable(parts), json_lines, threads)
    else:
        windows = iter([question or [Item(text) for text in options.beside(inputs, predictor.features)]])

    done = 0

    def predict_items(items: Sequence[Item]) -> tuple[list[Any], DataError | None]:
        nonlocal done
        texts = [item.text for item in items if item.text is not None]
        predictions = predictor.predict_stream(texts, top_k=shown.needed)
        # An item has a text or an error; `predictions` has one item for each text.
        results: list[Any] = []
        for number, item in enumerate(items, done + 1):
            result = next(predictions) if item.text is not None else item.error or ""
            if options.too_long == "error" and not isinstance(result, str) and result.truncated:
                problem = f"text {number} {too_long_for(predictor.text_config.max_len)}"  # type: ignore[union-attr]
                if not request.skip:
                    return results, DataError(f"{problem}; use --too-long windows, or --on-bad-row skip")
                result = problem
            results.append(result)
        done += len(items)
        return results, None

    bar = request.kind == "files" and (options.out is not None or not sys.stdout.isatty())
    write_predictions(options, windows, header=header, row=row, predict=predict_items, echo=request.echo, bar=bar)
    for line in [*(report.counts if options.out is not None else ()), *report.notes]:
        print(line, file=sys.stderr)


def _open(model: str, options: PredictOptions) -> Predictor | RemotePredictor:
    """Return what predicts: a saved model, or one of a server.

    Raises:
        UserError: it cannot.
    """
    from mixling.runtime.windows import check_too_long

    check_too_long(options.too_long)
    threshold = read_threshold(options.threshold)
    if options.url is not None:
        from mixling.serving.client import RemotePredictor

        if options.too_long != "windows":
            raise ConfigError("--too-long: a server reads long texts as it was started to: `mixling serve --too-long`")
        return RemotePredictor(options.url, model, key=os.environ.get(KEY_VARIABLE), threshold=threshold)
    refuse_unfinished(model)
    with no_collections():
        from mixling.runtime.predictor import Predictor

    # What is not read completely is an error of its row: see `predict_items`.
    too_long = "truncate" if options.too_long == "error" else options.too_long
    return Predictor(model, num_threads=options.threads, threshold=threshold, too_long=too_long)


def _other_commands(model: str) -> KindCommands | None:
    """Return the commands for a model that does not predict labels of texts; None: it does."""
    with no_collections():
        from mixling.artifacts.artifact import kind_of_model
        from mixling.cli.kinds import commands_of
    return commands_of(kind_of_model(model))


def _refuse_bulk(options: PredictOptions) -> None:
    """Refuse what only bulk prediction has.

    Raises:
        ConfigError: an option or an input is for folders.
    """
    given = {"--engine": options.engine, "--workers": options.workers}
    for name, value in {**given, "--resume": options.resume or None}.items():
        if value is not None:
            raise ConfigError(f"{name}: is for folders; write into one with -o {options.out or 'FOLDER'}/")
    for item in options.inputs or []:
        if item.split() == [item] and ("://" in item or any(sign in item for sign in "*?[")):
            from mixling.data.readers import format_of_name

            if format_of_name(item) is not None and not os.path.exists(item):
                raise ConfigError(f"{item}: URLs and wildcards need a folder to write to: -o FOLDER/")


def _question(options: PredictOptions) -> list[Item]:
    """Return the question of the command line, if there is one.

    Raises:
        ConfigError: question or context is missing or empty, other inputs are given, or there is no input at all.
    """
    from mixling.cli.inputs import refuse_undecoded
    from mixling.data.inputs import Item

    inputs = options.inputs
    question = options.question
    context = options.context
    if question is None and context is None:
        if not inputs:
            raise ConfigError("no input; give a text, files, - for standard input, or --question and --context")
        return []
    if question is None or context is None:
        raise ConfigError("--question and --context go together; give both, or a file that has both")
    if inputs:
        raise ConfigError(
            f"--question: got {inputs[0][:40]!r} as well; give either one question, or files of questions"
        )
    for name, value in (("question", question), ("context", context)):
        refuse_undecoded(value)
        if not value.strip():
            raise ConfigError(f"--{name}: is empty; a text is needed")
    return [Item((question, context))]
