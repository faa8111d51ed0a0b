"""Training on labeled examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import numpy as np
import numpy.typing as npt

from mixling.artifacts.artifact import TRAINING
from mixling.data.dataset import Dataset
from mixling.metrics.base import Metrics
from mixling.runs.adjustments import check_abstention
from mixling.runs.labeled import LabeledParts
from mixling.runs.labeled_data import prepare_examples
from mixling.runs.parts import RunArguments, Stage
from mixling.runs.resolve.config import RunConfig
from mixling.runs.run import Run, execute
from mixling.runs.shared import Shared
from mixling.teachers.base import Teacher
from mixling.text.encoder import Text
from mixling.text.vectors import WordVectors


def fit(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    *,
    weights: npt.NDArray[np.float32] | None = None,
    teacher: Teacher | None = None,
    unlabeled: Iterable[Text] = (),
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
        vectors: initial word vectors, instead of those that `config.init` names.
        shared: for several trainings on the same examples in one process.
        folder: the run folder; a model in it is kept until the new one is finished.
        resume: continue from the folder's checkpoint.
        distributed: this process among all; by default the only one.
        callback: called during training.
        log: receives messages.

    Returns:
        The run; None in processes other than the main one.

    Raises:
        ConfigError: no threshold has the accuracy `config.abstain_at`. The model is saved, and does not abstain.
        UserError: see `open_run` and `Trainer.fit`.
    """
    known = shared or Shared()

    def prepare(stage: Stage) -> LabeledParts:
        examples = prepare_examples(
            config, train, validation, weights, teacher, unlabeled, vectors, known, stage, fit=fit
        )
        return LabeledParts(examples, known, stage)

    run = execute(TRAINING, config, prepare, **arguments)
    if run is not None:
        check_abstention(run.report["abstention"], run.folder)
    return run
