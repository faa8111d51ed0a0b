"""Steps in C against the same steps in PyTorch, for every kind of layer and loss that the native backend knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mixling import ModelConfig, TextConfig, build_model
from mixling.answers import LabelSet
from mixling.errors import ConfigError
from mixling.layers import fused
from mixling.mixers import HyperMixingConfig, TokenMLPConfig
from mixling.networks.blocks import BlockConfig, FeedForwardConfig
from mixling.networks.config import EmbeddingConfig, HeadConfig, Output
from mixling.tasks import Classification, LossConfig, MultiLabel, QuestionAnswering, Regression, Tagging
from mixling.tasks.base import Task
from mixling.text import MinHash
from mixling.training import OptimConfig
from mixling.training.backends import NativeNetwork, plan_network
from mixling.training.backends import native as native_backend
from mixling.training.backends.native import NativeBatch
from mixling.training.backends.optimizer import build_optimizer

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
    "answers": Case(config(mixers=1, layers=2), answers(), weights=True),
    "answers without smoothing": Case(config(mixers=1), answers(label_smoothing=0.0)),
    "tags of a teacher": Case(NO_TRANSITIONS, tags(), soft=True),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def model_of(case: Case) -> nn.Module:
    """A model whose parameters are all drawn, biases, norms and transitions, too."""
    output: Output = case.task.output
    model = build_model(case.model, len(case.task.labels), output=output, seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim == 1 or not parameter.any():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def native_of(case: Case, model: nn.Module, optim: OptimConfig | None = None, *, threads: int = 1) -> NativeNetwork:
    plan = plan_network(case.model, len(case.task.labels), case.task.output)
    transitions = "head.transitions" in plan.shapes
    terms = case.task.loss_terms(transitions=transitions)
    assert terms is not None
    network = NativeNetwork(plan, optim or OptimConfig(), terms, threads=threads)
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


def torch_loss(case: Case, model: nn.Module, batch: NativeBatch, targets: np.ndarray, weights: Any) -> Tensor:
    given = (torch.from_numpy(item) for item in (batch.features, batch.index, batch.mask))
    features, index, mask = given
    logits = model.train()(features, None, index, mask).float()
    loss, weight = case.task.loss(
        logits, torch.from_numpy(targets), None if weights is None else torch.from_numpy(weights)
    )
    return loss / weight


@pytest.fixture(params=[4, 8, 16])
def registers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set of instructions that the processor has."""
    monkeypatch.setattr(native_backend, "_REGISTERS", request.param)


