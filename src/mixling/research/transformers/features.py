"""Texts as the features that models with hashed words read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import BatchFeature, FeatureExtractionMixin

from mixling.config import parse
from mixling.data.batches import pad_targets, real_tokens
from mixling.errors import ConfigError
from mixling.research.transformers.modeling import MixlingConfig
from mixling.text.config import TextConfig
from mixling.text.encoder import Text, TextEncoder, train_vocabulary
from mixling.text.vocabulary import Vocabulary

_IGNORED = -100  # the label of a token that has none
_LABELS = ("labels", "label", "label_ids")


class MixlingFeatureExtractor(FeatureExtractionMixin):
    """Encodes texts, pairs of texts or lists of words for a model; also collates examples for `Trainer`.

    It is saved as preprocessor_config.json, with its vocabulary.

    Args:
        text: the values of a `TextConfig`.
        vocabulary: name and content of its file; see `Vocabulary.serialize`.
    """

    model_input_names: ClassVar[list[str]] = ["input_ids", "attention_mask"]

    def __init__(self, text: Mapping[str, Any], vocabulary: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = dict(text)
        self.vocabulary = list(vocabulary)
        name, content = vocabulary
        config = parse(TextConfig, text, where="MixlingFeatureExtractor.text")
        self._encoder = TextEncoder(config, Vocabulary.parse(name, content))

    @classmethod
    def from_encoder(cls, encoder: TextEncoder) -> MixlingFeatureExtractor:
        """Return the feature extractor with the configuration and vocabulary of an encoder."""
        return cls(encoder.config.to_dict(), encoder.vocabulary.serialize())

    @classmethod
    def train(cls, texts: Sequence[Text], config: MixlingConfig) -> MixlingFeatureExtractor:
        """Return a feature extractor for a new model, with a vocabulary trained on texts.

        Raises:
            DataError: the texts have no words.
        """
        text = config.mixling.text
        vocabulary = train_vocabulary(texts, text)
        return cls.from_encoder(TextEncoder(text.for_vocabulary(vocabulary), vocabulary))

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of texts."""
        return self._encoder

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON values that `from_dict` reads."""
        return {"feature_extractor_type": type(self).__name__, "text": self.text, "vocabulary": self.vocabulary}

    def __call__(self, texts: Text | Sequence[Text], **kwargs: Any) -> BatchFeature:
        """Return the tensors of a batch, padded to its longest text.

        Args:
            texts: texts, pairs of texts (tuples), or sentences as lists of words; there may be none.

        Returns:
            input_ids: (B, N, P) features of the words; attention_mask: (B, N); and feature_weights: (B, N, P), unless
            all are 1.
        """
        batch: Sequence[Text] = [texts] if isinstance(texts, str | tuple) else texts
        rows = [encoded.words for encoded in self._encoder.encode(batch)]
        mask = real_tokens(rows)
        bags = self._encoder.bags(np.concatenate([np.empty(0, np.int32), *rows]))
        out = {"input_ids": _scattered(bags.features.astype(np.int64), mask), "attention_mask": mask.astype(np.int64)}
        if bags.weights is not None:
            out["feature_weights"] = _scattered(bags.weights, mask)
        return BatchFeature({name: torch.from_numpy(values) for name, values in out.items()})

    def collate(self, examples: Sequence[Mapping[str, Any]]) -> Any:  # a BatchFeature, where Trainer states a dict
        """Return a batch of examples, as `data_collator` of `Trainer` (with `remove_unused_columns=False`).

        Args:
            examples: rows with `text` (and `text_pair`) or `tokens`, and `label` or `labels`: a number, a list of them
                for several labels, or one for each word.

        Raises:
            ConfigError: there is neither a text nor a list of words.
        """
        batch = self([_text(example) for example in examples])
        name = next((name for name in _LABELS if name in examples[0]), None)
        if name is None:
            return batch
        labels = [np.asarray(example[name]) for example in examples]
        if "tokens" in examples[0]:
            width = batch["input_ids"].shape[1]
            batch["labels"] = torch.from_numpy(pad_targets([row[:width] for row in labels], width, _IGNORED))
        else:
            stacked = np.stack(labels)
            batch["labels"] = torch.from_numpy(stacked.astype(np.float32 if stacked.dtype.kind == "f" else np.int64))
        return batch


def _scattered(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the values (T, P) of all real tokens at their positions (B, N, P), with zeros in padding."""
    out = np.zeros((*mask.shape, values.shape[1]), values.dtype)
    out[mask] = values
    return out


def _text(example: Mapping[str, Any]) -> Text:
    if "tokens" in example:
        return list(example["tokens"])
    if "text" not in example:
        raise ConfigError(
            f"an example has the columns {', '.join(example)}; needed: 'text' (and 'text_pair') or 'tokens'"
        )
    return (example["text"], example["text_pair"]) if "text_pair" in example else example["text"]
