"""Where the system allows too little, a command ends with one line, not with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

resource = pytest.importorskip("resource", reason="the system has no such limits")
MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
COMMAND = [sys.executable, "-m", "mixling", "predict", str(MODEL), "a film"]
OF_A_LIBRARY = "OpenBLAS error: Memory allocation still failed after 10 retries, giving up."  # which ends the process


def ended(limit: int, most: int) -> tuple[int, list[str]]:
    """Return the exit code and the lines of errors of a command under a limit."""
    done = subprocess.run(
        COMMAND, preexec_fn=lambda: resource.setrlimit(limit, (most, most)), capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited on Linux")
@pytest.mark.parametrize("megabytes", [60, 80, 120, 160, 1000])
def test_of_memory(megabytes: int) -> None:
    code, lines = ended(resource.RLIMIT_AS, megabytes << 20)
    if code == 2:
        assert lines == ["error: the system allows too little: memory; see `ulimit -a`"]
    else:
        assert (code, lines) in ((0, []), (1, [OF_A_LIBRARY]))
    assert code == 0 or megabytes < 1000


@pytest.mark.slow
@pytest.mark.parametrize("files", [4, 5, 8])
def test_of_open_files(files: int) -> None:
    code, lines = ended(resource.RLIMIT_NOFILE, files)
    assert (code, len(lines)) in ((0, 0), (2, 1)), lines
