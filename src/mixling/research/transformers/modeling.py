"""The configuration and the models.

A model reads either the token ids of a Hugging Face tokenizer, if its embedding layer is a table with a row for each of
them, or the hashed features that `MixlingFeatureExtractor` makes of words.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput, TokenClassifierOutput

from mixling.config import parse
from mixling.errors import ConfigError
from mixling.layers.masks import as_mask
from mixling.models.heads import PoolingHead, TokenHead
from mixling.models.model import Model
from mixling.networks.config import ModelConfig
from mixling.networks.presets import model_config


class MixlingConfig(PreTrainedConfig):
    """The configuration of a model of mixling.

    Args:
        model: the values of a `ModelConfig`; `from_preset` makes them.
        pad_token_id: the token id of padding, which is not read where there is no attention mask.
    """

    model_type = "mixling"

    model: dict[str, Any] | None = None
    pad_token_id: int | None = 0

    @classmethod
    def from_preset(
        cls, name: str, *, tokenizer: Any = None, changes: dict[str, Any] | None = None, **kwargs: Any
    ) -> MixlingConfig:
        """Return the configuration of a preset or TOML file.

        Args:
            name: see `mixling models`.
            tokenizer: a Hugging Face tokenizer, for a model with an embedding table of its token ids; None: the texts
                are read by a `MixlingFeatureExtractor`.
            changes: nested values that override the preset, such as `{"dim": 32}`.
            kwargs: values of `PreTrainedConfig`, such as `num_labels`.

        Raises:
            ConfigError: unknown preset or key, or the model does not read token ids.
        """
        config = model_config(name, changes)
        projection = config.text.projection
        if tokenizer is not None:
            if not projection.trained_rows:
                raise ConfigError(
                    f"model {name!r}: its projection {projection.type!r} hashes words, so that it does not read the "
                    "token ids of a tokenizer; use a MixlingFeatureExtractor, or a model with an embedding table, such "
                    "as 'hypermixer'"
                )
            config = config.model_copy(update={"text": config.text.with_rows(len(tokenizer))})
            kwargs.setdefault("pad_token_id", tokenizer.pad_token_id)
        return cls(model=config.to_dict(), **kwargs)

    @property
    def mixling(self) -> ModelConfig:
        """The configuration of the model.

        Raises:
            ConfigError: it is missing or invalid.
        """
        if self.model is None:
            raise ConfigError('MixlingConfig: model is missing; use MixlingConfig.from_preset("mixling-small")')
        return parse(ModelConfig, self.model, where="MixlingConfig.model")


class MixlingPreTrainedModel(PreTrainedModel):
    """What all models share."""

    config_class = MixlingConfig
    config: MixlingConfig
    base_model_prefix = "mixling"
    main_input_name = "input_ids"

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Initialize what a checkpoint does not have; the constructors have initialized all other models.

        `from_pretrained` builds models without memory, so that tables that are computed are missing as well.
        """
        tensors = dict([*self.named_parameters(), *self.named_buffers()])
        absent = [name for name, tensor in tensors.items() if not getattr(tensor, "_is_hf_initialized", False)]
        if not self._built_empty or not absent:
            return
        fresh = type(self)(self.config)
        values = dict([*fresh.named_parameters(), *fresh.named_buffers()])
        for name in absent:
            initialization.copy_(tensors[name], values[name])

    def _finish(self) -> None:
        """Finish the construction of a model."""
        self._built_empty = any(parameter.is_meta for parameter in self.parameters())
        self.post_init()


