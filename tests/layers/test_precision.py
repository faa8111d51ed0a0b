"""On which processors products are in bfloat16."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mixling.layers import precision


@pytest.mark.parametrize(
    ("found", "faster"),
    [
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": True}, True),
        ({"cpu_name": "Intel Xeon", "avx512_bf16": True, "amx_bf16": False}, False),
        ({"cpu_name": "AMD EPYC", "avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": True}, True),  # releases of torch that do not know the name
        ({"cpu_name": "AMD EPYC", "avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_a_cpu_computes_in_bfloat16_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], faster: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    assert precision.has_bfloat16(torch.device("cpu")) == faster
    assert precision.has_bfloat16(torch.device("cuda"))
