"""Steps in C against the same steps in PyTorch, for every kind of layer and loss that the native backend knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.layers import plain_operations
from mixling.mixers import HyperMixingConfig
from mixling.models import heads
from mixling.networks import BlockConfig, EmbeddingConfig, plan_network
from mixling.tasks import QuestionAnswering
from mixling.training import OptimConfig
from mixling.training.backends import build_optimizer
from mixling.training.backends import native as native_backend
from mixling.training.backends.native import NativeBatch

from .cases import CASES, LENGTHS, Case, batch_of, config, model_of, native_of


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


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
def torch_operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch's own operations, in double precision: an independent statement of the gradients."""
    monkeypatch.setattr(heads, "dropout", dropout)
    with plain_operations():
        yield


def dropout(x: Tensor, fraction: float, training: bool) -> Tensor:
    """What the native steps drop with the seed 7: four numbers by the bits of each draw of SplitMix64."""
    if not training or not fraction:
        return x
    z = np.arange(x.numel() // 4, dtype=np.uint64) + np.uint64(7 * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    draws = (z ^ z >> np.uint64(31)).view("<u2").reshape(x.shape)
    dropped = round(fraction * 65536)
    return x * torch.from_numpy((draws >= dropped) * np.float32(65536 / (65536 - dropped)))


@pytest.mark.usefixtures("registers", "torch_operations")
def test_gradients(case: Case) -> None:
    compare_gradients(case, LENGTHS)


@pytest.mark.usefixtures("torch_operations")
@pytest.mark.parametrize("name", ["classes", "dropout of tags", "answers"])
def test_gradients_of_a_batch_in_several_parts(name: str) -> None:
    compare_gradients(CASES[name], (*tuple(np.random.default_rng(0).integers(0, 12, 140).tolist()), 12))


def compare_gradients(case: Case, lengths: tuple[int, ...]) -> None:
    model = model_of(case)
    network = native_of(case, model)
    batch, targets, weights = batch_of(case, 0, lengths)
    found, gradients = network.gradients(batch, targets, weights, seed=7)
    loss = torch_loss(case, model, batch, targets, weights)
    loss.backward()
    assert found.loss / found.weight == pytest.approx(loss.item(), rel=1e-5)
    grads = {name: item.grad for name, item in model.named_parameters()}
    norm = sum(grad.double().square().sum().item() for grad in grads.values() if grad is not None) ** 0.5
    assert found.norm == pytest.approx(norm, rel=1e-5)
    # A softmax over the tokens does not depend on their common bias, whose gradient is rounding only.
    zero = {"head.score.bias"}
    if isinstance(case.task, QuestionAnswering):
        zero |= {"head.output.bias", [name for name in grads if name.endswith("feed_forward.contract.bias")][-1]}
    for name, grad in grads.items():
        expected = np.zeros_like(gradients[name]) if grad is None else grad.numpy()
        size = max(np.abs(expected).max(), (1e-2 if name in zero else 1e-3) * norm)
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
        found = network.step(*batch_of(case, number, lengths), 1e-3, seed=number)
        out += np.array([found.loss, found.weight, found.norm]).tobytes()
    return out + b"".join(value.tobytes() for value in network.parameters().values())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", ["classes", "two layers with mixing", "weighted tags", "dropout of tags"])
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
