"""The encoder-decoder for text to text."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.layers.dropout import dropout
from mixling.layers.mixer import Mixer, State
from mixling.layers.positions import Positions
from mixling.models.block import Block, BlockState, DeepStackConfig
from mixling.models.encoder import Encoder, StackState
from mixling.models.model import seeded
from mixling.networks.blocks import PositionKind

# On a CPU O x is faster than x^T O^T for few rows x, if the table O exceeds the cache: with 32,128 subwords of width
# 512, 2 rows take 5 ms instead of 16, 4 rows 6 instead of 13, 8 rows 8 instead of 14. From 10 rows on, and for small
# tables, it is slower.
_FEW_ROWS = 8
_LARGE_TABLE = 2**22


class EncoderDecoderConfig(Config):
    """The configuration of an encoder-decoder.

    The maximum lengths hold for training. After it, longer texts can be read and generated unless the parameters of a
    mixer limit the length; `max_source_len` and `max_target_len` of the model are that limit, or None.
    """

    dim: int = Field(default=64, ge=1, description="width of the token vectors")
    max_source_len: int = Field(default=128, ge=1, description="maximum number of subwords of a source in training")
    max_target_len: int = Field(
        default=128,
        ge=1,
        description="maximum number of subwords of a target, with the start token but not the end token",
    )
    encoder: DeepStackConfig = DeepStackConfig()
    decoder: DeepStackConfig = DeepStackConfig()
    source_positions: PositionKind = Field(default="none", description="position embeddings of the source")
    tied: bool = Field(default=False, description="share input and output embeddings; T5.1.1 does not")
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="dropout on embeddings and on the input of the output table"
    )

    @model_validator(mode="after")
    def _decoder_reads_the_source(self) -> EncoderDecoderConfig:
        if not self.decoder.blocks or all(block.cross is None for block in self.decoder.layers):
            raise ValueError("decoder: none of its layers has `cross`, so it would never read the source")
        return self


class EncoderDecoder(nn.Module):
    """An encoder-decoder: logits_t = O dec(E y_1 .. E y_t, enc(E x + p)) are the scores of the subword after y_t.

    E (V, D) is the embedding table of both texts, O (V, D) the output table; tied, logits = D^-1/2 E dec(...), as in T5
    1.0. p are `Positions`; T5 has none, so that only its relative biases, near the ends, show absolute positions.
    Source: T5, section 2.1 (the model and its blocks); T5.1.1 (gated feed-forward, separate O without scale).
    Initialization: E from N(0, 1), as in T5; O from N(0, 1/D), so that the initial predictions are nearly uniform.
    Targets need no mask: their padding comes last, which causal mixing does not see.
    """

    embedding_tables = ("table.weight",)  # parameters that `embedding_lr` applies to

    def __init__(self, config: EncoderDecoderConfig, *, vocab_size: int) -> None:
        super().__init__()
        dim = config.dim
        self.dropout = config.dropout
        self.table = nn.Embedding(vocab_size, dim)
        self.positions = Positions(config.source_positions, dim=dim, max_len=config.max_source_len)
        try:
            self.encoder = Encoder(
                config.encoder.blocks, dim=dim, max_len=config.max_source_len, final_norm=config.encoder.final_norm
            )
        except ConfigError as error:
            raise ConfigError(f"encoder.{error}") from None
        try:
            self.decoder = Encoder(
                config.decoder.blocks,
                dim=dim,
                max_len=config.max_target_len,
                final_norm=config.decoder.final_norm,
                causal=True,
                context_len=config.max_source_len,
            )
        except ConfigError as error:
            raise ConfigError(f"decoder.{error}") from None
        self.output = None if config.tied else nn.Linear(dim, vocab_size, bias=False)
        if self.output is not None:
            nn.init.normal_(self.output.weight, std=dim**-0.5)
        readers = [layer.cross for layer in self.decoder.layers if isinstance(layer, Block) and layer.cross is not None]
        longest = [_longest(part) for part in (self.encoder, *readers)]
        if self.positions.weight is not None:
            longest.append(config.max_source_len)
        self.max_source_len = min((length for length in longest if length is not None), default=None)
        self.max_target_len = _longest(self.decoder)

    def forward(
        self, source: Int[Tensor, "B N"], source_mask: Shaped[Tensor, "B N"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the scores of the subword after each one of `target`, which begins with the start token."""
        return self.decode(self.encode(source, source_mask), source_mask, target)

    def encode(self, source: Int[Tensor, "B N"], source_mask: Shaped[Tensor, "B N"] | None) -> Float[Tensor, "B N D"]:
        """Return the vectors that the decoder reads.

        Raises:
            ConfigError: the source is longer than the mixers' parameters allow.
        """
        _check_length("source", source.shape[1], self.max_source_len)
        x = self._dropped(self.positions(self.table(source)))
        return self._dropped(self.encoder(x, source_mask))

    def decode(
        self, encoded: Float[Tensor, "B N D"], source_mask: Shaped[Tensor, "B N"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the scores as `forward` does, given the result of `encode`.

        Raises:
            ConfigError: the target is longer than the mixers' parameters allow.
        """
        _check_length("target", target.shape[1], self.max_target_len)
        return self._logits(self.decoder(self._vectors(target), None, encoded, source_mask))

    def start(self, source: Int[Tensor, "B N"], source_mask: Shaped[Tensor, "B N"] | None) -> StackState:
        """Return the state before the first subword of the target, with everything that all steps share."""
        encoded = self.encode(source, source_mask)
        return self.decoder.start(encoded.new_zeros(encoded.shape[0], encoded.shape[2]), encoded, source_mask)

    def step(self, subwords: Int[Tensor, " B"], state: StackState) -> tuple[Float[Tensor, "B V"], StackState]:
        """Return the scores of the next subwords, and the state after `subwords`."""
        x, state = self.decoder.step(self._vectors(subwords), state)
        return self._logits(x), state

    def flops(self, batch: int, length: int, target_length: int) -> int:
        """Return the number of floating-point operations of `forward`, counted as in `Mixer.flops`."""
        output = 2 * batch * target_length * self.table.embedding_dim * self.table.num_embeddings
        return self.encoder.flops(batch, length) + self.decoder.flops(batch, target_length, length) + output

    def _vectors(self, subwords: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return self._dropped(self.table(subwords))

    def _logits(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        x = self._dropped(x)
        table = self.table.weight if self.output is None else self.output.weight
        if self.output is None:
            x = x * x.shape[-1] ** -0.5
        if x.ndim == 2 and 1 < len(x) <= _FEW_ROWS and table.numel() >= _LARGE_TABLE and table.device.type == "cpu":
            return (table @ x.mT).mT
        return F.linear(x, table)

    def _dropped(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return dropout(x, self.dropout, self.training)


def build_encoder_decoder(config: EncoderDecoderConfig, *, vocab_size: int, seed: int | None = None) -> EncoderDecoder:
    """Build the model.

    Args:
        vocab_size: V, the number of rows of the embedding table.
        seed: makes the initial weights independent of the state of torch's generator; None: use that.

    Raises:
        ConfigError: a mixer cannot be used in the encoder or the decoder.
    """
    with seeded(seed):
        return EncoderDecoder(config, vocab_size=vocab_size)


def pick(state: StackState, rows: Int[Tensor, " R"], *, same_sources: bool = False) -> StackState:
    """Return the state of some rows of the batch, which may be repeated.

    Args:
        same_sources: each new row has the same source as the old row with its index, so that the state of the source
            need not be copied.
    """
    return tuple(
        BlockState(
            tuple(_rows(mixer, rows) for mixer in block.mixers),
            block.cross if same_sources else _rows(block.cross, rows),
        )
        for block in state
    )


def _rows(state: State, rows: Int[Tensor, " R"]) -> State:
    return {name: value.index_select(0, rows) for name, value in state.items()}


def _longest(part: nn.Module) -> int | None:
    """Return the maximum length that the parameters of all mixers in a module allow; None: any length."""
    mixers = (module for module in part.modules() if isinstance(module, Mixer))
    return min((mixer.max_len for mixer in mixers if mixer.max_len is not None), default=None)


def _check_length(name: str, length: int, longest: int | None) -> None:
    if torch.compiler.is_compiling() or longest is None or length <= longest:
        return  # while compiling, a comparison would fix the length in the exported graph
    raise ConfigError(
        f"{name}: got {length} tokens, but the model is built for at most {longest}; truncate the text, or build the "
        f"model with max_{name}_len = {length}"
    )
