"""The Remixer's mixing block: one learned matrix of weights between positions, and what it composes of its result."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.dropout import dropout
from mixling.layers.masks import real, visible
from mixling.layers.mixer import Mixer, State, appended
from mixling.layers.positions import position_softmax
from mixling.networks.mixer import MixerConfig

LearnedAlpha = Literal["scalar", "vector", "gated"]


class Remixing(Mixer):
    """Y = X_C W3 + X', where X' = gelu(X W1) * (X W2) and X_C = a (X_S * X') + (1 - a) (X' - X_S), X_S = softmax(H) X'.

    Shapes: X, Y (N, D); W1, W2 (D, E); X', X_S, X_C (N, E); W3 (E, D); H (max_len, max_len). No biases; exact gelu.
    Cost is O(N * D * E + N^2 * E). Source: Remixer, "A Mixer-Transformer Architecture with Compositional Operators for
    NLU": the block, and Table 5 for the forms of a and for X_C = X_S (`compositional=False`). Its row (2) is labeled a
    gate between X_C and X_S and described as a form of a: `choose=True` is the former, g X_C + (1 - g) X_S in place of
    X_C with g = sigmoid(X W5), W5 (D, E), `alpha="gated"` the latter.

    The block takes the place of T5.1.1's gated feed-forward layer. The inner residual + X' needs E = D:
    - `inner_dim=None`: the equation as printed, E = D;
    - `inner_dim=E`: Y = X_C W3. With E the width of the feed-forward layer that it replaces, the block has exactly
      max_len^2 more parameters, and a's. Also without the residual where E happens to be D.

    Decided beyond the paper:
    - padding and, in the causal form, later tokens are masked before the softmax, so that the rows always sum to one; N
      tokens use the leading N x N corner of H;
    - H starts at zero: every token begins with the mean of those it sees. Its entries get gradients of their own at
      once, so nothing holds them together;
    - a is sigmoid(parameter): one number, or one for each of the E channels; or sigmoid(X W4), W4 (D, E) ("gated").
      All, and g, start at zero, that is at a = 0.5. A given number is fixed;
    - dropout falls on the entries of softmax(H), for each text anew, without bringing the rows' sums back to one.

    Args:
        dim: D, the width of the tokens.
        max_len: tokens of the longest input.
        inner_dim: E; None: D, with the inner residual.
        alpha: a: learned as one number ("scalar"), one for each channel ("vector") or from the input ("gated"), or a
            fixed number from 0 to 1.
        compositional: False: X_C = X_S, without a.
        choose: a gate chooses between X_C and X_S.
        dropout: rate on the entries of softmax(H), in training.
        causal: tokens see no later ones.
    """

    max_len: int

    def __init__(
        self,
        *,
        dim: int,
        max_len: int,
        inner_dim: int | None = None,
        alpha: LearnedAlpha | float = "scalar",
        compositional: bool = True,
        choose: bool = False,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.max_len = max_len
        self.residual = inner_dim is None
        self.inner_dim = inner_dim = dim if inner_dim is None else inner_dim
        self.dropout = dropout
        self.causal = causal
        self.gate = nn.Linear(dim, inner_dim, bias=False)  # W1
        self.value = nn.Linear(dim, inner_dim, bias=False)  # W2
        self.out = nn.Linear(inner_dim, dim, bias=False)  # W3
        self.scores = nn.Parameter(torch.zeros(max_len, max_len))  # H
        self.alpha: nn.Linear | nn.Parameter | float | None  # None: X_C = X_S, which has no use for it
        if not compositional:
            self.alpha = None
        elif alpha == "gated":
            self.alpha = nn.Linear(dim, inner_dim, bias=False)
            nn.init.zeros_(self.alpha.weight)
        elif isinstance(alpha, str):
            self.alpha = nn.Parameter(torch.zeros(inner_dim if alpha == "vector" else 1))
        else:
            self.alpha = float(alpha)
        self.choice = nn.Linear(dim, inner_dim, bias=False) if choose else None  # W5
        if self.choice is not None:
            nn.init.zeros_(self.choice.weight)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        x = real(x, mask)
        scores = self.scores[:length, :length]
        # The lowest finite number, not -inf: a row that sees nothing stays finite.
        hidden = torch.finfo(scores.dtype).min
        weights = self._weights(torch.where(visible(mask, causal=self.causal), scores, hidden))  # (B, N, N)
        inner = self._inner(x)
        return self._compose(x, inner, weights @ inner)

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "1 N N"]]:
        length = self.max_len if length is None else length
        self.check_length(length)
        return {"softmax(H)": position_softmax(self.scores[:length, :length], causal=self.causal)[None]}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        projections = 3 + isinstance(self.alpha, nn.Linear) + (self.choice is not None)
        return 2 * batch * length * self.inner_dim * (projections * self.dim + length)

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        return dict.fromkeys(("inner", "new_inner"), like.new_zeros(like.shape[0], 0, self.inner_dim))

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        # Each row of H weighs the past in its own way, so all of X' is kept: (B, positions so far, E).
        inner = self._inner(x)
        past, new = appended(state["inner"], state["new_inner"], inner[:, None], 1)
        length = past.shape[1] + new.shape[1]
        self.check_length(length)
        weights = self._weights(self.scores[length - 1, :length])
        mixed = weights[: past.shape[1]] @ past + weights[past.shape[1] :] @ new
        return self._compose(x, inner, mixed), {"inner": past, "new_inner": new}

    def _weights(self, scores: Float[Tensor, "... N"]) -> Float[Tensor, "... N"]:
        return dropout(scores.softmax(dim=-1), self.dropout, self.training)

    def _inner(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        inner: Tensor = F.gelu(self.gate(x)) * self.value(x)
        return inner

    def _compose(
        self, x: Float[Tensor, "... D"], inner: Float[Tensor, "... E"], mixed: Float[Tensor, "... E"]
    ) -> Float[Tensor, "... D"]:
        if self.alpha is None:
            composed = mixed
        else:
            a: Tensor | float
            if isinstance(self.alpha, float):
                a = self.alpha
            else:
                a = (self.alpha(x) if isinstance(self.alpha, nn.Linear) else self.alpha).sigmoid()
            composed = a * (mixed * inner) + (1 - a) * (inner - mixed)
        if self.choice is not None:
            composed = mixed + self.choice(x).sigmoid() * (composed - mixed)
        y: Tensor = self.out(composed)
        return y + inner if self.residual else y


class RemixingConfig(MixerConfig):
    """The Remixer's block."""

    type: Literal["remixing"] = "remixing"
    supports_causal = True
    inner_dim: int | None = Field(
        default=None,
        ge=1,
        description="E; None: the paper's equation, as wide as the tokens and with the inner residual; a number: the "
        "width in T5.1.1's proportions, without the residual",
    )
    alpha: LearnedAlpha | float = Field(
        default="scalar",
        description="weight of the product against the difference: learned as one number (scalar), one a channel "
        "(vector) or from the input (gated), or fixed by a number from 0 to 1",
    )
    compositional: bool = Field(default=True, description="False: the mixed tokens alone, without alpha")
    choose: bool = Field(default=False, description="a gate from the input between composed and mixed tokens")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the entries of softmax(H), in training")

    @field_validator("alpha", mode="before")
    @classmethod
    def _alpha_is_known(cls, value: Any) -> Any:
        # Left to the types, a mistake gives one error message for each of them.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value in get_args(LearnedAlpha) or (number and 0 <= value <= 1):
            return value
        raise ValueError(f"got {value!r}; it is {', '.join(get_args(LearnedAlpha))} or a number from 0 to 1")

    @model_validator(mode="after")
    def _alpha_has_a_use(self) -> RemixingConfig:
        if not self.compositional and self.alpha != "scalar":
            raise ValueError(f"alpha = {self.alpha!r} has no use with compositional = false; leave one of them out")
        if not self.compositional and self.choose:
            raise ValueError("choose has no use with compositional = false; leave one of them out")
        return self

    def _build(self, dim: int, max_len: int, causal: bool) -> Remixing:
        return Remixing(dim=dim, max_len=max_len, causal=causal, **self.model_dump(exclude={"type"}))
