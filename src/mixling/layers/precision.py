"""Whether a device computes in bfloat16 faster than in float32."""

from __future__ import annotations

from typing import Any

import torch


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device computes in bfloat16 faster than in float32.

    Of CPUs, those with a matrix unit (AMX) do, and AMD's with AVX-512 BF16; with these instructions Intel's are slower.
    """
    if device.type == "cuda":
        return True
    # Old torch releases cannot detect them.
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    in_registers = bool(found.get("avx512_bf16")) and not str(found.get("cpu_name", "")).startswith("Intel")
    return bool(found.get("amx_bf16")) or in_registers
