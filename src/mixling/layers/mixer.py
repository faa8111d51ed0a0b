"""The base classes of token mixers: a module from (B, N, D) and a mask to (B, N, D), and the configuration of one."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from mixling.config import parse
from mixling.errors import ConfigError, shown
from mixling.layers.masks import as_mask, check_tokens
from mixling.layers.positions import RelativeBias, Size
from mixling.networks.building import config_of

# What a mixer remembers between steps; the first axis of every tensor is the batch, so that a beam search can pick
# some of its texts.
State = dict[str, Tensor]

# Steps keep their latest positions apart from the earlier ones, so that not all are copied at each step: at least
# `_NEW`, and more where they have fewer than `_NEW_NUMBERS` numbers, which are copied in no time.
_NEW = 32
_NEW_NUMBERS = 1 << 16


DEFAULT_MAX_LEN = 512  # of mixers that take longer inputs, too, unless options say otherwise


class MixerType(ABCMeta):
    """The class of mixers' classes: to call one is to build its configuration, which checks all options."""

    if not TYPE_CHECKING:  # type checkers read the arguments of `__init__`

        @property
        def __signature__(cls) -> inspect.Signature:
            arguments = inspect.signature(cls.__init__)
            return arguments.replace(parameters=list(arguments.parameters.values())[1:])

        def __call__(cls, *args: Any, **options: Any) -> Any:
            config = None if args else config_of(cls)
            if config is None:
                return super().__call__(*args, **options)
            sizes = {name: options.pop(name) for name in ("dim", "max_len", "causal") if name in options}
            wanted = inspect.signature(cls.__init__).parameters
            for name in ("dim", "max_len"):
                if name in wanted and wanted[name].default is inspect.Parameter.empty and name not in sizes:
                    raise ConfigError(f"{cls.__name__}: {name} is missing: give {name}=")
                if not isinstance(size := sizes.get(name, 1), int) or size < 1:
                    raise ConfigError(f"{cls.__name__}: {name}: got {shown(size)}; allowed: a whole number from 1")
            values = parse(config, options, where=cls.__name__)
            return values.build(**{"max_len": DEFAULT_MAX_LEN, **sizes})