class MixlingModel(MixlingPreTrainedModel):
    """Embedding layer and encoder, without a head."""

    def __init__(self, config: MixlingConfig) -> None:
        super().__init__(config)
        model = Model(config.mixling, num_outputs=1, output="tokens")
        self.embedding = model.embedding
        self.encoder = model.encoder
        text = config.mixling.text
        self._num_rows = text.num_rows
        self._segments = text.segments
        self._reads_ids = text.projection.trained_rows
        self._finish()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        feature_weights: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Return the token vectors (B, N, D).

        Args:
            input_ids: (B, N) token ids, or (B, N, P) features.
            attention_mask: (B, N), 1 at real tokens; None: padding is recognized by its id, or there is none.
            token_type_ids: (B, N) the number of each token's segment, for models that tell segments apart.
            feature_weights: (B, N, P) of the features; None: all are 1.

        Raises:
            ConfigError: the ids do not fit the model, or a mask has another shape.
        """
        attention_mask = self.mask(input_ids, attention_mask)
        if input_ids.ndim == 2:
            input_ids = self._features(input_ids, token_type_ids)
        mask = as_mask(attention_mask, input_ids, name="attention_mask")
        index = torch.where(mask, mask.flatten().cumsum(0).view_as(mask), 0)  # 1 + the number of each real token
        weights = None if feature_weights is None else feature_weights[mask]
        x = self.embedding.embed(input_ids[mask], weights, index, mask)
        return BaseModelOutput(last_hidden_state=self.encoder(x, mask))

    def get_input_embeddings(self) -> nn.Module:
        """Return the embedding layer."""
        return self.embedding

    def mask(self, ids: Tensor, given: Tensor | None) -> Tensor | None:
        """Return the given mask, or a mask of the tokens (B, N) that are not padding; None: all are real."""
        pad = self.config.pad_token_id
        return ids != pad if given is None and ids.ndim == 2 and pad is not None else given

    def _features(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        if not self._reads_ids:
            raise ConfigError(
                f"input_ids: got the shape {tuple(ids.shape)}; this model hashes words and needs the features "
                "(batch, words, features) of a MixlingFeatureExtractor"
            )
        features = ids[..., None]
        if self._segments:  # their rows are the last of the table
            segments = torch.zeros_like(ids) if segments is None else segments
            features = torch.cat([features, (self._num_rows - 2 + segments)[..., None]], dim=2)
        return features


class _MixlingClassifier(MixlingPreTrainedModel):
    """A model with a head, whose class and output a subclass names.

    Attributes:
        logits_argument: the argument of the library's loss.
    """

    head_class: ClassVar[type[PoolingHead | TokenHead]]
    output_class: ClassVar[type[SequenceClassifierOutput | TokenClassifierOutput]]
    logits_argument: ClassVar[str]

    def __init__(self, config: MixlingConfig) -> None:
        super().__init__(config)
        self.mixling = MixlingModel(config)
        values = config.mixling
        self.head = self.head_class(values.head, dim=values.dim, num_outputs=cast(int, config.num_labels))
        self._finish()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        feature_weights: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | TokenClassifierOutput:
        """Return the logits, and with labels the loss; see `MixlingModel.forward`.

        Args:
            labels: (B,) or (B, C) of texts; (B, N) of tokens, -100 where there is none.
        """
        attention_mask = self.mixling.mask(input_ids, attention_mask)
        x = self.mixling(input_ids, attention_mask, token_type_ids, feature_weights).last_hidden_state
        logits = self.head(x, attention_mask)
        loss = None
        if labels is not None:
            # `Trainer` averages the loss over accumulated batches by this argument, if it is there.
            options = {name: kwargs[name] for name in ("num_items_in_batch",) if name in kwargs}
            options |= {self.logits_argument: logits}
            loss = cast(Any, self).loss_function(labels=labels, config=self.config, **options)
        return self.output_class(loss=loss, logits=logits)


class MixlingForSequenceClassification(_MixlingClassifier):
    """A model with logits (B, C) for each text; also for several labels, or numbers, by `config.problem_type`."""

    head_class = PoolingHead
    output_class = SequenceClassifierOutput
    logits_argument = "pooled_logits"


class MixlingForTokenClassification(_MixlingClassifier):
    """A model with logits (B, N, C) for each token."""

    head_class = TokenHead
    output_class = TokenClassifierOutput
    logits_argument = "logits"
