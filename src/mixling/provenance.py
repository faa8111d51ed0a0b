"""The provenance of measured results."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("mixling", "torch", "numpy")
_CODE = (":/", ":(top,exclude)benchmarks/results", ":(top,exclude)experiments/results")


def provenance(*, seed: int | None = None, device: str = "auto", packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return command, commit, seed, date, hardware and versions as JSON values; to be called at the start of a run.

    `commit` is None if the library does not run from a git checkout. `dirty` is true if tracked files differ from the
    commit, except for results of earlier runs.

    Args:
        device: cpu, cuda or auto, which is a GPU if there is one, whether a training took it or not.
        packages: further packages whose versions are recorded.
    """
    tracked = _git("ls-files", "--error-unmatch", Path(__file__).name) is not None
    affinity = getattr(os, "sched_getaffinity", None)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    hardware = {
        "cpu": next(names, platform.processor() or platform.machine()),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
    }
    torch = sys.modules.get("torch")  # not imported here, because some measurements are made without torch
    if torch is not None:
        hardware["threads"] = torch.get_num_threads()
        if device == "cuda" or (device == "auto" and torch.cuda.is_available()):
            hardware["gpu"] = torch.cuda.get_device_name()
    return {
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "commit": _git("rev-parse", "--verify", "HEAD") if tracked else None,
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no", "--", *_CODE)) if tracked else None,
        "seed": seed,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": hardware,
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in (*_PACKAGES, *packages)},
        },
    }


def _git(*arguments: str) -> str | None:
    try:
        command = ["git", *arguments]
        out = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return out.stdout.strip()


def _version(package: str) -> str | None:
    """Return the version of a package; None: it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
