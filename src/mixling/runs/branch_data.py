"""What the n-gram branch of a run is fitted on."""

from __future__ import annotations

import time
from itertools import islice

import numpy as np

from mixling.ngrams.cross_fitting import OutOfFold
from mixling.ngrams.data import LinearData, TeacherLabels
from mixling.runs.few_examples import CrossValidation
from mixling.runs.initial_model import init_texts
from mixling.runs.labeled_data import LabeledExamples
from mixling.runs.resolve.config import RunConfig
from mixling.runs.validation import ExportedNetwork
from mixling.runtime.predictor import Predictor
from mixling.text.encoder import TextEncoder
from mixling.threads import num_threads
from mixling.training.augmentation import NO_AUGMENTATION
from mixling.training.calibration import Calibration
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData, TrainingData
from mixling.training.plan import Deadline

_MOST_UNLABELED = 3_000  # texts, which take seconds beside few examples
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
    crossed: CrossValidation | None,
    deadline: Deadline,
    tested: int,
) -> LinearData:
    """Return what an n-gram branch is fitted on, beside a trained network.

    Args:
        network, calibration: of the trained model.
        data: what the network was trained on.
        crossed: networks that were each trained on a part of few examples; None: the examples are many.
        deadline: of the run, for the branch as well.
        tested: the number of texts that the finished model is tested on, for which the deadline keeps time.
    """
    assert isinstance(data, LabeledData), "other tasks have no scores"
    out_of_fold = None
    alone = config.ngrams.use == "alone"
    if examples.folds is not None:
        logits = network.outputs
        if not config.fits_validation:  # these are of named rows, and others choose the branch
            assert crossed is not None, "the examples are few"
            if calibration is not None:
                for one in crossed.networks:
                    calibration.fold(one)
            logits = crossed.of_file(Predictor(network.content))
        out_of_fold = OutOfFold(folds=examples.folds, logits=np.stack(logits))
    predict = Predictor(network.content, num_threads=num_threads()).text_logits
    if tested and deadline.left is not None:
        some = examples.validation.texts[:_TIMED]
        begin = time.monotonic()
        predict(some)
        deadline.keep(2 * (time.monotonic() - begin) * tested / max(len(some), 1))  # answers and figures
    unlabeled = _MOST_UNLABELED if out_of_fold is not None and examples.task.has_classes else 0
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
        unlabeled=list(islice(init_texts(config), unlabeled)),
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
