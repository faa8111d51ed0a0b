"""Steps in C for any shape of network and batch: the gradients of PyTorch, or an error; `fuzz/sanitized.sh` runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling import ModelConfig, TextConfig, build_model
from mixling.answers import LabelSet
from mixling.mixers import TokenMLPConfig
from mixling.models import Model
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig, plan_network
from mixling.tasks import Classification, Tagging, Task
from mixling.text import MinHash
from mixling.training import OptimConfig
from mixling.training.backends import NativeSteps
from mixling.training.backends import native as native_backend
from mixling.training.backends.native import NativeBatch

LENGTH = 9
WIDTHS = st.sampled_from([16, 32, 48])


@st.composite
def blocks(draw: st.DrawFn) -> BlockConfig:
    mixers = tuple(TokenMLPConfig(hidden_dim=draw(st.integers(1, 40))) for _ in range(draw(st.integers(0, 2))))
    ffn = FeedForwardConfig(ffn_dim=draw(WIDTHS), bias=draw(st.booleans())) if draw(st.booleans()) else None
    return BlockConfig(mixers=mixers, feed_forward=ffn)


@st.composite
def models(draw: st.DrawFn) -> ModelConfig:
    return ModelConfig(
        text=TextConfig(projection=MinHash(num_features=draw(st.integers(2, 70)), num_hashes=4), max_len=LENGTH),
        embedding=EmbeddingConfig(
            window=draw(st.integers(0, 3)),
            window_type=draw(st.sampled_from(["full", "factorized"])),
            bias=draw(st.booleans()),
        ),
        dim=draw(WIDTHS),
        layers=tuple(draw(st.lists(blocks(), max_size=3))),
        head=HeadConfig(
            pooling=draw(st.sampled_from(["attention", "mean", "max", "all"])), transitions=draw(st.booleans())
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[ModelConfig, Task, NativeBatch, np.ndarray]:
    model = draw(models())
    labels = draw(st.integers(2, 40))
    lengths = np.array(draw(st.lists(st.integers(0, LENGTH), min_size=1, max_size=80)))
    words, parts = draw(st.integers(0, 200)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    mask = np.arange(max(int(lengths.max()), 1)) < lengths[:, None]
    index = rng.integers(0, words + 1, mask.shape) * mask
    features = rng.integers(0, model.text.num_rows, (words, parts)).astype(np.int32)
    factors = rng.normal(size=features.shape).astype(np.float32) if draw(st.booleans()) else None
    batch = NativeBatch(features, factors, index, mask)
    names = tuple(f"label {number}" for number in range(labels))
    if draw(st.booleans()):
        task: Task = Tagging(LabelSet(("O", *(f"B-{name}" for name in names[1:])), "iob"))
        return model, task, batch, np.where(mask, rng.integers(0, labels, mask.shape), -100)
    return model, Classification(LabelSet(names, "single")), batch, rng.integers(0, labels, len(mask))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=cases(), threads=st.integers(1, 4), registers=st.sampled_from([4, 16]), half=st.booleans())
def test_gradients_and_steps_of_any_shape(case: Any, threads: int, registers: int, half: bool) -> None:
    config, task, batch, targets = case
    labels = len(task.labels)
    torch.manual_seed(0)
    model = build_model(config, labels, output=task.output, seed=0).eval()  # PyTorch's operations
    plan = plan_network(config, labels, task.output)
    terms = task.loss_terms(transitions="head.transitions" in plan.shapes)
    assert terms is not None
    network = NativeSteps(plan, OptimConfig(), terms, half=half, threads=threads)
    for name, value in model.named_parameters():
        network.parameters()[name][...] = value.detach().numpy()
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(native_backend, "_REGISTERS", registers)
        logits = network.evaluate(batch)
        found, gradients = network.gradients(batch, targets, None)
        network.step(batch, targets, None, 1e-3)
    arrays = [
        None if item is None else torch.from_numpy(item)
        for item in (batch.features, batch.factors, batch.index, batch.mask)
    ]
    assert np.isfinite(logits).all()
    expected, rounding = in_double_precision(model, task, arrays, targets)
    tolerance = 0.05 if half else 2e-5
    real = slice(None) if logits.ndim == 2 else batch.mask
    compare("logits", logits[real], expected["logits"][real], rounding["logits"], tolerance)
    if "head.transitions" in plan.shapes:
        return  # in evaluation mode the model has none; test_native.py compares their gradients
    if not found.weight:
        return
    for name, value in gradients.items():
        compare(name, value, expected[name], rounding[name], tolerance, size=found.norm)


def in_double_precision(
    model: Model, task: Task, arrays: list[Any], targets: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Logits and gradients of the mean loss in double precision, and how far single precision is off."""
    results = []
    for kind in (torch.float32, torch.float64):
        model = model.to(kind)
        model.zero_grad()
        given = [item.to(kind) if item is not None and item.is_floating_point() else item for item in arrays]
        outputs = model(*given)
        loss, weight = task.loss(outputs, torch.from_numpy(targets), None)
        (loss / weight.clamp_min(1e-12)).backward()
        found = {name: item.grad for name, item in model.named_parameters()}
        found = {name: torch.zeros(1) if item is None else item for name, item in found.items()}
        results.append(
            {"logits": outputs.detach().double().numpy(), **{k: v.double().numpy() for k, v in found.items()}}
        )
    single, double = results
    return double, {name: float(np.abs(single[name] - value).max(initial=0)) for name, value in double.items()}


def compare(
    name: str, got: np.ndarray, expected: np.ndarray, rounding: float, tolerance: float, size: float = 1.0
) -> None:
    bound = tolerance * max(np.abs(expected).max(initial=0), size) + 8 * rounding
    assert np.abs(got - expected).max(initial=0) <= bound, name
