"""What the system allows too little of is told in one line, and before C code that would end the process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixling.limits import explained

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
linux = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")


def run(limit: str, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    program = f'ulimit {limit}; exec "$0" -c \'from mixling.cli import run; run()\' "$@"'
    command, variables = ["bash", "-c", program, sys.executable, *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=variables, timeout=120)


@linux
@pytest.mark.parametrize("kilobytes", [90_000, 110_000, 120_000])
def test_without_memory_for_numpy_there_is_one_line(tmp_path: Path, kilobytes: int) -> None:
    done = run(f"-v {kilobytes}", "predict", str(MODEL), "a text", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the system allows too little: memory; see `ulimit -a`\n"


@linux
@pytest.mark.parametrize("kilobytes", [300_000, 500_000, 800_000])
@pytest.mark.parametrize(
    "command", [("compare",), ("train", "--model", "gmlp-tiny", "-o", "out")], ids=lambda one: one[0]
)
def test_without_memory_for_pytorch_there_is_one_line_before_it(
    tmp_path: Path, kilobytes: int, command: tuple[str, ...]
) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"fine {i},good\ndull {i},bad\n" for i in range(40)))
    done = run(f"-v {kilobytes}", *command, "rows.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: the system allows too little: memory; see `ulimit -a`"


@linux
@pytest.mark.parametrize("files", [6, 8])
def test_few_open_files_are_enough_or_named(tmp_path: Path, files: int) -> None:  # Python itself starts with 5 or 6
    done = run(f"-n {files}", "predict", str(MODEL), "a text", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) in ((0, 0), (2, 1)), done.stderr


@linux
def test_a_file_that_may_not_grow_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text\n" + "a text\n" * 2000)
    done = run("-f 8", "predict", str(MODEL), "rows.csv", "-o", "out.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: out.jsonl: could not be written: File too large"
    assert not (tmp_path / "out.jsonl").exists()


@linux
def test_more_threads_than_there_are_processors(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"fine {i},good\ndull {i},bad\n" for i in range(40)))
    done = run("-n 256", "train", "rows.csv", "--epochs", "1", "-o", "out", cwd=tmp_path, OMP_NUM_THREADS="99999999")
    assert done.returncode == 0, done.stderr


@linux
def test_bytes_that_the_locale_cannot_decode_are_no_text(tmp_path: Path) -> None:
    options = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("-n 64", "predict", str(MODEL), "play İstanbul", cwd=tmp_path, **options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has bytes that are no text in this locale" in done.stderr
    done = run("-n 64", "predict", str(MODEL), "play İstanbul", cwd=tmp_path, LC_ALL="C.UTF-8")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "the system allows too little: memory; see `ulimit -a`"),
        (RuntimeError("can't start new thread"), "the system allows too little: threads; see `ulimit -a`"),
        (OSError(errno.EMFILE, "Too many open files"), "the system allows too little: open files; see `ulimit -a`"),
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), "a/b: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a: Permission denied"),
        (ValueError("a fault of the program"), ""),
    ],
)
def test_the_line_names_what_is_lacking(error: BaseException, line: str) -> None:
    assert explained(error) == line


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_an_interrupt_while_modules_are_imported_is_no_traceback() -> None:
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whatever started the tests may ignore it
        "class Finder:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from mixling.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-2, "", "")
