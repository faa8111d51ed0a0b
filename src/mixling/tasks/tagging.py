"""Tagging: IOB tags of words, for slots, entities, any labeled spans."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet, Targets, iob_spans, not_finite
from mixling.answers.predictions import Prediction
from mixling.answers.spans import Span
from mixling.answers.tag_sequences import TagSequences
from mixling.data.character_spans import is_spans, span_column
from mixling.data.dataset import Dataset
from mixling.data.examples import Target, names_of
from mixling.data.tag_reader import TagReader, tagged_columns
from mixling.errors import DataError, printable
from mixling.metrics.base import Score, TaggingMetrics
from mixling.metrics.quantization import QuantizationCheck, compare_quantized
from mixling.metrics.reports import tag_metrics, tagging_report
from mixling.tasks.base import Task
from mixling.tasks.objective import NO_TARGET, LossTerms
from mixling.tasks.sample import Sample
from mixling.text.encoder import Encoded, Text

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.layers.transitions import TagScores
    from mixling.networks.config import Output

_LEAST = 1e-30  # probability, for its logarithm
_TOGETHER = 64  # texts whose probabilities are computed at a time
_IOB_TAG = re.compile(r"O|[BI]-\S.*", re.DOTALL)


class Tagging(Task):
    """One IOB tag per word: softmax, and cross-entropy averaged over the words of the batch."""

    name = "tagging"
    kind = "iob"
    gives = "a tag a word"
    output: Output = "tags"
    metric = "word_accuracy"
    reader = TagReader
    own_columns = frozenset({"tokens", "slots", "sentence", "tags"})
    estimator = "TokenClassifier"
    per_word = True
    calibrates = True
    pipeline = "token-classification"
    card_metrics: ClassVar[Mapping[str, str]] = {
        "accuracy": "word_accuracy",
        "precision": "span_precision",
        "recall": "span_recall",
        "f1": "span_f1",
    }
    purpose = "finds spans in a sentence, with {n} labels"
    usage = "[(span.label, span.start, span.end) for span in prediction.spans]"
    baselines = ("words",)
    linear = ("svm", "linear support vector machines")
    headline = "span_f1"
    aside = ("word_accuracy", "sentence_accuracy")
    csv_columns = ("tokens", "tags", "spans")
    aims: ClassVar[Mapping[str, str]] = {"word-accuracy": "word_accuracy", "span-f1": "span_f1"}
    resamples = "the sentences, since the words of a sentence are not independent"

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        if sample.is_conll:
            return f"{sample.path} is in CoNLL's format"
        if not sample.names_text and not {"text", "label"} <= sample.first.keys():
            if {"tokens", "slots"} <= sample.first.keys():
                return f"{sample.path} has the columns tokens and slots"
            if names := tagged_columns(sample.rows):
                return f"{sample.path} has the columns {' and '.join(names)}, of equal length"
        spans = span_column(sample.rows, sample.text)
        labels = [row[sample.label] for row in sample.rows if row.get(sample.label)]
        if spans is None or not all(is_spans(label) for label in labels):
            return None
        return f"{sample.path} has spans of characters in the column {spans}"

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        """Return the tags of training examples: O, and both B- and I- of every slot."""
        return cls.tags(train.label_counts())

    @classmethod
    def tags(cls, names: Iterable[str]) -> LabelSet:
        """Return the label set of tags: O first, then both B- and I- of every slot."""
        slots = {prefix + name[2:] for name in names if name != "O" for prefix in ("B-", "I-")}
        return LabelSet(("O", *sorted(slots)), cls.kind)

    def check(self) -> None:
        names = self.labels.names
        for name in names:
            if not _IOB_TAG.fullmatch(name):
                raise DataError(f"tag {name!r} is not an IOB tag; allowed: O, B-type, I-type")
        if names[0] != "O":
            raise DataError(f"the first tag of the label set is {names[0]!r}; it must be 'O'")
        if len(names) == 1:
            raise DataError("every token is tagged 'O'; at least one token must be tagged B-type or I-type")

    def targets(self, targets: Iterable[Any]) -> list[npt.NDArray[Any]]:
        """Return the ids (W,) of each sentence's tags."""
        return [self.labels.ids(names) for names in targets]

    def loss(self, logits: Tensor | TagScores, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        from torch import Tensor
        from torch.nn import functional as F

        if not isinstance(logits, Tensor) or self.transitions is not None:
            return self._sequence_loss(logits, targets, weights)
        if targets.is_floating_point():
            return self._soft_loss(logits, targets, weights)
        smoothing = self.loss_config.label_smoothing
        losses = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing, ignore_index=NO_TARGET
        ).view_as(targets)
        scale = (targets != NO_TARGET).to(losses.dtype)
        if weights is not None:
            scale = scale * weights[:, None]
        if self.class_weights is not None:
            scale = scale * self._weights_like(logits)[targets.clamp_min(0)]
        return (losses * scale).sum(), scale.sum()

    def loss_terms(self, *, transitions: bool) -> LossTerms:
        if transitions:
            return LossTerms("sequences", 0.0, self.class_weights)
        return LossTerms("softmax", self.loss_config.label_smoothing, self.class_weights)

    def learnable(self, targets: Any) -> tuple[Any, npt.NDArray[np.float32] | None]:
        if targets and targets[0].ndim > 1:  # a teacher's
            return targets, None
        return [np.where(tags < len(self.labels), tags, NO_TARGET) for tags in targets], None

    def stack(self, targets: Targets, width: int) -> npt.NDArray[Any]:
        cut = [items[:width] for items in targets]
        hard = cut[0].ndim == 1
        shape = (len(cut), width)
        out = np.full(shape, NO_TARGET) if hard else np.zeros((*shape, len(self.labels)), np.float32)
        out[np.arange(width) < np.array([[len(items)] for items in cut])] = np.concatenate(cut)
        return out

    def _soft_loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the loss of a teacher's probabilities; they are 0 for padding, and for words that no teacher read."""
        targets = targets.to(logits.dtype)
        losses = -(targets * logits.log_softmax(-1)).sum(-1)
        scale = targets.sum(-1)
        if weights is not None:
            scale = scale * weights[:, None]
        if self.class_weights is not None:
            scale = scale * (targets @ self._weights_like(logits))
        return (losses * scale).sum(), scale.sum()

    def _sequence_loss(
        self, scores: Tensor | TagScores, targets: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss with transitions; a sentence counts by the mean class weight of its words."""
        import torch

        from mixling.layers.transitions import TagScores, sequence_losses

        if not isinstance(scores, TagScores):
            scores = TagScores(scores, torch.as_tensor(self.transitions).to(scores))
        losses, words = sequence_losses(scores, targets, ignored=NO_TARGET)
        scale = torch.ones_like(losses) if weights is None else weights
        if self.class_weights is not None:
            of_classes = self._weights_like(losses)
            if targets.is_floating_point():
                of_words = targets.to(of_classes.dtype) @ of_classes
            else:
                of_words = of_classes[targets.clamp_min(0)] * (targets != NO_TARGET)
            scale = scale * of_words.sum(1) / words.clamp_min(1)
        return (losses * scale).sum(), (words * scale).sum()

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        # The plain ratio would weigh a rare tag a thousand times as much as O; taggers work with its root.
        return np.sqrt(super()._balance(counts))

    def logits_shape(self, texts: int, tokens: int) -> tuple[int, ...]:
        return (texts, tokens, len(self.labels))

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        return self.decode_many([logits], [encoded], [text])[0]

    def decode_many(
        self, logits: Sequence[npt.NDArray[Any]], encoded: Sequence[Encoded], texts: Sequence[Text]
    ) -> list[Prediction]:
        out: list[Prediction] = []
        for first in range(0, len(texts), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            # An empty text is read as one special word, which is not a token.
            rows = [row[: len(item.offsets or ())] for row, item in zip(logits[part], encoded[part], strict=True)]
            out += map(self._decode, self._tags(rows, encoded[part]), encoded[part], texts[part])
        return out

    def _tags(
        self, rows: Sequence[npt.NDArray[Any]], encoded: Sequence[Encoded]
    ) -> list[tuple[list[int], list[float]]]:
        """Return the ids of each text's tags and their probabilities, given the logits (W, C)."""
        if hasattr(encoded[0], "tags"):  # the native engine found them
            _check_finite(rows)
            return [(item.tags.tolist(), item.probabilities.tolist()) for item in cast(Any, encoded)]
        return [(ids.tolist(), probabilities.tolist()) for ids, probabilities in self._best(rows)]

    def _best(self, rows: Sequence[npt.NDArray[Any]]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
        """Yield the ids (W,) of each text's most probable tags and their probabilities (W,), given the logits (W, C).

        Raises:
            ModelFileError: a logit is not finite.
        """
        _check_finite(rows)
        return self._sequences.best_with_probabilities(rows)

    def _decode(self, found: tuple[list[int], list[float]], encoded: Encoded, text: Text) -> Prediction:
        offsets = encoded.offsets
        assert offsets is not None
        tokens = [text[a:b] for a, b in offsets] if isinstance(text, str) else text[: len(offsets)]
        tag_ids, probabilities = found
        assert len(tag_ids) == len(tokens), f"{len(tag_ids)} tags for {len(tokens)} tokens"
        tags = [self.labels.names[tag_id] for tag_id in tag_ids]
        return Prediction(
            spans=tuple(
                Span(label, offsets[start][0], offsets[end - 1][1], sum(probabilities[start:end]) / (end - start))
                for label, start, end in iob_spans(tags)
            ),
            tokens=tuple(tokens),
            tags=tuple(tags),
            truncated=encoded.truncated,
            empty=encoded.is_empty,
        )

    def best_tags(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the ids (W,) of the most probable IOB2 sequence, given the logits (W, C) of its words."""
        return self._sequences.best(logits)

    def _normalized(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return self._sequences.probabilities(values)

    def word_scores(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return logits if self.transitions is None else np.log(np.maximum(self.probabilities(logits), _LEAST))

    @property
    def transitions(self) -> npt.NDArray[np.float32] | None:
        return self._transitions

    @transitions.setter
    def transitions(self, values: npt.NDArray[np.float32] | None) -> None:
        self._transitions = values
        self._sequences = TagSequences(self.labels.names[: len(self.labels) - self.unseen], values)

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> TaggingMetrics:
        """Return the metrics; words beyond the model's maximum length count as tagged O, which is what a user gets."""
        outside = self.labels.id("O")
        predictions = []
        confidences = []
        read = [np.asarray(scores)[: len(gold)] for scores, gold in zip(outputs, targets, strict=True)]
        for (best, probabilities), gold in zip(self._best(read), targets, strict=True):
            tags = np.full(len(gold), outside, np.int64)
            confidence = np.full(len(gold), np.nan)
            tags[: len(best)] = best
            confidence[: len(best)] = probabilities
            predictions.append(tags)
            confidences.append(confidence)
        return tagging_report(self.labels, list(targets), predictions, confidences=confidences, tables=tables)

    def decisions(self, outputs: Sequence[Any], targets: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the logits, or scores with transitions, and the tags of all words that the model reads."""
        rows = [self.word_scores(np.asarray(row))[: len(tags)] for row, tags in zip(outputs, targets, strict=True)]
        gold = np.concatenate([np.asarray(tags)[: len(row)] for row, tags in zip(rows, targets, strict=True)])
        known = gold < len(self.labels) - self.unseen
        return np.concatenate(rows)[known], gold[known]

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Compare decisions, over all words with logits."""
        gold = np.concatenate([np.asarray(tags)[: len(row)] for tags, row in zip(targets, before, strict=True)])
        first, second = (np.concatenate([ids for ids, _ in self._best(list(part))]) for part in (before, after))
        return compare_quantized(first, second, gold, lengths=list(map(len, before)))

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        values = prediction.to_json()
        return [json.dumps(values[column], ensure_ascii=False) for column in cls.csv_columns]

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        words = prediction.tokens or ()
        tags = prediction.tags or ()
        width = max((map(len, words)), default=0)
        return [f"{printable(word):<{width}}  {printable(tag)}" for word, tag in zip(words, tags, strict=True)]

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        task = self.with_unknown(targets, answers)
        truth = task.targets(targets)
        given = task.targets(answers)
        metrics = tag_metrics(task.labels, list(truth), list(given))
        return Score(metrics(np.arange(len(truth))), len(truth), metrics)

    @classmethod
    def constant(cls, targets: Sequence[Target]) -> Callable[[Text], Target]:
        """Return what gives every word the most frequent tag."""
        ((most, _),) = Counter(tag for tags in targets for tag in names_of(tags)).most_common(1)
        return lambda text: (most,) * len(text)

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        """Return the tags; words beyond the model's maximum length are tagged O."""
        tags = prediction.tags or ()
        return (*tags, *("O" for _ in range(len(text) - len(tags))))


def _check_finite(logits: Sequence[npt.NDArray[Any]]) -> None:
    if not all(np.isfinite(rows).all() for rows in logits):
        raise not_finite()
