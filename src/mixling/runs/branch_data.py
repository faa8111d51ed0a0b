"""What the n-gram branch of a run is fitted on."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mixling.data.splits import unseen
from mixling.networks.network import TextNetwork
from mixling.ngrams.cross_fitting import OutOfFold, Predict, predict_out_of_fold
from mixling.ngrams.data import LinearData, TeacherLabels
from mixling.runs.labeled_data import LabeledExamples
from mixling.runs.resolve.config import RunConfig
from mixling.runs.validation import Export, ExportedNetwork
from mixling.runtime.predictor import Predictor
from mixling.text.encoder import TextEncoder
from mixling.threads import num_threads
from mixling.training.augmentation import NO_AUGMENTATION
from mixling.training.calibration import Calibration
from mixling.training.callbacks import Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData, TrainingData
from mixling.training.plan import Deadline

_TIMED = 200  # texts, for the time of the others


def branch_data(
    network: ExportedNetwork,
    calibration: Calibration | None,
    *,
    config: RunConfig,
    examples: LabeledExamples,
    encoder: TextEncoder,
    training: TrainConfig,
    data: TrainingData,
    joined: LabeledData | None,
    deadline: Deadline,
    tested: int,
    untrained: TextNetwork,
    export: Export,
    log: Log,
) -> LinearData:
    """Return what an n-gram branch is fitted on, beside a trained network.

    Args:
        network, calibration: of the trained model.
        data: what the network was trained on.
        joined: the same with the validation examples, on which the exported model is fitted, too; None: it is not.
        deadline: of the run, for the branch as well.
        tested: the number of texts that the finished model is tested on, for which the deadline keeps time.
        untrained: the model with its initial weights, for the networks of cross-fitting.
    """
    assert isinstance(data, LabeledData), "other tasks have no scores"
    out_of_fold = None
    alone = config.ngrams.use == "alone"
    if examples.folds is not None and alone:
        nothing = np.zeros((len(examples.folds), len(examples.task.labels)), np.float32)
        out_of_fold = OutOfFold(folds=examples.folds, logits=nothing)
    elif examples.folds is not None:
        log(
            f"few examples: a network trained on each half of the {len(examples.folds):,} answers for the other, to "
            "choose how much network and n-grams count; this takes as long as the training (--set "
            "ngrams.cross_fit=false omits it)"
        )

        def finish(network: TextNetwork) -> Predict:
            if calibration is not None:
                calibration.fold(network)
            return Predictor(export(network, precision=config.decisions.precision)).text_logits

        out_of_fold = _out_of_fold(examples, examples.folds, training, joined or data, untrained, finish)
    predict = Predictor(network.content, num_threads=num_threads()).text_logits
    if tested and deadline.left is not None:
        some = examples.validation.texts[:_TIMED]
        begin = time.monotonic()
        predict(some)
        deadline.keep(2 * (time.monotonic() - begin) * tested / max(len(some), 1))  # answers and figures
    return LinearData(
        task=examples.task,
        train=examples.train,
        validation=examples.validation,
        network=np.stack(network.outputs),
        predict=predict,
        weights=examples.weights if config.distill is None else None,
        text=encoder.config,
        vocabulary=encoder.vocabulary,
        augmentation=(not alone and training.augmentation) or NO_AUGMENTATION,
        teacher_labels=_teacher_labels(config, examples),
        encoded=data.train if data.train.dataset is examples.train else None,
        out_of_fold=out_of_fold,
        refit=config.fits_validation,
        columns=examples.columns,
        deadline=deadline,
    )


def _teacher_labels(config: RunConfig, examples: LabeledExamples) -> TeacherLabels | None:
    """Return the unlabeled texts with the labels of the teacher, where each text has one label."""
    if config.distill is None or not examples.task.has_classes:
        return None
    first = config.distill.copies * len(examples.train)
    texts = examples.texts.subset(np.arange(first, len(examples.texts))).texts
    return TeacherLabels.of_answers(texts, list(examples.targets[first:])) if len(texts) else None


def _out_of_fold(
    examples: LabeledExamples,
    folds: npt.NDArray[np.int64],
    training: TrainConfig,
    data: LabeledData,
    untrained: TextNetwork,
    finish: Callable[[TextNetwork], Predict],
) -> OutOfFold:
    known = np.arange(len(folds))
    texts = list(examples.train.texts)
    if len(folds) > len(texts):  # the examples of validation, too
        texts += examples.validation.texts
        if examples.task.has_labels:
            new = unseen(examples.validation, examples.task.labels.names)
            known = np.setdiff1d(known, new + len(examples.train))
    return predict_out_of_fold(folds, data, known, texts, training, build=untrained.copy, finish=finish)
