"""Models of images on the command line: training, evaluation and prediction."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixling.cli.bulk import is_bulk
from mixling.cli.command import given_options
from mixling.cli.folders import check_run_folder, interruptible
from mixling.cli.inputs import format_of
from mixling.cli.kinds import KindCommands, refuse_options
from mixling.cli.output import Stopwatch, put
from mixling.cli.panel import command_rows, print_panel
from mixling.cli.predictions import open_output, task_results, writer_for
from mixling.cli.training import session
from mixling.cli.training_options import TrainerOptions
from mixling.errors import ConfigError, DataError
from mixling.research.vision.kind import ImageRuns

if TYPE_CHECKING:
    from mixling.answers.predictions import Prediction
    from mixling.cli.evaluate_options import EvaluateOptions, Report, ReportOptions
    from mixling.cli.predict_options import PredictOptions
    from mixling.cli.train_options import TrainOptions
    from mixling.data.readers.rows import OnBadRow
    from mixling.metrics.base import ClassificationMetrics
    from mixling.research.vision.config import ImageRunConfig
    from mixling.runs.run import Run
    from mixling.training.progress import TrainingProgress

_PREDICTION_OPTIONS = ("INPUT", "--out", "--format", "--on-bad-row", "--escape-formulas")
_BATCH = 16  # images


class _ImageCommands(KindCommands):
    def train(self, options: TrainOptions, started: Stopwatch) -> None:
        _train(options, {} if options.resume else _values_of(options), started)

    def evaluate(self, model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
        given = [*given_options(options), *given_options(report)]
        refuse_options(given, models="models of images", allowed={"--on-bad-row", "--confusion"})
        return _evaluate(model, options.files, bad=bad)

    def predict(self, model: str, options: PredictOptions) -> None:
        _predict(model, options)


def _values_of(options: TrainOptions) -> dict[str, Any]:
    """Return the options in the layout of `ImageRunConfig`.

    Raises:
        ConfigError: an option is given that images do not have.
    """
    others = {"from": options.pretrained, "source": options.has_pair_options()}
    also = options.label_option() or next((name for name, value in others.items() if value), None)
    if also is not None:
        raise ConfigError(f"--{also}: applies to texts, not to images; leave it out")
    data = {
        "train": options.files,
        "validation": options.validation,
        "on_bad_row": options.on_bad_row,
    }
    return {"data": data, "model": options.model, "train": options.training_values()}


def _train(options: TrainerOptions, values: Mapping[str, Any], started: Stopwatch) -> None:
    """Train an image classifier.

    Args:
        values: the options as `resolve` takes them.
    """

    def check(config: ImageRunConfig) -> None:
        if not config.data.train:
            raise ConfigError(f"no input; name a folder of images: mixling {started.command} DIR -o RUN")

    check_run_folder(options.out, resume=options.resume, overwrite=options.overwrite)
    with interruptible(options.out):
        from mixling.research.vision.config import IMAGE_RUNS
        from mixling.research.vision.run import fit_images

        with session(options, values, spec=IMAGE_RUNS, kind=ImageRuns.name, check=check) as opened:
            if opened is None:
                return
            terminal = opened.terminal
            terminal.metric = "accuracy"
            run = fit_images(opened.config, **opened.arguments)
    if run is not None:
        _report(run, terminal, started)


def _report(run: Run[ClassificationMetrics], terminal: TrainingProgress, started: Stopwatch) -> None:
    """Print the metrics to standard output, and the closing panel to standard error."""
    from mixling.metrics.intervals import wilson

    metrics = run.metrics
    put(f"validation: {_summary(metrics)}\n")
    interval = wilson(metrics.accuracy, metrics.n)
    between = f"[{interval.low:.4f}, {interval.high:.4f}]"
    rows = [
        ("accuracy", f"{metrics.accuracy:.4f} {between} on {metrics.n:,} validation images"),
        ("parameters", f"{run.parameters:,}, best epoch {run.best['epoch']:g} of {run.report['epochs']}"),
        ("time", started.elapsed()),
        *command_rows([
            ("predict", run.folder, "IMAGE"), ("evaluate", run.folder, "TEST_FOLDER"), ("show", run.folder),
        ]),
    ]  # fmt: skip
    print_panel(terminal.console, str(run.folder), rows)


def _summary(metrics: ClassificationMetrics) -> str:
    return metrics.summary().replace(" texts", " images")


def _evaluate(
    model: str, sources: Sequence[str], *, bad: OnBadRow
) -> tuple[str, dict[str, Any], ClassificationMetrics]:
    """Return the metrics of a model on labeled images as text, as values, and as they are.

    Raises:
        UserError: the images or the model cannot be read.
    """
    from mixling.metrics.base import format_table
    from mixling.research.vision.classifier import ImageClassifier

    classifier = ImageClassifier(model)
    images = classifier.read(sources, on_bad_row=bad.mode)
    metrics = classifier.evaluate(images)
    bad.skipped, bad.messages = len(images.skipped), list(images.skipped)
    if new := sorted(set(images.labels) - set(classifier.labels.names)):
        print(f"the model does not know the label {new[0]!r} and counts it as an error", file=sys.stderr)
    text = format_table(metrics).replace(metrics.summary(), _summary(metrics), 1)
    return text, {"skipped": len(images.skipped), **metrics.to_dict()}, metrics


def _predict(model: str, options: PredictOptions) -> None:
    """Write a prediction for each image file, in order.

    Raises:
        UserError: an image or the model cannot be read, or an option is for texts.
    """
    from mixling.data.readers import OnBadRow
    from mixling.research.vision.classifier import ImageClassifier
    from mixling.tasks.classification import Classification

    if also := [name for name in given_options(options) if name not in _PREDICTION_OPTIONS]:
        raise ConfigError(f"{also[0]}: applies to texts, not to images; leave it out")
    if is_bulk(options.out):
        raise ConfigError(f"--out: got the folder {options.out}; predictions for images are written to one file")
    skip = OnBadRow(options.on_bad_row).mode == "skip"  # type: ignore[arg-type]
    files = list(_files(options.inputs or []))
    name = options.output_format or format_of(options.out_file, readable=sys.stdout.isatty())
    results = replace(task_results(Classification), source="file", to_json=_values)
    header, row = writer_for(name, results, echo=True, skip=skip, escape=options.escape)
    classifier = ImageClassifier(model)
    with open_output(options.out_file) as write:
        write(header)
        for first in range(0, len(files), _BATCH):
            for file, result in classifier.predict_files(files[first : first + _BATCH]):
                if isinstance(result, DataError) and not skip:
                    raise result
                write(row(file, str(result) if isinstance(result, DataError) else result, {}))


def _values(prediction: Prediction) -> dict[str, Any]:
    values = prediction.to_json()
    return {key: values[key] for key in ("label", "probabilities")}


def _files(inputs: Sequence[str]) -> Iterator[str]:
    """Yield the named image files, and those in named folders.

    Raises:
        ConfigError: nothing is named.
        DataError: a folder has no images, or a file does not exist.
    """
    from mixling.research.vision.images import SUFFIXES

    if not inputs:
        raise ConfigError("no input; give image files, or folders of them")
    for item in inputs:
        if os.path.isdir(item):
            found = sorted(path for path in Path(item).rglob("*") if path.suffix.lower() in SUFFIXES)
            if not found:
                raise DataError(f"{item}: holds no images ({', '.join(SUFFIXES)})")
            yield from map(str, found)
        elif not os.path.exists(item):
            raise DataError(f"{item}: there is no such file; the model classifies images")
        else:
            yield item
