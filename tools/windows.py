"""Compile and link the extension modules for Windows, as a wheel for it has them; only Windows itself can run them.

    pip install ziglang==0.17.1
    python tools/windows.py [FOLDER]

The modules are written to a folder, if one is named. They are GNU C, which Zig's clang compiles with MinGW's headers,
as `tools/build_native.py` does on Windows. Python's headers are this machine's, with Windows' sizes; of Python's
library there is a list of the names that its headers declare.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from build_native import Extension, extensions, zig_compiles

TARGET = "x86_64-windows-gnu"
SIZES = {"INT": 4, "LONG": 4, "LONG_LONG": 8, "SHORT": 2, "SIZE_T": 8, "TIME_T": 8, "VOID_P": 8, "WCHAR_T": 2}


def python_config() -> str:
    """Return what Python's pyconfig.h says on Windows, as far as its headers ask for it."""
    names = ("MS_WINDOWS", "MS_WIN32", "MS_WIN64", "HAVE_SSIZE_T", "HAVE_STDINT_H", "HAVE_PROTOTYPES")
    lines = [f"#define {name} 1" for name in names]
    return "\n".join([*lines, *(f"#define SIZEOF_{name} {size}" for name, size in SIZES.items())]) + "\n"


def python_library(headers: Path) -> Path:
    """Write python3.lib with the names that Python's headers declare, and return its path."""
    text = "".join(file.read_text("utf-8") for file in headers.rglob("*.h"))
    names = set(re.findall(r"\b_?Py[A-Za-z0-9]*_[A-Za-z0-9_]+\b", text))
    data = set(re.findall(r"PyAPI_DATA\([^)]*\)\s*(\w+)", text))
    lines = ["LIBRARY python3.dll", "EXPORTS", *(f"    {name}{' DATA' * (name in data)}" for name in sorted(names))]
    (headers / "python3.def").write_text("\n".join(lines) + "\n")
    command = ["dlltool", "-m", "i386:x86-64", "-d", str(headers / "python3.def"), "-l", str(headers / "python3.lib")]
    subprocess.run([sys.executable, "-m", "ziglang", *command], check=True)
    return headers / "python3.lib"


def build(extension: Extension, headers: Path, library: Path, folder: Path) -> bool:
    """Compile and link a module, and return whether that succeeded."""
    out = folder / f"{extension.name.rpartition('.')[2]}.pyd"
    command = [*zig_compiles(extension), "-target", TARGET, "-Werror", f"-I{headers}", str(library), "-o", str(out)]
    return subprocess.run(command).returncode == 0


def main(arguments: list[str]) -> None:
    """Build all modules, and name those that cannot be built."""
    os.chdir(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments[0] if arguments else temporary)
        headers = Path(shutil.copytree(sysconfig.get_paths()["include"], Path(temporary, "python")))
        (headers / "pyconfig.h").write_text(python_config())
        library = python_library(headers)
        failed = [extension.name for extension in extensions() if not build(extension, headers, library, folder)]
        if failed:
            sys.exit(f"cannot be built for {TARGET}: {', '.join(failed)}")
        sizes = sorted(f"{file.name} {file.stat().st_size:,} bytes" for file in folder.glob("*.pyd"))
    print(f"built for {TARGET}: {', '.join(sizes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