class Mixer(nn.Module, metaclass=MixerType):
    """A token mixer: every output position may depend on every real input position.

    A mixer is made by its class, `HyperMixing(dim=256)`, whose defaults are in its signature, or by its configuration,
    `HyperMixingConfig().build(dim=256, max_len=512)`, which files can have; both check the options alike.

    The contract, which tests check for every mixer: the shape is kept; values at padded positions never reach real
    ones, and neither do more padding or the other texts of a batch. Padding follows the text; the output there is not
    defined. A mixer built with `causal` sees no later position, and its steps give what `forward` gives. `weights` and
    `filters` are the matrices between positions by which it multiplies the tokens.

    A subclass defines `mix` and `flops`. One that can read a context sets `reads_context` and gives `mix`,
    `mixing_weights` and `initial_state` the optional arguments `context` and `context_mask`.
    """

    reads_context: ClassVar[bool] = False
    dim: int  # D, set by the configuration that built it
    causal: bool = False
    max_len: int | None = None  # where the parameters fix the longest input
    relative: RelativeBias | None  # of mixers with biases by distance

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """Mix the tokens `x`; a batch without texts or tokens is returned as it is.

        Args:
            mask: boolean, integers or floats: 1 at real tokens, 0 in padding; None: all tokens are real.
            context: where cross mixing reads its keys and values.
            context_mask: the mask of the context, as `mask`.

        Raises:
            ConfigError: tokens or a mask of another shape or type, more tokens than the parameters allow, or a context
                given to a mixer that reads none.
        """
        checked = self._checked(x, mask, context, context_mask)
        if not torch.compiler.is_compiling() and x.numel() == 0:  # many operations refuse to work on nothing
            return x
        return self.mix(*checked)

    @abstractmethod
    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Do the work of `forward`, whose arguments have been checked and whose masks are boolean."""

    @abstractmethod
    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Count the floating-point operations of one forward pass: matrix products only, 2 for each multiply-add."""

    def fft_flops(self, batch: int, length: int) -> int:
        """Estimate the operations of the FFTs of one forward pass: 5 L log2 L for L complex numbers, half for real."""
        return 0

    def weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B K N M"]]:
        """Return by name the matrices between tokens made from these tokens, one for each of K heads; by default none.

        They are those by which `forward` multiplies values, without dropout. Keys in padding have weight zero, as have
        later ones in the causal form; the rows of padded queries are not defined.
        """
        checked = self._checked(x, mask, context, context_mask)
        return {} if type(self).mixing_weights is Mixer.mixing_weights else self.mixing_weights(*checked)

    def mixing_weights(
        self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]
    ) -> dict[str, Float[Tensor, "B K N M"]]:
        """Do the work of `weights`, as `mix` does for `forward`."""
        return {}

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "K N N"]]:
        """Return by name the learned matrices between positions, which do not depend on the text; by default none.

        They are those by which `forward` multiplies a text of `length` tokens without padding, in their dense form.

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
        """Return the state before the first token: of causal mixing, or of cross mixing from `context`.

        Args:
            like: a tensor with the batch size, device and precision of the tokens to come.
        """
        if context is None:
            assert self.causal, f"{type(self).__name__}: steps are of causal mixing, or of cross mixing from a context"
            return self.initial_state(like)
        return self.initial_state(like, *self._checked(context, context_mask, name="context"))

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        """Do the work of `start`, as `mix` does for `forward`."""
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        """Return the output at the next position, whose input is `x`, and the state after it.

        All texts of a state are at one position.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def tie_positions(self, first: Mixer) -> None:
        """Use the position parameters of the first mixer of the stack in place of its own."""
        assert type(first) is type(self), "positions are shared between mixers of one type"
        assert first is not self, "the first layer keeps its positions"
        assert first.relative is not None, "there are no positions to share"
        del self.relative
        object.__setattr__(self, "relative", first.relative)  # not registered: it stays a parameter of the first only

    def check_length(self, length: Size) -> None:
        """Refuse an input that is longer than the parameters allow.

        Raises:
            ConfigError: it is.
        """
        if torch.compiler.is_compiling() or self.max_len is None or length <= self.max_len:
            return  # looking at the length would fix it in an exported graph
        raise ConfigError(
            f"{type(self).__name__}: got {length} tokens, built for at most {self.max_len}; "
            f"build it with a larger max_len{' or `resize` it' if hasattr(self, 'resize') else ''}, or cut the input"
        )

    def _checked(
        self,
        x: Tensor,
        mask: Tensor | None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        *,
        name: str = "x",
    ) -> list[Any]:
        """Return tokens and mask, then context and its mask where there is a context; masks as booleans."""
        check_tokens(x, getattr(self, "dim", None), name=name)
        out = [x, as_mask(mask, x, name="mask" if name == "x" else f"{name}_mask")]
        if context is None:
            return out
        if not self.reads_context:
            raise ConfigError(f"{type(self).__name__}: got a context; it has no form that reads one")
        return out + self._checked(context, context_mask, name="context")


def wide(x: Tensor) -> Tensor:
    """Return x in single precision at least: sums of many terms overflow half precision, or lose small ones."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def appended(past: Tensor, new: Tensor, item: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Add an item to the latest positions of a state; return its earlier and its latest positions.

    Where the latest are many they join the earlier ones, and none are left.
    """
    new = torch.cat([new, item], dim)
    count = new.shape[dim]
    if count < max(_NEW, _NEW_NUMBERS * count // max(new.numel(), 1)):
        return past, new
    return torch.cat([past, new], dim), new.new_zeros(
        [0 if axis == dim else size for axis, size in enumerate(new.shape)]
    )


def position_of(state: State) -> int:
    """Return the position that all texts of a state are at."""
    positions = state["position"].tolist()
    assert len(set(positions)) <= 1, f"the texts of one state must be at one position; they are at {positions}"
    return positions[0] if positions else 0
