"""Compile the C sources for Windows, without linking: an engine that a Windows wheel would lack is found here.

    pip install ziglang==0.17.1
    python tools/windows.py

They are GNU C, which clang compiles with MinGW's headers. Python's headers are this machine's, with Windows' sizes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "src" / "mixling" / "native"
TARGET = "x86_64-windows-gnu"
FLAGS = ("-Wall", "-Wextra", "-Werror", "-O1", "-g0", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math")
SIZES = {"INT": 4, "LONG": 4, "LONG_LONG": 8, "SHORT": 2, "SIZE_T": 8, "TIME_T": 8, "VOID_P": 8, "WCHAR_T": 2}


def sources() -> list[Path]:
    """Return the C files of the extension modules."""
    return [file for file in sorted(NATIVE.rglob("*.c")) if file.name != "example.c"]


def python_config() -> str:
    """Return what Python's pyconfig.h says on Windows, as far as its headers ask for it."""
    names = ("MS_WINDOWS", "MS_WIN32", "MS_WIN64", "HAVE_SSIZE_T", "HAVE_STDINT_H", "HAVE_PROTOTYPES")
    lines = [f"#define {name} 1" for name in names]
    return "\n".join([*lines, *(f"#define SIZEOF_{name} {size}" for name, size in SIZES.items())]) + "\n"


def main() -> None:
    """Compile all files, and name those that cannot be compiled."""
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        headers = Path(shutil.copytree(sysconfig.get_paths()["include"], folder / "python"))
        (headers / "pyconfig.h").write_text(python_config())
        for file in sources():
            arguments = ("-target", TARGET, *FLAGS, f"-I{headers}", "-c", str(file), "-o", str(folder / "out.o"))
            done = subprocess.run([sys.executable, "-m", "ziglang", "cc", *arguments])
            failed += [file.name] * (done.returncode != 0)
    if failed:
        sys.exit(f"cannot be compiled for {TARGET}: {', '.join(failed)}")
    print(f"{len(sources())} files compile for {TARGET}")


if __name__ == "__main__":
    main()
