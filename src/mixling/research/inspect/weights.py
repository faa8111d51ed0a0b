"""The matrices between tokens of a model's mixers: weights that depend on texts, and learned filters.

Source: Remixer, Figure 2, which shows softmax(H) of each layer beside the layer's mean attention. Beyond the paper: the
mean for a pair of positions is over all heads and over the texts that have tokens at both, without padding, so that
rows need not sum to one if lengths differ. Learned filters (`Mixer.filters`) are those for the longest text. Mixers
without such a matrix, such as HyperMixing, have their pseudo-attention: the norm of the gradient of each output token
with respect to each input token (HyperMixer, section 4.7).
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
from torch.nn import functional as F

from mixling.data.batches import Batch
from mixling.errors import ConfigError
from mixling.layers.mixer import Mixer
from mixling.mixers import mixer_config, mixer_types
from mixling.mixers.identity import Identity
from mixling.models.block import Block
from mixling.models.encoder import Encoder
from mixling.models.model import Model
from mixling.models.tensors import tensor_of
from mixling.research.inspect.maps import pseudo_attention

PSEUDO_ATTENTION = "pseudo-attention"
MIXING_MODELS = ("mixling-mixer", "pnlp-mixer-base", "hypermixer", "gmlp-tiny", "transformer")


@dataclass(frozen=True, eq=False)
class LayerMap:
    """A matrix of a layer.

    Attributes:
        stack: "encoder" or "decoder".
        layer: number of the layer, from 1.
        name: the mixer's name for the matrix, preceded by "cross " if the keys are another stack's.
        values: (N, M), a row for each output position; NaN where no text has both tokens.
        queries, keys: the tokens of rows and columns, if the map is of a single text with known tokens.
    """

    stack: str
    layer: int
    name: str
    values: npt.NDArray[np.float64]
    queries: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class Pass(NamedTuple):
    """A batch.

    Attributes:
        run: passes the batch through the stacks.
        masks: for each stack the mask (B, N).
        tokens: for each stack the tokens of the batch's first text as strings; empty if unknown.
    """

    run: Callable[[], object]
    masks: Mapping[str, Tensor]
    tokens: Mapping[str, Sequence[str]] = {}


class Inspected(NamedTuple):
    """A model with its stacks by name, and encoded batches, which can be iterated once."""

    model: nn.Module
    stacks: Mapping[str, Encoder]
    passes: Iterable[Pass]


def of_encoder(encoder: Encoder, batches: Iterable[tuple[Tensor, Tensor]]) -> Inspected:
    """Return a single stack prepared for inspection; batches are tokens (B, N, D) and masks (B, N)."""
    passes = (Pass(lambda x=x, mask=mask: encoder(x, mask), {"encoder": mask}) for x, mask in batches)  # type: ignore[misc]
    return Inspected(encoder, {"encoder": encoder}, passes)


def of_model(model: Model, batches: Iterable[Batch], *, tokens: Sequence[str] = ()) -> Inspected:
    """Return a text model, without its head, prepared for inspection.

    Args:
        tokens: the tokens of the first text as strings.
    """

    def run(batch: Batch) -> Tensor:
        weights = None if batch.weights is None else tensor_of(batch.weights)
        features, index, mask = (tensor_of(part) for part in (batch.features, batch.index, batch.mask))
        rows = model.embedding.word_rows(features, weights)
        vectors: Tensor = model.encoder(*model.with_class_token(model.embedding(rows, index, mask), mask))
        return vectors

    named = tokens if model.class_token is None or not tokens else ["[CLS]", *tokens]

    def mask_of(batch: Batch) -> Tensor:
        mask = tensor_of(batch.mask)
        return mask if model.class_token is None else F.pad(mask, (1, 0), value=True)

    passes = (
        Pass(lambda batch=batch: run(batch), {"encoder": mask_of(batch)}, {"encoder": named})  # type: ignore[misc]
        for batch in batches
    )
    return Inspected(model, {"encoder": model.encoder}, passes)


def layer_maps(inspected: Inspected) -> list[LayerMap]:
    """Return the mean weights and the learned filters of all mixers, in the order in which they act.

    Mixers that have neither get their pseudo-attention, which costs a backward pass of a batch of D inputs for each
    token of each text. Memory holds the weights of one batch, and one matrix for each mixer.

    Raises:
        ConfigError: no mixer mixes tokens, or a text is longer than the model allows.
    """
    collected: dict[tuple[str, int, Mixer, bool], dict[str, _Mean]] = {}
    longest: dict[str, int] = {}
    texts = 0
    tokens: Mapping[str, Sequence[str]] = {}
    with _evaluating(inspected.model):
        for item in inspected.passes:
            for stack, mask in item.masks.items():
                longest[stack] = max(longest.get(stack, 0), int(mask.any(0).sum()))
            texts = texts + len(mask)
            tokens = item.tokens
            with _observed(inspected.stacks, item.masks, collected):
                item.run()
        assert longest, "at least one text is needed"
        out = []
        for (stack, layer, mixer, cross), means in collected.items():
            matrices = {name: mean.values() for name, mean in means.items()} | _heads_mean(mixer, longest[stack])
            queries, keys = (
                (tokens.get(of, ()) if texts == 1 else ()) for of in (stack, "encoder" if cross else stack)
            )
            for name, values in matrices.items():
                rows = tuple(queries[: values.shape[0]])
                columns = tuple(keys[: values.shape[1]])
                out.append(LayerMap(stack, layer, name, values, rows, columns))
    return _numbered(out, inspected)


def learned_filters(inspected: Inspected) -> list[LayerMap]:
    """Return the learned filters of all mixers, for the maximum length of their parameters.

    Raises:
        ConfigError: the model has none; the message lists mixers that have.
    """
    with _evaluating(inspected.model):
        out = [
            LayerMap(stack, layer, name, values)
            for stack, layer, mixer, _ in _mixers(inspected.stacks)
            for name, values in _heads_mean(mixer, None).items()
        ]
    return _numbered(out, inspected)


def highest(maps: Sequence[LayerMap]) -> list[LayerMap]:
    """Return for each stack and name the maximum over the first half of the layers that have such a map.

    Source: gMLP, Appendix D, which shows the highest weight of the tiny attention that each pair of tokens has in the
    first half of the network. The layer of the result is the last one that counts.
    """
    groups: dict[tuple[str, str], list[LayerMap]] = {}
    for item in maps:
        groups.setdefault((item.stack, item.name), []).append(item)
    out = []
    for found in groups.values():
        half = found[: (len(found) + 1) // 2]
        out.append(replace(half[-1], values=np.max([item.values for item in half], axis=0)))
    return out


def mixers_with(method: str) -> list[str]:
    """Return the types of mixers that override a method of `Mixer`, such as `mixing_weights` or `filters`."""
    with torch.device("meta"):
        built = {name: mixer_config({"type": name}).build(64, 8) for name in mixer_types()}
    return [name for name, mixer in built.items() if getattr(type(mixer), method) is not getattr(Mixer, method)]


@dataclass
class _Mean:
    """The mean of matrices of different sizes; each entry is averaged over the matrices that have it."""

    total: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    count: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def add(self, matrices: Tensor, real: Tensor) -> None:
        """Add matrices (B, N, M) with a mask of their valid entries."""
        missing = [(0, max(0, new - old)) for new, old in zip(matrices.shape[1:], self.total.shape, strict=True)]
        self.total, self.count = np.pad(self.total, missing), np.pad(self.count, missing)
        corner = tuple(slice(size) for size in matrices.shape[1:])
        self.total[corner] += matrices.double().masked_fill(~real, 0.0).sum(0).cpu().numpy()
        self.count[corner] += real.sum(0).cpu().numpy()

    def values(self) -> npt.NDArray[np.float64]:
        """Return the mean, with NaN for missing entries, and without rows and columns of padding only."""
        rows, columns = (int(self.count.any(axis).sum()) for axis in (1, 0))
        total = self.total[:rows, :columns]
        count = self.count[:rows, :columns]
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mixers(stacks: Mapping[str, Encoder]) -> Iterator[tuple[str, int, Mixer, bool]]:
    """Yield all mixers with stack, layer and whether they read another stack."""
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
    collected: dict[tuple[str, int, Mixer, bool], dict[str, _Mean]],
) -> Iterator[None]:
    """Collect the matrices that mixers compute from their inputs during the block."""

    def hook(stack: str, layer: int, cross: bool) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def observe(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            mixer = cast(Mixer, module)
            means = collected.setdefault((stack, layer, mixer, cross), {})
            queries = keys = masks[stack]
            if cross:  # inputs are (x, mask, context, context mask)
                keys = inputs[3]
            real = queries[:, :, None] & keys[:, None]
            matrices = {name: weights.mean(1) for name, weights in mixer.weights(*inputs).items()}
            if not matrices and not isinstance(mixer, Identity) and not mixer.filters(1):
                matrices = {PSEUDO_ATTENTION: _pseudo_attentions(mixer, inputs[0], inputs[2] if cross else None, real)}
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
    """Return the pseudo-attention (B, N, M) of each text, zero in padding; calls `forward`, which has no hooks."""
    out = x.new_zeros(real.shape)
    for text, (matrix, pairs) in enumerate(zip(out, real, strict=True)):
        rows = int(pairs.any(1).sum())
        columns = int(pairs.any(0).sum())
        with torch.inference_mode(False):  # inference tensors cannot take part in gradients
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
    """Return the maps with numbers added to names that are repeated in a layer.

    Raises:
        ConfigError: there is no map.
    """
    if all(isinstance(mixer, Identity) for _, _, mixer, _ in _mixers(inspected.stacks)):
        raise ConfigError(
            "the model has no token mixing: its layers transform each token separately, so there is nothing to draw; "
            f"models that mix tokens: {', '.join(MIXING_MODELS)} and others (`mixling models` lists all)"
        )
    if not maps:
        # A mixer's type is the name of its file.
        used = sorted({type(mixer).__module__.rpartition(".")[2] for _, _, mixer, _ in _mixers(inspected.stacks)})
        raise ConfigError(
            f"the model has no learned matrix between tokens: its mixers are {', '.join(used)}; mixers that have one: "
            f"{', '.join(mixers_with('filters'))}; use --maps for the others"
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
    """Disable gradients and dropout; afterwards restore the mode of each module."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in before.items():
            module.training = training
