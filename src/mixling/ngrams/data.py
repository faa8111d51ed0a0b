"""What an n-gram branch is fitted on: labeled texts, copies with misspelled words, and texts that a teacher labeled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32
from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.errors import DataError
from mixling.features.cells import cells_of
from mixling.features.columns import Columns
from mixling.ngrams.cross_fitting import OutOfFold
from mixling.tasks.base import Task
from mixling.text.config import TextConfig
from mixling.text.encoder import Encoded, Text, TextEncoder
from mixling.text.long_texts import text_windows
from mixling.text.noise import mixed_noise
from mixling.text.vocabulary import Vocabulary
from mixling.training.augmentation import NO_AUGMENTATION, AugmentationConfig, Augmenter, BatchPart, TypoKind
from mixling.training.plan import Deadline

TYPOS = 0.2  # of the words of copies; 0.3 was no better
_SPELLINGS = 20  # of each kind of typo in a word; with 2 the branch reads other typos less well
MAX_COPIED_WORDS = 500_000
MAX_COPIED_VALIDATION_WORDS = 200_000
_LABELED_WEIGHT = 5.0  # of an example that people labeled, beside a teacher's; 3, 10 and 20 were no better
_MAX_TEXTS = 100_000  # that a branch is fitted on
_MAX_TEACHER_LABELS = 250_000  # the same, of a teacher
_TEXTS_OF_LABEL = 20  # with very many labels
_MOST_TEXTS = 2_000_000  # the same
_TABLE_WORDS = 1 << 19  # room for words of validation texts, and misspelled ones


NO_TERMS = np.zeros(1, np.int64)  # a file has one at least; it gets no weight in the sum


class TeacherLabels(NamedTuple):
    """Texts that a teacher has labeled.

    Attributes:
        labels: (U,) the ids of their most probable labels.
        weights: (U,) how much more probable these are than the next ones.
    """

    texts: Sequence[Text]
    labels: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]

    @classmethod
    def of_answers(cls, texts: Sequence[Text], answers: Sequence[npt.NDArray[Any]]) -> TeacherLabels:
        """Return texts with the labels that a teacher's probabilities (C,) give them."""
        chosen = range(0, len(texts), max(-(-len(texts) // _MAX_TEACHER_LABELS), 1))
        probabilities = np.stack([answers[i] for i in chosen]).astype(np.float32)
        second, first = np.sort(probabilities, axis=1)[:, -2:].T
        return cls([texts[i] for i in chosen], probabilities.argmax(1), first - second)


@dataclass(frozen=True, kw_only=True)
class LinearData:
    """The data for fitting and choosing a branch.

    Attributes:
        network: (V, C), the network's logits for the validation examples.
        predict: returns the network's logits for other texts.
        weights: (T,) of the training examples; None: all are 1.
        augmentation: what the network was trained with.
        teacher_labels: what the branch is fitted on in addition to the labeled examples.
        encoded: the training texts as the network reads them; None: they are encoded for the branch.
        columns: of the model, beside the texts; None: there are none.
        out_of_fold: what chooses the branch and its weight instead of the validation examples, where examples are few.
        unlabeled: texts that few examples are learned with.
        refit: whether the exported branch is fitted on the validation examples, too.
        deadline: when the branch must be there; without an end, `mixling.ngrams.choose` has a limit.
    """

    task: Task
    train: Dataset
    validation: Dataset
    network: npt.NDArray[np.floating]
    predict: Callable[[Sequence[Text]], Sequence[npt.NDArray[np.floating]]]
    weights: npt.NDArray[np.float32] | None
    text: TextConfig
    vocabulary: Vocabulary
    augmentation: AugmentationConfig = NO_AUGMENTATION
    teacher_labels: TeacherLabels | None = None
    encoded: TextSet | None = None
    columns: Columns | None = None
    out_of_fold: OutOfFold | None = None
    unlabeled: Sequence[Text] = ()
    refit: bool = True
    deadline: Deadline = field(default_factory=lambda: Deadline(None))

    def beside(self, texts: Sequence[Text]) -> Float32 | None:
        """Return the columns (B, W) beside texts, all missing where texts have none; None: the model has none."""
        if self.columns is None:
            return None
        missing = (None,) * len(self.columns.names)
        return self.columns.encode([cells_of(text) or missing for text in texts])


def check_without_terms(data: LinearData) -> None:
    """Check that texts without words have no columns beside them.

    Raises:
        DataError: they have.
    """
    if data.columns is not None:
        raise DataError("no text has a word; columns are beside texts with words")


def sample(dataset: Sized, most: int) -> npt.NDArray[np.int64]:
    """Return the indices of all examples, or of evenly spaced ones of more than `most`."""
    return np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), most)).astype(np.int64))


