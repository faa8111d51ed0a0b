"""Mixers on a GPU: the numbers of the processor, no waiting for the card, and kernels that stay finite."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from mixling.mixers import Attention

from .test_mixers import CASES, MAX_LEN, batch, built, config

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]
# These ask the mask for the lengths of texts.
WAITING = ("fourier", "recurrent")
every_form = [(name, causal) for name in CASES for causal in sorted({False, config(name).supports_causal})]


def results(name: str, causal: bool, device: str, dtype: torch.dtype) -> list[Tensor]:
    mixer = built(name, causal=causal, dtype=dtype).to(device)
    x, mask = batch([5, 0, MAX_LEN])
    x = x.to(device, dtype).requires_grad_()
    y = mixer(x, mask.to(device))[mask.to(device)]
    parameters = [item for item in mixer.parameters() if item.requires_grad]
    grads = torch.autograd.grad(y.square().sum(), [x, *parameters], allow_unused=True)
    return [y.detach().cpu(), *(item.cpu() for item in grads if item is not None)]


@pytest.mark.parametrize(("name", "causal"), every_form)
def test_output_and_gradients_are_the_processor_s(name: str, causal: bool) -> None:
    expected = results(name, causal, "cpu", torch.float64)
    largest = max(float(item.abs().max()) for item in expected)
    for dtype, error in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        found = results(name, causal, DEVICE, dtype)
        for value, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(value.double(), reference, rtol=0.0, atol=error * largest)


@pytest.mark.parametrize(("name", "causal"), every_form)
def test_half_precision_stays_finite(name: str, causal: bool) -> None:
    assert all(item.isfinite().all() for item in results(name, causal, DEVICE, torch.bfloat16))


@pytest.mark.parametrize(("name", "causal"), every_form)
def test_nobody_waits_for_the_card(name: str, causal: bool) -> None:
    if name.startswith(WAITING):
        pytest.skip("it asks the mask for lengths")
    mixer = built(name, causal=causal, dtype=torch.float32).to(DEVICE)
    x, mask = batch([5, MAX_LEN])
    x, mask = x.to(DEVICE, torch.float32), mask.to(DEVICE)
    mixer(x, mask)  # what is made at the first call
    torch.cuda.set_sync_debug_mode("error")
    try:
        for given in (mask, None):
            mixer(x.clone().requires_grad_(), given).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [5, 64, 131])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"positions": {"num_buckets": 32, "init": "alibi"}}], ids=str
)
def test_gradients_of_very_low_scores_are_finite_and_in_single_precision_the_equation_s(
    options: dict[str, object], length: int, dtype: torch.dtype
) -> None:
    """The kernels' own are NaN; see NAN_BELOW."""
    torch.manual_seed(0)
    mixer = Attention(dim=64, num_heads=2, max_len=length, **options).train()
    with torch.no_grad():
        mixer.query.bias.fill_(8.0)
        mixer.key.bias.fill_(-8.0)
    x = torch.randn(3, length, 64)
    mask = torch.arange(length) < torch.tensor([length, 0, length // 2 + 1])[:, None]
    found = []
    for device, precision in ((torch.device("cpu"), torch.float64), (torch.device(DEVICE), dtype)):
        one = copy.deepcopy(mixer).to(device, precision)
        tokens = x.to(device, precision).requires_grad_()
        y = one(tokens, mask.to(device))[mask.to(device)]
        found.append([y.detach().cpu().double(), torch.autograd.grad(y.square().sum(), tokens)[0].cpu().double()])
    for reference, value in zip(*found, strict=True):
        assert value.isfinite().all()
        if dtype == torch.float32:  # scores of hundreds are too coarse in half precision
            torch.testing.assert_close(value, reference, rtol=0.0, atol=1e-3 * float(reference.abs().max()))


@pytest.mark.parametrize("positions", [None, {"num_buckets": 32}])
def test_32768_tokens_need_bounded_memory(positions: dict[str, int] | None) -> None:
    """The scores of one head would be 2 GB, of four heads with gradients over 16."""
    mixer = Attention(dim=256, num_heads=4, positions=positions).to(DEVICE, torch.bfloat16).train()
    x = torch.randn(1, 32_768, 256, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    mixer(x).sum().backward()
    assert torch.cuda.max_memory_allocated() < (1 if positions is None else 8) << 30


@pytest.mark.parametrize("causal", [False, True])
def test_in_half_precision_texts_by_lengths_are_the_processor_s(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = Attention(dim=64, num_heads=2, causal=causal).train()
    x = torch.randn(3, 300, 64)
    mask = torch.arange(300) < torch.tensor([300, 1, 170])[:, None]
    found = []
    for device, precision in ((torch.device("cpu"), torch.float64), (torch.device(DEVICE), torch.bfloat16)):
        one, tokens = copy.deepcopy(mixer).to(device, precision), x.to(device, precision).requires_grad_()
        y = one(tokens, mask.to(device))[mask.to(device)]
        found.append([y.detach().cpu().double(), torch.autograd.grad(y.square().sum(), tokens)[0].cpu().double()])
    for reference, value in zip(*found, strict=True):
        torch.testing.assert_close(value, reference, rtol=0.0, atol=0.03 * float(reference.abs().max()))
