"""Training on labeled examples."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from mixling.artifacts.files import CONFUSION_FILE, DESCRIPTIONS
from mixling.artifacts.kinds import TRAINING
from mixling.artifacts.seen_rows import count_seen, read_seen, write_seen
from mixling.artifacts.unfinished import write_setup
from mixling.data.dataset import Dataset
from mixling.export.card import model_card
from mixling.export.onnx import export_onnx
from mixling.export.plots import plot_confusion
from mixling.metrics.base import ClassificationMetrics, Metrics
from mixling.networks.config import ModelConfig
from mixling.ngrams.choose import check_size
from mixling.runs.branch_data import branch_data
from mixling.runs.data import read_out_of_scope
from mixling.runs.decisions import Decided, decide
from mixling.runs.few_examples import CrossValidation
from mixling.runs.initial_model import initial_model, make_encoder
from mixling.runs.labeled_data import (
    LabeledExamples,
    prepare_examples,
    resolve_training,
    training_data,
    with_validation,
    without_unseen,
)
from mixling.runs.profile import data_profile
from mixling.runs.resolve.config import RunConfig
from mixling.runs.run import Run, RunArguments, RunFolder
from mixling.runs.shared import Shared
from mixling.runs.thresholds import check_abstention
from mixling.runtime.onnx.engine import check_engine
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import write_atomic
from mixling.teachers.base import Teacher
from mixling.text.encoder import Text, TextEncoder
from mixling.text.vectors import WordVectors
from mixling.training.callbacks import Detail
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData
from mixling.training.plan import Deadline

# Of the time that is left when training begins; the rest is for decisions.
_PART = 0.9
_PART_BESIDE_NGRAMS = 0.7
_PART_OF_FEW = 0.6  # since all examples are predicted, twice, and five branches are fitted
_REFIT = 1.2  # time that is kept for a second training, relative to the first's
_MANY_TEXTS = 200_000  # from which on each phase is announced
_TO_FINISH = 1.5  # seconds; files, plots and figures


def fit(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    *,
    weights: npt.NDArray[np.float32] | None = None,
    teacher: Teacher | None = None,
    unlabeled: Iterable[Text] = (),
    test_texts: Sequence[Text] = (),
    vectors: WordVectors | None = None,
    shared: Shared | None = None,
    **arguments: Unpack[RunArguments],
) -> Run[Metrics] | None:
    """Train, choose the best epoch on validation data, export, evaluate the exported model, and write the run folder.

    Args:
        config: resolved (`mixling.runs.resolve.spec`); to resume a run, the configuration of its record.
        weights: one for each training example.
        teacher, unlabeled: for distillation, see `make_distillation_data`; by default those that the configuration
            names.
        test_texts: texts that the finished model is tested on; no teacher labels them.
        vectors: initial word vectors, instead of those that `config.init` names.
        shared: for several trainings on the same examples in one process.
        folder: the run folder; a model in it is kept until the new one is finished.
        resume: continue from the folder's checkpoint.
        distributed: this process among all; by default the only one.
        callback: called during training.
        log: receives messages.
        started, tested: see `RunArguments`.

    Returns:
        The run; None in processes other than the main one.

    Raises:
        ConfigError: no threshold has the accuracy `decisions.abstain_at`. The model is saved, and does not abstain.
        UserError: see `open_run` and `Trainer.fit`.
    """
    shared = shared or Shared()
    with RunFolder.open(TRAINING, config, **arguments) as run:
        with run.preparing():
            examples = prepare_examples(
                config, train, validation, weights, teacher, unlabeled, test_texts, vectors, shared, run, fit=fit
            )
            alone = config.ngrams.use == "alone"
            say = run.log if len(examples.texts) >= _MANY_TEXTS else lambda line: run.log(Detail(line))
            say(f"vocabulary: from {len(examples.texts):,} texts")
            encoder = make_encoder(config.model.text, examples.texts, config.train.seed, shared, alone=alone)
            check_engine(encoder.config, encoder.vocabulary)
            deadline = Deadline(config.train.time_budget, run.started)
            training = resolve_training(config, examples)
            say(f"encoding {len(examples.texts):,} training and {len(examples.validation):,} validation texts")
            data, measured = training_data(config, examples, training, encoder, shared, run.log)
            network = initial_model(config, examples.task, encoder, examples.vectors, run.distributed, run.log)
            untrained = network.copy()
            vocabulary = encoder.vocabulary
            labels = examples.task.labels
            export = partial(
                export_onnx,
                text=encoder.config, task=config.task, labels=labels, vocabulary=vocabulary, pairs=examples.pairs,
                texts=examples.text_names(config),
            )  # fmt: skip
            if config.ngrams.max_size is not None:
                check_size(len(export(network, precision=config.decisions.precision)), config.ngrams.max_size)
            seen_before = None if config.init.pretrained is None else read_seen(config.init.pretrained)
        learned = examples.task.per_word and network.config.head.transitions
        smoothing = config.train.loss.label_smoothing if examples.task.smooths and not learned else 0
        if smoothing and config.distill is None and not alone:
            run.log(
                Detail(f"losses during training include label smoothing of {smoothing:g}; the final log-loss does not")
            )
        if run.is_main:
            write_setup(
                run.folder, network.config, labels, vocabulary,
                task=config.task, precision=config.decisions.precision, pairs=examples.pairs,
                texts=examples.text_names(config), reading=config.reading,
            )  # fmt: skip

        deadline.keep(_TO_FINISH)
        few = examples.folds is not None
        judged_crosswise = few and config.fits_validation  # by models that had not seen them; the exported one has all
        again = config.decisions.refit and not judged_crosswise
        if (left := deadline.left) is not None:
            part = _PART_BESIDE_NGRAMS if config.ngrams.use != "never" else _PART
            part = _PART_OF_FEW if few else part
            trainings = 1 + again + few  # those of cross-fitting take as long as one
            training = training.model_copy(update={"time_budget": left * part / trainings})
        if judged_crosswise:
            assert isinstance(data, LabeledData), "other tasks are not cross-fitted"
            data = with_validation(data, examples.validation, examples.task)
        if examples.folds is not None and not alone:
            run.log(
                f"few examples: two more networks each learn one half of the {len(examples.folds):,} and answer the "
                f"other. These answers give {'the metrics, and ' * judged_crosswise}the weights of network and n-grams "
                "(--set ngrams.cross_fit=false skips this)"
            )
        trainer = None
        begun = time.monotonic()
        if not alone:
            later = 2 * (len(examples.validation) + run.tested)  # with float weights and as exported, or explained
            trainer = run.train(
                network, data, training, content=_content(encoder, examples), later=later, evaluate=not judged_crosswise
            )

        as_long = _REFIT * (time.monotonic() - begun) if again else 0.0
        deadline.keep(as_long)
        crossed = None
        if few:
            assert isinstance(data, LabeledData), "other tasks are not cross-fitted"
            crossed = CrossValidation.of(examples, data, training, None if alone else untrained, export)
            measured = crossed if judged_crosswise else measured
        decided: Decided | None = None
        if run.is_main:
            linear = partial(
                branch_data,
                config=config, examples=examples, encoder=encoder, training=training, data=data, crossed=crossed,
                deadline=deadline, tested=run.tested,
            )  # fmt: skip
            decided = decide(
                config.decisions, config.ngrams, network, measured, export=export, linear=linear,
                counts=examples.counts,
                outside=read_out_of_scope(config), held_out=examples.held_out, columns=examples.columns,
                profile=partial(data_profile, measured.task, examples.train, examples.validation),
                log=run.log,
            )  # fmt: skip
        refit: dict[str, Any] = {}
        if again and trainer is not None:
            assert isinstance(data, LabeledData), "a configuration with refit has another task"
            joined = with_validation(data, examples.validation, examples.task)
            initial = untrained.weights()
            deadline.keep(-as_long)
            refit = {"refit": run.train_again(network, joined, trainer, initial=initial, seconds=deadline.left)}
            decided = decided and decided.of_refit(network, measured, export, run.log)
        if decided is None:
            return None
        if not run.evaluated:
            run.record(decided.loss, trainer)

        name, content = vocabulary.serialize()
        write_atomic(run.folder / name, content)
        parameters = network.num_parameters
        described = {"task": config.task, "model": network.config.to_dict(), "labels": labels.to_dict()}
        run.save(network.weights(), {**described, "vocabulary": name}, parameters=parameters)
        write_atomic(run.folder / ONNX_FILE, decided.content)
        if config.ngrams.max_size is not None and len(decided.content) > config.ngrams.max_size:
            run.log(f"model.onnx has {len(decided.content):,} bytes, more than {config.ngrams.max_size:,} (--max-size)")
        on_validation = (
            judged_crosswise or bool(refit) or (decided.decisions.branch is not None and config.fits_validation)
        )
        seen = [examples.texts.text_hashes()]
        if on_validation:
            seen.append(without_unseen(examples.validation, examples.task).text_hashes())
        write_seen(run.folder, seen if seen_before is None else [*seen, seen_before])
        report = {
            **decided.to_dict(),
            "data": _data_report(examples, seen_before, on_validation=on_validation, crossed=judged_crosswise),
            "epochs": training.epochs,
            **refit,
        }
        finished = run.finish(
            decided.metrics,
            report,
            parameters=parameters,
            card=partial(_card, config, network.config, training, examples),
            draw=partial(_draw, decided.metrics),
        )
    check_abstention(finished.report["abstention"], finished.folder)
    return finished


def _content(encoder: TextEncoder, examples: LabeledExamples) -> Iterator[bytes]:
    yield json.dumps(encoder.vocabulary.serialize()).encode()
    yield from examples.content()


def _data_report(
    examples: LabeledExamples, before: npt.NDArray[np.uint64] | None, *, on_validation: bool, crossed: bool
) -> dict[str, Any]:
    """Return the numbers of examples, and of training examples by label where each has one or several."""
    task = examples.task
    validation = examples.validation
    fitted = [examples.train, without_unseen(validation, task)] if crossed else [examples.train]
    counts: Counter[str] = Counter()
    for part in fitted if task.has_labels else ():
        counts.update(part.label_counts())
    return {
        "training": sum(map(len, fitted)),
        "validation": len(validation),
        "labels": {name: counts[name] for name in task.labels.names if name in counts},
        "fitted_on_validation": on_validation,
        "cross_validated": crossed,
        "validation_seen_before": None if before is None else count_seen(before, validation),
    }


def _draw(metrics: Metrics, folder: Path) -> None:
    if isinstance(metrics, ClassificationMetrics) and metrics.confusion:
        plot_confusion(metrics, folder / CONFUSION_FILE)


def _card(
    config: RunConfig, model: ModelConfig, training: TrainConfig, examples: LabeledExamples, report: dict[str, Any]
) -> str:
    sources = {"train": config.data.train, "validation": config.data.validation}
    used = {"data": sources, "model": model.to_dict(), "train": training.to_dict()}
    used |= {"init": config.initialization.to_dict(), "reading": report["reading"]}
    values = {**config.to_dict(), **used}
    beside = () if examples.columns is None else examples.columns.names
    return model_card(
        values,
        report,
        examples.task,
        folder_files=DESCRIPTIONS,
        texts=examples.text_names(config),
        pairs=examples.pairs,
        beside=beside,
    )