def training_texts(
    data: LinearData,
) -> tuple[TextEncoder, list[Int32], npt.NDArray[Any], Float32 | None, npt.NDArray[np.float32]]:
    """Return texts to fit a branch on: examples, copies with misspelled words, and what a teacher labeled.

    Returns:
        An encoder, texts as rows of its word table, their targets, the columns beside them, and their weights.
    """
    task = data.task
    chosen = sample(data.train, max(_MAX_TEXTS, min(_TEXTS_OF_LABEL * task.num_scores, _MOST_TEXTS)))
    if data.encoded is not None and data.encoded.is_kept:
        encoder = data.encoded.encoder.copy(max_table=_TABLE_WORDS, keep=True)
        rows = data.encoded.words(chosen)
    else:
        encoder = TextEncoder(data.text, data.vocabulary, keep=True)
        rows = encode_rows(encoder, [data.train.texts[int(i)] for i in chosen])
    if len(copied := copied_texts(rows, data.augmentation, most=MAX_COPIED_WORDS)):
        texts = [data.train.texts[int(i)] for i in chosen[copied]]
        encoder, copies = _misspell(encoder, texts, [rows[int(i)] for i in copied], data.augmentation.typo_kinds)
        rows = [*rows, *copies]
        chosen = np.concatenate([chosen, chosen[copied]])
    targets = np.asarray(task.targets([data.train.targets[int(i)] for i in chosen]))
    columns = data.beside([data.train.texts[int(i)] for i in chosen]) if data.columns is not None else None
    weights = np.ones(len(chosen), np.float32) if data.weights is None else data.weights[chosen]
    if (teacher_labels := data.teacher_labels) is not None:
        rows = [*rows, *encode_rows(encoder, teacher_labels.texts)]
        targets = np.concatenate([targets, teacher_labels.labels])
        weights = np.concatenate([_LABELED_WEIGHT * weights, teacher_labels.weights])
        if columns is not None and (beside := data.beside(teacher_labels.texts)) is not None:
            columns = np.concatenate([columns, beside])
    return encoder, rows, targets, columns, weights


def copied_texts(rows: Sequence[Int32], changes: AugmentationConfig, *, most: int) -> npt.NDArray[np.int64]:
    """Return the indices of the texts that have a copy with misspelled words: all, or of more than `most` words evenly
    spaced ones."""
    if not changes.typos or not rows:
        return np.zeros(0, np.int64)
    number = min(len(rows), len(rows) * most // max(sum(map(len, rows)), 1))
    return np.linspace(0, len(rows) - 1, number).astype(np.int64)


def _misspell(
    encoder: TextEncoder, texts: Sequence[Text], rows: Sequence[Int32], kinds: Sequence[TypoKind]
) -> tuple[TextEncoder, Sequence[Int32]]:
    """Return the rows of texts with misspelled words, given theirs, and the encoder that has them and all others."""
    if encoder.config.tokens == "subwords" or any(isinstance(text, tuple) for text in texts):
        return encoder, encode_rows(encoder, mixed_noise(texts, kinds, TYPOS))
    config = AugmentationConfig(pseudo_words=0, typos=TYPOS, typo_kinds=tuple(kinds))
    augmenter = Augmenter(config, encoder, (), spellings=_SPELLINGS)
    changed = augmenter.change(rows, encoder, BatchPart(np.arange(len(rows)), len(rows), seed=0, step=0))
    return augmenter.encoder.copy(max_table=_TABLE_WORDS, keep=True), changed


def to_the_end(encoder: TextEncoder, texts: Sequence[Text]) -> list[list[Int32]]:
    """Return for each text the windows that predictors read it in, as rows of the encoder's word table."""
    out: list[list[Int32]] = []
    for text, item in zip(texts, _encoded(encoder, texts), strict=True):
        windows = text_windows(text, encoder.config, encoder.vocabulary, per_word=False)[0] if item.truncated else ()
        out.append(encode_rows(encoder, [window.text for window in windows]) if len(windows) > 1 else [item.words])
    return out


def encode_rows(encoder: TextEncoder, texts: Sequence[Text]) -> list[Int32]:
    return [item.words for item in _encoded(encoder, texts)]


def _encoded(encoder: TextEncoder, texts: Sequence[Text]) -> Iterator[Encoded]:
    parts = (texts[first : first + 4096] for first in range(0, len(texts), 4096))
    return itertools.chain.from_iterable(encoder.encode_stream(parts))
