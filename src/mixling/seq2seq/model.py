"""Text to text: an encoder of the source, and a causal decoder that reads it, over one table of subwords."""

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
from mixling.layers.positions import PositionKind, Positions
from mixling.models.block import Block, BlockState
from mixling.models.encoder import Encoder, StackConfig, StackState

# On a CPU O x is faster than x^T O^T for few rows of a table that no cache holds: at 32,128 subwords of width 512, 2
# rows take 5 ms against 16, 4 take 6 against 13, 8 take 8 against 14; from 10 rows on, and for small tables, it is
# slower.
_FEW_ROWS = 8
_LARGE_TABLE = 2**22


class EncoderDecoderConfig(Config):
    """A model from the subwords of one text to those of another.

    What is longer than in training is read and written too, unless a mixer's parameters fix the longest input: the
    model's own `max_source_len` and `max_target_len` say that, and are None where nothing does.
    """

    dim: int = Field(64, ge=1, description="width of the token vectors")
    max_source_len: int = Field(128, ge=1, description="subwords of the longest source that is trained on")
    max_target_len: int = Field(128, ge=1, description="as max_source_len; the first token is counted, the last not")
    encoder: StackConfig = StackConfig()
    decoder: StackConfig = StackConfig()
    source_positions: PositionKind = Field("none", description="vectors added to the source's tokens by place")
    tied: bool = Field(False, description="the input table is the output table too; T5.1.1 has one of its own")
    dropout: float = Field(0.0, ge=0, lt=1, description="on the table's vectors, and on what the output table reads")

    @model_validator(mode="after")
    def _decoder_reads_the_source(self) -> EncoderDecoderConfig:
        if all(block.cross is None for block in self.decoder.blocks):
            raise ValueError("decoder: none of its layers has `cross`, so that it would never read the source")
        return self


class EncoderDecoder(nn.Module):
    """logits_t = O dec(E y_1 .. E y_t, enc(E x + p)): the scores of the unit after y_t.

    E (V, D) is the table of both texts, O (V, D) that of the answers; tied, logits = D^-1/2 E dec(...), as T5 1.0.
    p are `Positions`, T5 has none: where a token stands in the source, which biases by distance say only by its ends.
    Source: T5, section 2.1 (the model and its blocks); T5.1.1 (gated feed-forward, O of its own and no scale).
    Decided beyond it: E starts at N(0, 1), as T5's; O at N(0, 1/D), so that the first answers are near uniform.
    Targets need no mask: their padding stands after them, where causal mixing does not look.
    """

    embedding_tables = ("table.weight",)  # parameters with a learning rate of their own

    def __init__(self, config: EncoderDecoderConfig, *, vocab_size: int) -> None:
        super().__init__()
        dim, self.dropout = config.dim, config.dropout
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
        """The scores of the subwords after each of `target`, whose first is the start and not of the answer."""
        return self.decode(self.encode(source, source_mask), source_mask, target)

    def encode(self, source: Int[Tensor, "B N"], source_mask: Shaped[Tensor, "B N"] | None) -> Float[Tensor, "B N D"]:
        """The vectors that the decoder reads.

        Raises:
            ConfigError: the source is longer than the mixers' parameters allow.
        """
        _check_length("source", source.shape[1], self.max_source_len)
        x = self._dropped(self.positions(self.table(source)))
        return self._dropped(self.encoder(x, source_mask))

    def decode(
        self, encoded: Float[Tensor, "B N D"], source_mask: Shaped[Tensor, "B N"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """As `forward`, from what `encode` gave.

        Raises:
            ConfigError: the target is longer than the mixers' parameters allow.
        """
        _check_length("target", target.shape[1], self.max_target_len)
        return self._logits(self.decoder(self._vectors(target), None, encoded, source_mask))

    def start(self, source: Int[Tensor, "B N"], source_mask: Shaped[Tensor, "B N"] | None) -> StackState:
        """The state before the first unit of the target; what is the same for all steps is done here."""
        encoded = self.encode(source, source_mask)
        return self.decoder.start(encoded.new_zeros(encoded.shape[0], encoded.shape[2]), encoded, source_mask)

    def step(self, subwords: Int[Tensor, " B"], state: StackState) -> tuple[Float[Tensor, "B V"], StackState]:
        """The scores of the subwords after `subwords`, and the state after these."""
        x, state = self.decoder.step(self._vectors(subwords), state)
        return self._logits(x), state

    def flops(self, batch: int, length: int, target_length: int) -> int:
        """Of `forward`, as `Mixer.flops`."""
        answers = 2 * batch * target_length * self.table.embedding_dim * self.table.num_embeddings
        return self.encoder.flops(batch, length) + self.decoder.flops(batch, target_length, length) + answers

    def _vectors(self, subwords: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        return self._dropped(self.table(subwords))

    def _logits(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        x, table = self._dropped(x), self.table.weight if self.output is None else self.output.weight
        if self.output is None:
            x = x * x.shape[-1] ** -0.5
        if x.ndim == 2 and 1 < len(x) <= _FEW_ROWS and table.numel() >= _LARGE_TABLE and table.device.type == "cpu":
            return (table @ x.mT).mT
        return F.linear(x, table)

    def _dropped(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return dropout(x, self.dropout, self.training)


def build_encoder_decoder(config: EncoderDecoderConfig, *, vocab_size: int, seed: int | None = None) -> EncoderDecoder:
    """Build the model; with a seed, its first weights do not depend on what random numbers were drawn before.

    Args:
        vocab_size: V, rows of the table.

    Raises:
        ConfigError: a mixer cannot be built as the encoder or the decoder needs it; it says which.
    """
    if seed is None:
        return EncoderDecoder(config, vocab_size=vocab_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EncoderDecoder(config, vocab_size=vocab_size)


def pick(state: StackState, rows: Int[Tensor, " R"], *, same_sources: bool = False) -> StackState:
    """The state of these rows of the batch, in this order; a row may come more than once, or not at all.

    Args:
        same_sources: each row's source is that of the row which stood there before: what was read of it need not move.
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
    """The longest input that the parameters of all mixers in it allow; None: any."""
    mixers = (module for module in part.modules() if isinstance(module, Mixer))
    return min((mixer.max_len for mixer in mixers if mixer.max_len is not None), default=None)


def _check_length(name: str, length: int, longest: int | None) -> None:
    if torch.compiler.is_compiling() or longest is None or length <= longest:
        return  # a look at the length would fix it in an exported graph
    raise ConfigError(
        f"{name}: got {length} tokens, the model is built for at most {longest}; cut the text, or build it with "
        f"max_{name}_len = {length}"
    )
