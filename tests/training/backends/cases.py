"""Models, tasks and batches, one for every kind of layer and loss that the native backend knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from mixling import ModelConfig, TextConfig, build_model
from mixling.answers import LabelSet
from mixling.mixers import TokenMLPConfig
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig, Output, plan_network
from mixling.tasks import Classification, LossConfig, MultiLabel, QuestionAnswering, Regression, Tagging, Task
from mixling.text import MinHash
from mixling.training import OptimConfig
from mixling.training.backends import NativeSteps
from mixling.training.backends.native import NativeBatch

LABELS = ("a", "b", "c", "d", "e")
LENGTHS = (5, 1, 9, 0, 7, 12)


def config(
    *, mixers: int = 0, layers: int = 1, pooling: Any = "all", bias: bool = True, factorized: bool = True,
    window: int = 1, dim: int = 16, **options: Any,
) -> ModelConfig:  # fmt: skip
    block = BlockConfig(
        mixers=tuple(TokenMLPConfig(hidden_dim=20) for _ in range(mixers)),
        feed_forward=FeedForwardConfig(ffn_dim=32, bias=bias),
    )
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=96, num_hashes=8), max_len=12),
        embedding=EmbeddingConfig(window=window, window_type="factorized" if factorized else "full", bias=bias),
        dim=dim,
        layers=(block,) * layers,
        head=HeadConfig(pooling=pooling, transitions=True),
        **options,
    )


@dataclass(frozen=True)
class Case:
    """A model, a task, and how its targets are drawn."""

    model: ModelConfig
    task: Task
    soft: bool = False
    weights: bool = False


def classes(**options: Any) -> Task:
    return Classification(LabelSet(LABELS, "single"), LossConfig(**options), np.array([9, 1, 4, 2, 2]))


def tags(**options: Any) -> Task:
    labels = LabelSet(("O", "B-x", "I-x", "B-y", "I-y"), "iob")
    return Tagging(labels, LossConfig(**options), np.array([9, 1, 4, 2, 2]))


def several(**options: Any) -> Task:
    return MultiLabel(LabelSet(LABELS, "multi"), LossConfig(**options), np.array([9, 1, 4, 2, 2]))


def answers(**options: Any) -> Task:
    return QuestionAnswering(LabelSet(("start", "end"), "span"), LossConfig(**options))


def dropping(pooling: Any = "all", **options: Any) -> ModelConfig:
    return config(**options).model_copy(update={"head": HeadConfig(pooling=pooling, transitions=True, dropout=0.3)})


NO_TRANSITIONS = config(mixers=1).model_copy(update={"head": HeadConfig()})
CASES = {
    "classes": Case(config(), classes()),
    "no layers": Case(config(layers=0, factorized=False), classes(label_smoothing=0.0)),
    "no biases": Case(config(bias=False), classes()),
    "a window of five": Case(config(window=2), classes()),
    "no window": Case(config(window=0, factorized=False), classes()),
    "two layers with mixing": Case(config(mixers=1, layers=2, factorized=False), classes()),
    "attention": Case(config(pooling="attention", mixers=1), classes()),
    "mean": Case(config(pooling="mean"), classes()),
    "maximum": Case(config(pooling="max"), classes()),
    "class weights": Case(config(), classes(class_weights="balanced"), weights=True),
    "a teacher": Case(config(), classes(class_weights="balanced"), soft=True),
    "wide": Case(config(dim=80), classes()),
    "several labels": Case(config(), several()),
    "several weighted labels": Case(config(), several(class_weights="balanced"), weights=True),
    "several labels of a teacher": Case(config(), several(), soft=True),
    "numbers": Case(
        config(), Regression(LabelSet(("value",), "number", numbers={"mean": 2.0, "deviation": 3.0})), weights=True
    ),
    "tags": Case(config(mixers=1, layers=2), tags()),
    "weighted tags": Case(config(mixers=1), tags(class_weights="balanced"), weights=True),
    "tags without transitions": Case(NO_TRANSITIONS, tags(class_weights="balanced"), weights=True),
    "dropout": Case(dropping(), classes()),
    "dropout of a mean": Case(dropping("mean", mixers=1), several()),
    "dropout of tags": Case(dropping(mixers=1), tags()),
    "answers": Case(config(mixers=1, layers=2), answers(), weights=True),
    "answers without smoothing": Case(config(mixers=1), answers(label_smoothing=0.0)),
    "tags of a teacher": Case(NO_TRANSITIONS, tags(), soft=True),
}


def model_of(case: Case) -> nn.Module:
    """A model whose parameters are all drawn, biases, norms and transitions, too."""
    output: Output = case.task.output
    model = build_model(case.model, len(case.task.labels), output=output, seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim == 1 or not parameter.any():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def native_of(case: Case, model: nn.Module, optim: OptimConfig | None = None, *, threads: int = 1) -> NativeSteps:
    plan = plan_network(case.model, len(case.task.labels), case.task.output)
    transitions = "head.transitions" in plan.shapes
    terms = case.task.loss_terms(transitions=transitions)
    assert terms is not None
    network = NativeSteps(plan, optim or OptimConfig(), terms, threads=threads)
    views = network.parameters()
    assert {name: view.shape for name, view in views.items()} == {
        name: tuple(value.shape) for name, value in model.named_parameters()
    }
    for name, value in model.named_parameters():
        views[name][...] = value.detach().numpy()
    return network


def batch_of(case: Case, seed: int, lengths: tuple[int, ...] = LENGTHS) -> tuple[NativeBatch, np.ndarray, Any]:
    rng = np.random.default_rng(seed)
    if isinstance(case.task, QuestionAnswering):  # there is a separator at least
        lengths = tuple(max(length, 1) for length in lengths)
    words, count = 17, max(*lengths, 1)
    mask = np.arange(count) < np.array(lengths)[:, None]
    index = rng.integers(0, words + 1, mask.shape) * mask
    features = rng.integers(0, 60, (words, 8)).astype(np.int32)  # no word has the other rows of the table
    batch = NativeBatch(features, None, index, mask)
    labels = len(case.task.labels)
    match case.task:
        case Classification():
            targets: np.ndarray = rng.integers(0, labels, len(mask))
        case MultiLabel():
            targets = rng.integers(0, 2, (len(mask), labels))
        case Regression():
            targets = rng.normal(size=(len(mask), 1)).astype(np.float32)
        case QuestionAnswering():
            separators = rng.integers(0, lengths)
            ends = [rng.integers(separators, lengths) for _ in range(2)]
            targets = np.stack([separators, lengths, *ends], 1)
        case _:
            targets = np.where(mask & (rng.random(mask.shape) < 0.9), rng.integers(0, labels, mask.shape), -100)
    if case.soft:
        shape = (*mask.shape, labels) if isinstance(case.task, Tagging) else (len(mask), labels)
        targets = rng.dirichlet(np.ones(labels), shape[:-1]).astype(np.float32)
        targets *= mask[..., None] if targets.ndim == 3 else 1
    weights = rng.random(len(mask)).astype(np.float32) + 0.5 if case.weights else None
    return batch, targets, weights
