"""What every token mixer is: a module from (B, N, D) and a mask to (B, N, D), and a configuration that builds it."""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from mixling.config import Config, parse
from mixling.errors import ConfigError, near_miss
from mixling.mixers import mixer_types
from mixling.mixers.masks import as_mask, check_tokens
from mixling.mixers.positions import RelativeBias, Size

# What step-by-step mixing remembers; the first axis of every tensor is the batch, so that a beam search can pick rows.
State = dict[str, Tensor]

# Steps hold their last positions apart from the earlier ones, so that not all are copied at each: at least `_NEW`, and
# more where they have fewer than `_NEW_NUMBERS` numbers, which are copied in no time.
_NEW, _NEW_NUMBERS = 32, 1 << 16


def wide(x: Tensor) -> Tensor:
    """x in single precision at least: sums of many terms leave the range of half precision, or lose small ones."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def appended(past: Tensor, new: Tensor, item: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """What a step remembers, as earlier positions and last ones, with one more among the last.

    Where these are many they join the others, and there are no last ones.
    """
    new = torch.cat([new, item], dim)
    count = new.shape[dim]
    if count < max(_NEW, _NEW_NUMBERS * count // max(new.numel(), 1)):
        return past, new
    return torch.cat([past, new], dim), new.new_zeros(
        [0 if axis == dim else size for axis, size in enumerate(new.shape)]
    )


class Mixer(nn.Module, ABC):
    """A token mixer: every output position may depend on every real input position.

    The contract, which tests check for every file of this package: the shape is kept; what stands at padded positions
    never reaches real ones, and neither do more padding or another batch mate. Padding stands after the text; what
    comes out there is not defined. A mixer built with `causal` sees no later position, and its steps give what
    `forward` gives. Matrices between positions that it multiplies the tokens by are what `weights` and `filters` give.
    """

    dim: int  # D, of those that a configuration built
    max_len: int | None = None  # where the parameters fix the longest input
    relative: RelativeBias | None  # of mixers that have biases by distance

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """Mix the tokens `x`.

        Args:
            mask: boolean, or integers or floats: 1 at real tokens, 0 in padding; None: all tokens are real.
            context: where cross mixing reads its keys and values from.
            context_mask: of the context, as `mask`.

        Raises:
            ConfigError: tokens or a mask of another shape or kind, or more tokens than the parameters allow.
        """
        return self.mix(*self._checked(x, mask, context, context_mask))

    @abstractmethod
    def mix(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """Do the work of `forward`, whose arguments have been checked and whose masks are booleans."""

    @abstractmethod
    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Floating-point operations of one forward pass (2 per multiply-add), matrix products only."""

    def weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B K N M"]]:
        """By name, the matrices between tokens that it makes of these, one for each of K heads; none by default.

        They are those that `forward` multiplies values by, without dropout: keys in padding weigh nothing, and later
        ones in the causal form; what stands in the rows of padded queries is not defined.
        """
        return self.mixing_weights(*self._checked(x, mask, context, context_mask))

    def mixing_weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B K N M"]]:
        """Do the work of `weights`, as `mix` does that of `forward`."""
        return {}

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "K N N"]]:
        """By name, the matrices between positions that it has learned and no text changes; none by default.

        They are those that `forward` multiplies a text of `length` tokens without padding by, in their dense form.

        Args:
            length: None: the longest that the parameters know.

        Raises:
            ConfigError: it is longer than that.
        """
        return {}

    def start(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> State:
        """The state before the first token, of causal mixing, or of cross mixing from `context`.

        Args:
            like: only its batch size, device and precision count.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        """The output at the next position, whose input is `x`, and the state after it.

        All rows of a state are at one position.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def share_positions(self, first: Mixer) -> None:
        """Use the position parameters of the first mixer of the stack instead of own ones."""
        assert type(first) is type(self), "positions are shared between mixers of one kind"
        assert first is not self, "the first layer keeps its positions"
        assert first.relative is not None, "there are no positions to share"
        del self.relative
        object.__setattr__(self, "relative", first.relative)  # not registered: it stays the first's, once

    def _checked(
        self, x: Tensor, mask: Tensor | None, context: Tensor | None, context_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The arguments of `forward`, masks as booleans; that of a context stays absent."""
        dim = getattr(self, "dim", None)
        check_tokens(x, dim)
        if context is not None:
            check_tokens(context, dim, name="context")
            if context_mask is not None:
                context_mask = as_mask(context_mask, context, name="context_mask")
        return x, as_mask(mask, x), context, context_mask

    @property
    def borrowed(self) -> nn.Module | None:
        """Position parameters of another mixer that this one uses."""
        return vars(self).get("relative")

    def check_length(self, length: Size) -> None:
        """Refuse an input that is longer than the parameters allow.

        Raises:
            ConfigError: it is.
        """
        if torch.compiler.is_compiling() or self.max_len is None or length <= self.max_len:
            return  # a look at the length would fix it in an exported graph
        raise ConfigError(
            f"{type(self).__name__}: got {length} tokens, built for at most {self.max_len}; "
            f"build it with a larger max_len{' or `resize` it' if hasattr(self, 'resize') else ''}, or cut the input"
        )


def real(x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    """Zeros in padding, whatever stands there: a product with a mask of zeros would keep what is not finite."""
    return x.masked_fill(~mask[..., None], 0.0)


def position_of(state: State) -> int:
    """The position that all rows of a state are at."""
    positions = state["position"].tolist()
    assert len(set(positions)) <= 1, f"rows of one state must be at one position; they are at {positions}"
    return positions[0] if positions else 0


class MixerConfig(Config, ABC):
    """The configuration of one mixer; `type` is the name of the file that holds it.

    The docstring of each ends in its options, as their fields describe them.
    """

    type: str
    # What a mixer cannot do is refused where it is built, not where it runs.
    supports_causal: ClassVar[bool] = False
    supports_cross: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        options = {name: field.description for name, field in cls.model_fields.items() if name != "type"}
        if options:
            lines = "".join(f"\n    {name}: {description}" for name, description in options.items())
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nArgs:{lines}\n"

    @property
    def shared_positions(self) -> dict[str, Any] | None:
        """Where all layers of a stack use the position parameters of the first: the values they must agree in."""
        return None

    @abstractmethod
    def _build(self, dim: int, max_len: int, causal: bool) -> Mixer: ...

    def build(self, dim: int, max_len: int, causal: bool = False, cross: bool = False) -> Mixer:
        """Make the mixer for tokens of width `dim` and inputs of at most `max_len` tokens.

        Args:
            cross: it will be given a context.

        Raises:
            ConfigError: `causal` or `cross` is asked of a mixer that has no such form.
        """
        if causal and not self.supports_causal:
            raise ConfigError(f"mixer {self.type!r} has no causal form")
        if cross and not self.supports_cross:
            raise ConfigError(f"mixer {self.type!r} has no form that reads a context (with these options)")
        mixer = self._build(dim, max_len, causal)
        mixer.dim = dim
        return mixer


def mixer_config(values: Any) -> MixerConfig:
    """A mixer's configuration from a table with a `type`.

    Raises:
        ConfigError: it is no table, there is no such mixer, or a key that it does not have.
    """
    if isinstance(values, MixerConfig):
        return values
    if not isinstance(values, dict):
        raise ConfigError(f'got {values!r}; a mixer is a table with a type, such as {{ type = "token_mlp" }}')
    name = values.get("type")
    if name not in mixer_types():
        raise ConfigError(f"unknown mixer {name!r}; {near_miss(str(name), mixer_types())}")
    return parse(config_class(name), values, where=f"mixer {name!r}")


def config_class(name: str) -> type[MixerConfig]:
    """The one MixerConfig that the file of this name holds."""
    module = importlib.import_module(f"mixling.mixers.{name}")
    found = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, MixerConfig) and item.__module__ == module.__name__
    ]
    assert len(found) == 1, f"{module.__name__} must hold one MixerConfig, it holds {len(found)}"
    return found[0]
