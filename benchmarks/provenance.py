"""Where a number comes from: the part of a result file that all benchmarks share."""

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


def provenance(*, seed: int, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Command, commit, seed, date, hardware and versions of this run, as JSON values.

    `commit` is None outside a git checkout, `dirty` says whether its files were changed since.
    """
    return {
        "command": "python " + shlex.join(sys.argv),
        "commit": _git("rev-parse", "--verify", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
        "seed": seed,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        },
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
