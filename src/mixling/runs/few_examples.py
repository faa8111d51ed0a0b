"""Networks that each leave out a part of few labeled examples, and answer for it (`mixling.ngrams.cross_fitting`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.data.batches import Indices, TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.networks.network import TextNetwork
from mixling.ngrams.cross_fitting import CrossFitted, cross_fit
from mixling.runs.labeled_data import LabeledExamples
from mixling.runs.validation import Export, LabeledValidation, Outputs
from mixling.runtime.predictor import Predictor
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData


class CrossValidation(LabeledValidation):
    """All examples that the exported model is trained on; the outputs for each are of a network that was not.

    Args:
        data: what the exported model is trained on: the training examples, or all that have known labels.
        crossed: the networks; None: there are none, as the n-gram branch is alone.
    """

    what = "examples that they had not seen"

    def __init__(
        self, examples: LabeledExamples, data: LabeledData, crossed: CrossFitted | None, export: Export
    ) -> None:
        rows = examples.train
        if examples.folds is not None and len(examples.folds) > len(rows):
            parts = (examples.train, examples.validation)
            rows = Dataset.from_examples((one for part in parts for one in part), texts=rows.schema.texts)
        targets = data.validation_task.targets(rows.targets)
        encoded = TextSet(rows, data.train.encoder)
        super().__init__(replace(data, validation=encoded, validation_targets=targets), rows)
        self.networks = () if crossed is None else crossed.networks
        self._crossed = crossed
        self._export = export

    @classmethod
    def of(
        cls,
        examples: LabeledExamples,
        data: LabeledData,
        training: TrainConfig,
        untrained: TextNetwork | None,
        export: Export,
    ) -> CrossValidation:
        """Train the networks from the same initial weights, unless there are none."""
        folds = examples.folds
        assert folds is not None, "the examples are not few"
        if untrained is None:
            return cls(examples, data, None, export)
        known = np.arange(len(folds))
        if len(known) > len(examples.train) and examples.task.has_labels:
            new = unseen(examples.validation, examples.task.labels.names)
            known = np.setdiff1d(known, new + len(examples.train))
        return cls(examples, data, cross_fit(folds, data, known, training, untrained), export)

    def of_model(self, model: TextNetwork) -> Outputs:
        assert self._crossed is not None, "there are no networks"
        return list(self._crossed.logits(self._data.validation_logits))

    def of_file(self, predictor: Predictor) -> Outputs:
        """Return the outputs of the networks as files of the same precision."""
        if self._crossed is None:
            return list(np.zeros((len(self._validation), len(self.task.labels) - self.task.unseen), np.float32))
        texts = self._validation.texts

        def predict(network: TextNetwork, held: Indices) -> Sequence[npt.NDArray[Any]]:
            content = self._export(network, precision=predictor.metadata.precision)
            return Predictor(content).text_logits([texts[int(index)] for index in held])

        return list(self._crossed.logits(predict))
