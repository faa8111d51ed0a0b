"""Tagging as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from mixling.answers.predictions import Prediction
from mixling.data.examples import names_of
from mixling.data.in_memory import LabeledTexts, listed, score_weights, tagged_rows, unpacked
from mixling.errors import DataError
from mixling.estimators.base import FIT, SCORE, VALIDATION, Estimator
from mixling.tasks.tagging import Tagging


class TokenClassifier(Estimator):
    """Tag words with IOB tags: slots, entities, any spans; parameters as in `TextClassifier`."""

    _default_text, _default_label = "tokens", "slots"

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        text: str | None = None,
        label: Any = None,
        validation: Any = None,
        teacher: Any = None,
        unlabeled: Iterable[list[str]] = (),
    ) -> Self:
        """Train on words and their tags, in IOB2 or a scheme that is converted to it with a warning.

        A teacher returns probabilities for each word.

        Args:
            X: lists of words, or a table, as of `TextClassifier.fit`.
            y: their tags; None: they are in the table.
            sample_weight: (n,) numbers >= 0, one for each sentence.
            text: the table's column of the words; by default "tokens", or the only one that is left.
            label: the table's column of the tags; by default "slots".
            validation: (X, y), or a table as X, to choose the best epoch on.

        Raises:
            DataError: the numbers of words and tags differ, or a tag is impossible where it stands.
        """
        sentences, tags = self._read(X, y, FIT, text=text, label=label)
        validation_rows = None
        if validation is not None:
            validation_rows = tagged_rows(*self._read_validation(validation, VALIDATION), VALIDATION)
        more = [unpacked(words) for words in listed(unlabeled, "sentences")]
        self._fit(Tagging.name, tagged_rows(sentences, tags, FIT), validation_rows, sample_weight, teacher, more)
        return self

    def predict(self, X: Any) -> Any:
        """Return the tags of each sentence's words; words beyond the model's maximum length are tagged O.

        After `set_output` a table with the columns tokens, tags and spans.
        """
        sentences = [unpacked(words) for words in listed(self._texts(X), "sentences")]
        for number, words in enumerate(sentences):
            if not isinstance(words, list):
                got = f"item {number} is of type {type(words).__name__}"
                raise DataError(f"{got}; a sentence is a list of words here, and predict_spans takes texts")
        if (library := self._output()) is not None:
            return self._as_table(library, self.predictor_.columns(sentences), X)
        return self._tags(sentences)

    def _tags(self, sentences: list[list[str]]) -> list[list[str]]:
        found = self.predictor_.predict_stream(sentences)
        return [
            [*(item.tags or ()), *("O" for _ in words[len(item.tags or ()) :])]
            for words, item in zip(sentences, found, strict=True)
        ]

    def predict_spans(self, X: Any) -> list[Prediction]:
        """Return the spans of each text, with character offsets."""
        return list(self.predictor_.predict_stream(self._texts(X)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return word accuracy; `sample_weight` weighs sentences, X and y are as of `fit`.

        Raises:
            DataError: the words, tags or weights cannot be used, or there are none.
        """
        sentences, gold = self._scored_rows(X, y)
        weights = score_weights(sample_weight, len(sentences))
        lengths = list(map(len, sentences))
        pairs = zip(self._tags(sentences), gold, strict=True)
        right = [sum(a == b for a, b in zip(found, names_of(tags), strict=True)) for found, tags in pairs]
        return float((weights * right).sum() / (weights * lengths).sum())

    def _scored_rows(self, X: Any, y: Any) -> LabeledTexts:
        return tagged_rows(*self._read_again(X, y, SCORE), SCORE)
