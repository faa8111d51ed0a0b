"""Whether a device computes in bfloat16 faster than in float32."""

from __future__ import annotations

import torch


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions for bfloat16; on a CPU without them it is slower than float32."""
    if device.type == "cuda":
        return True
    # Old torch releases cannot detect them.
    instructions: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return instructions.get("avx512_bf16", False)
