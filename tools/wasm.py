"""Compile the native engine to WebAssembly, for browsers and node: src/mixling/browser/package/mixling.wasm.

    pip install ziglang==0.17.1
    python tools/wasm.py

The result is committed, so that installing mixling needs no compiler. It is the same bytes wherever it is built, and
ends with a section that has the SHA-256 of the sources; tests compare both. Run this after a change of the C sources.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ZIG = "0.17.1"
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mixling"
FILE = SOURCE / "browser" / "package" / "mixling.wasm"
SECTION = b"mixling.sources"
FLAGS = (
    *("-target", "wasm32-wasi", "-msimd128", "-std=gnu11", "-g0", "-fno-math-errno", "-fno-trapping-math"),
    "-fvisibility=hidden",
)
FAST = ("-O2",)  # of the kernels, which all but make up the time
SMALL = ("-Os", "-fno-inline-functions", "-fno-vectorize", "-fno-slp-vectorize")  # of the rest
LINK = ("-mexec-model=reactor", "-s", "-Wl,-z,stack-size=1048576")


def exports() -> list[str]:
    """Return the functions that JavaScript calls and the C sources have."""
    called = set(re.findall(r"\bmixling_\w+", (FILE.parent / "engine.js").read_text("utf-8")))
    declared = (SOURCE / "native/mixling.h").read_text("utf-8") + (SOURCE / "browser/metadata.c").read_text("utf-8")
    return ["malloc", "free", *sorted(called & set(re.findall(r"\b(mixling_\w+)\(", declared)))]


def sources() -> list[Path]:
    """Return the C files that are compiled."""
    native = sorted(SOURCE.glob("native/*.c"))
    own = sorted(SOURCE.glob("browser/*.c"))
    return [*(file for file in native if file.name not in ("python.c", "example.c")), *own]


def digest() -> bytes:
    """Return the SHA-256 of the sources and of how they are compiled."""
    sha256 = hashlib.sha256(" ".join([ZIG, *FLAGS, *FAST, *SMALL, *LINK, *exports()]).encode())
    for file in [*sources(), *sorted(SOURCE.glob("native/*.h")), SOURCE / "native/unicode_tables.inc"]:
        sha256.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return sha256.digest()


def section() -> bytes:
    """Return the section of the file that has the digest."""
    content = bytes([len(SECTION)]) + SECTION + digest()
    return bytes([0, len(content)]) + content


def build() -> bytes:
    """Compile; needs ziglang of the version `ZIG`."""
    if (found := importlib.metadata.version("ziglang")) != ZIG:
        sys.exit(f"ziglang is {found}; other versions make other bytes: pip install ziglang=={ZIG}")
    with tempfile.TemporaryDirectory() as temporary:
        out, inputs = Path(temporary) / "mixling.wasm", []
        for file in sources():
            inputs.append(str(file.relative_to(SOURCE)))
            if file.name.startswith("kernels"):
                made = str(Path(temporary) / f"{file.stem}.o")
                compile_with(*FAST, "-c", inputs[-1], "-o", made)
                inputs[-1] = made
        compile_with(*SMALL, *LINK, *(f"-Wl,--export={name}" for name in exports()), *inputs, "-o", str(out))
        return out.read_bytes() + section()


def compile_with(*arguments: str) -> None:
    """Call the compiler."""
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *FLAGS, *arguments], cwd=SOURCE, check=True)


if __name__ == "__main__":
    FILE.write_bytes(build())
    print(f"{FILE.relative_to(ROOT)}: {FILE.stat().st_size:,} bytes")
