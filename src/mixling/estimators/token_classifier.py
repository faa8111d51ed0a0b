"""Tagging as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from mixling.answers.predictions import Prediction
from mixling.data.examples import names_of
from mixling.data.in_memory import listed, score_weights, tagged_rows, unpacked
from mixling.errors import DataError
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.tagging import Tagging
from mixling.text.encoder import Text


class TokenClassifier(Estimator):
    """Tag words with IOB tags: slots, entities, any spans; parameters as in `TextClassifier`."""

    def fit(
        self,
        X: Iterable[list[str]],
        y: Iterable[Sequence[str]],
        sample_weight: Any = None,
        *,
        validation: tuple[Iterable[list[str]], Iterable[Sequence[str]]] | None = None,
        teacher: Any = None,
        unlabeled: Iterable[list[str]] = (),
    ) -> Self:
        """Train on words and their tags, in IOB2 or a scheme that is converted to it with a warning.

        A teacher returns probabilities for each word.

        Raises:
            DataError: the numbers of words and tags differ, or a tag is impossible where it stands.
        """
        validation_rows = None if validation is None else tagged_rows(*validation, VALIDATION)
        more = [unpacked(words) for words in listed(unlabeled, "sentences")]
        self._fit(Tagging.name, tagged_rows(X, y, FIT), validation_rows, sample_weight, teacher, more)
        return self

    def predict(self, X: Iterable[list[str]]) -> list[list[str]]:
        """Return the tags of each sentence's words; words beyond the model's maximum length are tagged O."""
        sentences = [unpacked(words) for words in listed(X, "sentences")]
        for number, words in enumerate(sentences):
            if not isinstance(words, list):
                got = f"item {number} is of type {type(words).__name__}"
                raise DataError(f"{got}; a sentence is a list of words here, and predict_spans takes texts")
        found = self.predictor_.predict_stream(sentences)
        return [
            [*(item.tags or ()), *("O" for _ in words[len(item.tags or ()) :])]
            for words, item in zip(sentences, found, strict=True)
        ]

    def predict_spans(self, X: Iterable[Text]) -> list[Prediction]:
        """Return the spans of each text, with character offsets."""
        return list(self.predictor_.predict_stream(X))

    def score(self, X: Iterable[list[str]], y: Iterable[Sequence[str]], sample_weight: Any = None) -> float:
        """Return word accuracy; `sample_weight` weighs sentences.

        Raises:
            DataError: the words, tags or weights cannot be used, or there are none.
        """
        sentences, gold = tagged_rows(X, y, SCORE)
        weights = score_weights(sample_weight, len(sentences))
        lengths = [len(words) for words in sentences]
        pairs = zip(self.predict(sentences), gold, strict=True)
        right = [sum(a == b for a, b in zip(found, names_of(tags), strict=True)) for found, tags in pairs]
        return float((weights * right).sum() / (weights * lengths).sum())