@pytest.fixture
def torch_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own operations, in double precision: an independent statement of the gradients."""
    monkeypatch.setattr(fused, "_native", None)


@pytest.mark.usefixtures("registers", "torch_operations")
def test_gradients(case: Case) -> None:
    model = model_of(case)
    network = native_of(case, model)
    batch, targets, weights = batch_of(case, 0)
    found, gradients = network.gradients(batch, targets, weights)
    loss = torch_loss(case, model, batch, targets, weights)
    loss.backward()
    assert found.loss / found.weight == pytest.approx(loss.item(), rel=1e-5)
    grads = {name: item.grad for name, item in model.named_parameters()}
    norm = sum(grad.double().square().sum().item() for grad in grads.values() if grad is not None) ** 0.5
    assert found.norm == pytest.approx(norm, rel=1e-5)
    for name, grad in grads.items():
        expected = np.zeros_like(gradients[name]) if grad is None else grad.numpy()
        size = max(np.abs(expected).max(), 1e-2 * norm)  # 1e-7 of the norm is rounding
        assert np.abs(gradients[name] - expected).max() <= 1e-5 * size, name


@pytest.mark.usefixtures("torch_operations")
def test_logits(case: Case) -> None:
    model = model_of(case)
    batch = batch_of(case, 0)[0]
    arrays = (torch.from_numpy(item) for item in (batch.features, batch.index, batch.mask))
    features, index, mask = arrays
    with torch.no_grad():
        expected = model.eval()(features, None, index, mask).numpy()
    real = slice(None) if expected.ndim == 2 else batch.mask
    np.testing.assert_allclose(native_of(case, model).evaluate(batch)[real], expected[real], atol=2e-5)


@pytest.mark.usefixtures("torch_operations")
@pytest.mark.parametrize("clip_norm", [None, 0.05])
@pytest.mark.parametrize("name", ["classes", "two layers with mixing", "tags", "several weighted labels", "numbers"])
def test_twenty_steps_of_adamw(name: str, clip_norm: float | None) -> None:
    case = CASES[name]
    optim = OptimConfig(clip_norm=clip_norm, embedding_lr=0.3, lr=1e-3, eps=1e-5)
    model = model_of(case)
    network = native_of(case, model, optim)
    optimizer = build_optimizer(model, optim)
    for number in range(20):
        batch, targets, weights = batch_of(case, number)
        rate = optim.lr * (20 - number) / 20
        found = network.step(batch, targets, weights, rate)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["fraction"]
        optimizer.zero_grad()
        loss = torch_loss(case, model, batch, targets, weights)
        loss.backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        assert found.loss / found.weight == pytest.approx(loss.item(), rel=1e-4, abs=1e-6)
    for name, parameter in model.named_parameters():
        got = network.parameters()[name]
        np.testing.assert_allclose(got, parameter.detach().numpy(), rtol=1e-4, atol=2e-5, err_msg=name)


def bytes_after(case: Case, steps: int, threads: int, *, half: bool = False) -> bytes:
    network = native_of(case, model_of(case), threads=threads)
    network._half = half
    lengths = tuple(np.random.default_rng(0).integers(0, 13, 300).tolist())
    out = b""
    for number in range(steps):
        found = network.step(*batch_of(case, number, lengths), 1e-3)
        out += np.array([found.loss, found.weight, found.norm]).tobytes()
    return out + b"".join(value.tobytes() for value in network.parameters().values())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", ["classes", "two layers with mixing", "weighted tags"])
def test_the_number_of_threads_changes_no_byte(name: str, half: bool) -> None:
    one = bytes_after(CASES[name], 3, 1, half=half)
    for threads in (2, 3, 4):
        assert bytes_after(CASES[name], 3, threads, half=half) == one


def test_a_state_continues() -> None:
    case = CASES["two layers with mixing"]
    whole, first = (native_of(case, model_of(case)) for _ in range(2))
    for number in range(4):
        whole.step(*batch_of(case, number), 1e-3)
        if number < 2:
            first.step(*batch_of(case, number), 1e-3)
    second = native_of(case, model_of(case))
    for name, value in first.parameters().items():
        second.parameters()[name][...] = value
    second.load(first.state())
    for number in (2, 3):
        second.step(*batch_of(case, number), 1e-3)
    for name, value in whole.parameters().items():
        assert np.array_equal(value, second.parameters()[name]), name


def test_gradients_do_not_depend_on_steps_before() -> None:
    """Rows of the table that a batch does not have are zeros, also behind a step that had them."""
    case = CASES["classes"]
    used, new = (native_of(case, model_of(case)) for _ in range(2))
    used.step(*batch_of(case, 0), 0.0)
    found, expected = (network.gradients(*batch_of(case, 1))[1] for network in (used, new))
    for name, value in expected.items():
        assert np.array_equal(found[name], value), name


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    case = CASES["classes"]
    network = native_of(case, model_of(case))
    batch, targets, weights = batch_of(case, 0)
    network.step(batch, targets, weights, 1e-3)
    broken = network.parameters()["head.output.bias"]
    broken[0] = np.inf
    before = [value.copy() for value in (*network.parameters().values(), *network.state().values())]
    assert not np.isfinite(network.step(batch, targets, weights, 1e-3).loss)
    for old, new in zip(before, (*network.parameters().values(), *network.state().values()), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 24}, "model.dim: got 24"),
        ({"final_norm": True}, "model.final_norm: got True"),
        ({"layers": (BlockConfig(mixers=(HyperMixingConfig(),)),)}, "hypermixing"),
        ({"layers": (BlockConfig(dropout=0.1),)}, "model.layers.0.dropout: got 0.1"),
        ({"embedding": EmbeddingConfig(positions="learned")}, "model.embedding.positions: got 'learned'"),
    ],
)
def test_what_is_not_known_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_network(config().model_copy(update=changes), 3, "text")


def test_arguments_are_checked() -> None:
    case = CASES["classes"]
    network = native_of(case, model_of(case))
    batch, targets, _ = batch_of(case, 0)
    wrong = {
        "feature": NativeBatch(batch.features + 90, None, batch.index, batch.mask),
        "word": NativeBatch(batch.features, None, batch.index * 3, batch.mask),
        "gaps": NativeBatch(batch.features, None, batch.index * 0, ~batch.mask),
    }
    for message, one in wrong.items():
        with pytest.raises(ValueError, match=message):
            network.step(one, targets, None, 1e-3)
    with pytest.raises(ValueError, match="target"):
        network.step(batch, targets + 5, None, 1e-3)
    asked = native_of(CASES["answers"], model_of(CASES["answers"]))
    batch, targets, _ = batch_of(CASES["answers"], 0)
    for column, value in ((0, -1), (1, 13), (1, 6), (2, 12), (3, -1)):
        wrong_targets = targets.copy()
        wrong_targets[0, column] = value
        with pytest.raises(ValueError, match=r"a target is|an answer's text is"):
            asked.step(batch, wrong_targets, None, 1e-3)
    network.plan.numbers[3] = 24
    with pytest.raises(ValueError, match="plan"):
        network.step(batch, targets, None, 1e-3)
