"""The matrices between tokens that the mixers of a model have, layer by layer: what a text made, and what was learned.

Source: Remixer, Figure 2, which draws softmax(H) of each layer beside the layer's mean attention.
Decided beyond it: the mean of a pair of positions is over all heads, and over the texts that have a token at both, so
that padding has no part in it, and a row's sum need not be one where lengths differ. What no text changes
(`Mixer.filters`) is that of the longest text. A mixer that mixes without a matrix, such as HyperMixing, is drawn by its
pseudo-attention: the size of the gradient of each output token by each input token (HyperMixer, section 4.7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.data.batches import Batch
from mixling.errors import ConfigError
from mixling.inspect.maps import pseudo_attention
from mixling.layers.mixer import Mixer
from mixling.mixers import mixer_config, mixer_types
from mixling.mixers.identity import Identity
from mixling.models.block import Block
from mixling.models.encoder import Encoder
from mixling.models.model import Model

PSEUDO_ATTENTION = "pseudo-attention"
MIXING_MODELS = ("mixling-mixer", "pnlp-mixer-base", "hypermixer", "gmlp-tiny", "transformer")


@dataclass(frozen=True, eq=False)
class LayerMap:
    """A matrix (N, M) of one layer, a row for each output position; NaN where no text has both tokens.

    layer: from 1. name: what the mixer calls it, with "cross " before it where the keys are another stack's.
    queries, keys: the tokens of the rows and columns, where the map is of one text whose tokens are known.
    """

    stack: str
    layer: int
    name: str
    values: npt.NDArray[np.float64]
    queries: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class Pass(NamedTuple):
    """One batch: how it goes through the stacks, and for each stack which of its tokens (B, N) are real.

    tokens: for each stack how the tokens of the batch's first text are written; empty where that is not known.
    """

    run: Callable[[], object]
    masks: Mapping[str, Tensor]
    tokens: Mapping[str, Sequence[str]] = {}


class Inspected(NamedTuple):
    """A model with its stacks by name, and batches that are encoded for it, which may be read once."""

    model: nn.Module
    stacks: Mapping[str, Encoder]
    passes: Iterable[Pass]


def of_encoder(encoder: Encoder, batches: Iterable[tuple[Tensor, Tensor]]) -> Inspected:
    """A stack alone, and batches of tokens (B, N, D) with their masks (B, N)."""
    passes = (Pass(lambda x=x, mask=mask: encoder(x, mask), {"encoder": mask}) for x, mask in batches)  # type: ignore[misc]
    return Inspected(encoder, {"encoder": encoder}, passes)


def of_model(model: Model, batches: Iterable[Batch], *, tokens: Sequence[str] = ()) -> Inspected:
    """A model of texts; its head has no part.

    Args:
        tokens: how those of the first text are written.
    """

    def run(batch: Batch) -> Tensor:
        rows = model.embedding.word_rows(batch.positions, batch.weights)
        return model.encoder(model.embedding(rows, batch.index, batch.mask), batch.mask)

    passes = (
        Pass(lambda batch=batch: run(batch), {"encoder": batch.mask}, {"encoder": tokens})  # type: ignore[misc]
        for batch in batches
    )
    return Inspected(model, {"encoder": model.encoder}, passes)


def layer_maps(inspected: Inspected) -> list[LayerMap]:
    """Return the mean weights and the learned filters of all mixers, in the order in which they act.

    Mixers that have neither are drawn by their pseudo-attention, which costs a backward pass of a batch of D inputs for
    each token of each text. Memory is that of one batch's weights, and one matrix for each mixer.

    Raises:
        ConfigError: no mixer mixes tokens. A text is longer than the model allows.
    """
    found: dict[tuple[str, int, Mixer, bool], dict[str, _Mean]] = {}
    longest: dict[str, int] = {}
    texts = 0
    tokens: Mapping[str, Sequence[str]] = {}
    with _evaluating(inspected.model):
        for item in inspected.passes:
            for stack, mask in item.masks.items():
                longest[stack] = max(longest.get(stack, 0), int(mask.any(0).sum()))
            texts, tokens = texts + len(mask), item.tokens
            with _observed(inspected.stacks, item.masks, found):
                item.run()
        assert longest, "maps are of texts; none was given"
        out = []
        for (stack, layer, mixer, cross), means in found.items():
            matrices = {name: mean.values() for name, mean in means.items()} | _heads_mean(mixer, longest[stack])
            queries, keys = (
                (tokens.get(of, ()) if texts == 1 else ()) for of in (stack, "encoder" if cross else stack)
            )
            for name, values in matrices.items():
                rows, columns = tuple(queries[: values.shape[0]]), tuple(keys[: values.shape[1]])
                out.append(LayerMap(stack, layer, name, values, rows, columns))
    return _numbered(out, inspected)


def learned_filters(inspected: Inspected) -> list[LayerMap]:
    """The matrices that no text changes, of the longest input that their parameters know.

    Raises:
        ConfigError: the model has none; it says which mixers have.
    """
    with _evaluating(inspected.model):
        out = [
            LayerMap(stack, layer, name, values)
            for stack, layer, mixer, _ in _mixers(inspected.stacks)
            for name, values in _heads_mean(mixer, None).items()
        ]
    return _numbered(out, inspected)


def mixers_with(method: str) -> list[str]:
    """Return the types of mixers that have `mixing_weights`, or `filters`, of their own in some configuration."""
    with torch.device("meta"):
        built = {name: mixer_config({"type": name}).build(64, 8) for name in mixer_types()}
    return [name for name, mixer in built.items() if getattr(type(mixer), method) is not getattr(Mixer, method)]


@dataclass
class _Mean:
    """The mean of matrices of different sizes, each entry over those that have it."""

    total: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    count: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def add(self, matrices: Tensor, real: Tensor) -> None:
        """Matrices (B, N, M), and which entries of each count."""
        missing = [(0, max(0, new - old)) for new, old in zip(matrices.shape[1:], self.total.shape, strict=True)]
        self.total, self.count = np.pad(self.total, missing), np.pad(self.count, missing)
        location = tuple(slice(size) for size in matrices.shape[1:])
        self.total[location] += matrices.double().masked_fill(~real, 0.0).sum(0).cpu().numpy()
        self.count[location] += real.sum(0).cpu().numpy()

    def values(self) -> npt.NDArray[np.float64]:
        """The mean; NaN where there is none, rows and columns of padding only left out."""
        rows, columns = (int(self.count.any(axis).sum()) for axis in (1, 0))
        total, count = self.total[:rows, :columns], self.count[:rows, :columns]
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mixers(stacks: Mapping[str, Encoder]) -> Iterator[tuple[str, int, Mixer, bool]]:
    """All mixers with stack, layer and whether they read another stack."""
    for stack, encoder in stacks.items():
        for number, layer in enumerate(encoder.layers, 1):
            block = cast(Block, layer)
            yield from ((stack, number, cast(Mixer, mixer), False) for mixer in block.mixers)
            if block.cross is not None:
                yield stack, number, block.cross, True


@contextmanager
def _observed(
    stacks: Mapping[str, Encoder],
    masks: Mapping[str, Tensor],
    found: dict[tuple[str, int, Mixer, bool], dict[str, _Mean]],
) -> Iterator[None]:
    """While mixers work, take the matrices that they make of what they are given."""

    def hook(stack: str, layer: int, cross: bool) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def observe(module: nn.Module, given: tuple[Any, ...]) -> None:
            mixer = cast(Mixer, module)
            means = found.setdefault((stack, layer, mixer, cross), {})
            queries = keys = masks[stack]
            if cross:  # (x, mask, context, its mask)
                keys = given[3]
            real = queries[:, :, None] & keys[:, None]
            matrices = {name: weights.mean(1) for name, weights in mixer.weights(*given).items()}
            if not matrices and not isinstance(mixer, Identity) and not mixer.filters(1):
                matrices = {PSEUDO_ATTENTION: _pseudo_attentions(mixer, given[0], given[2] if cross else None, real)}
            for name, values in matrices.items():
                means.setdefault(f"cross {name}" if cross else name, _Mean()).add(values, real)

        return observe

    handles = [
        mixer.register_forward_pre_hook(hook(stack, layer, cross)) for stack, layer, mixer, cross in _mixers(stacks)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _pseudo_attentions(mixer: Mixer, x: Tensor, context: Tensor | None, real: Tensor) -> Tensor:
    """The pseudo-attention (B, N, M) of each text alone, zero in padding; `forward` has no hooks."""
    out = x.new_zeros(real.shape)
    for text, (matrix, pairs) in enumerate(zip(out, real, strict=True)):
        rows, columns = int(pairs.any(1).sum()), int(pairs.any(0).sum())
        with torch.inference_mode(False):  # what is made in it has no part in gradients
            tokens = x[text : text + 1, :rows].clone()
        if context is None:
            matrix[:rows, :columns] = pseudo_attention(mixer.forward, tokens)
        else:

            def crossed(source: Tensor, tokens: Tensor = tokens) -> Tensor:
                return mixer.forward(tokens.expand(len(source), -1, -1), None, source)

            matrix[:rows, :columns] = pseudo_attention(crossed, context[text : text + 1, :columns])
    return out


def _heads_mean(mixer: Mixer, length: int | None) -> dict[str, npt.NDArray[np.float64]]:
    return {name: matrix.mean(0).double().cpu().numpy() for name, matrix in mixer.filters(length).items()}


def _numbered(maps: list[LayerMap], inspected: Inspected) -> list[LayerMap]:
    """Names that come again in a layer get a number; no map at all is refused."""
    if all(isinstance(mixer, Identity) for _, _, mixer, _ in _mixers(inspected.stacks)):
        raise ConfigError(
            "the model has no token mixing: its layers work on each token alone, so there is nothing to draw; "
            f"models that mix tokens: {', '.join(MIXING_MODELS)} and others (`mixling models` lists all)"
        )
    if not maps:
        # A mixer's type is the name of its file.
        used = sorted({type(mixer).__module__.rpartition(".")[2] for _, _, mixer, _ in _mixers(inspected.stacks)})
        raise ConfigError(
            f"the model has no learned matrix between tokens: it mixes by {', '.join(used)}; mixers that have one: "
            f"{', '.join(mixers_with('filters'))}; --maps draws the others"
        )
    seen: dict[tuple[str, int, str], int] = {}
    out = []
    for item in maps:
        key = (item.stack, item.layer, item.name)
        seen[key] = seen.get(key, 0) + 1
        name = item.name if seen[key] == 1 else f"{item.name} {seen[key]}"
        out.append(replace(item, name=name))
    return out


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without gradients and dropout; afterwards each part is as it was."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in before.items():
            module.training = training
