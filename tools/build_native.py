"""Build the C core: by the machine's C compiler, or by Zig's, which is a package.

The build backend of pyproject.toml: setuptools', which asks for `ziglang` where no C compiler works, so that installing
from source needs none. setup.py compiles `extensions` with `BuildNative`, whose errors end a build: there is no mixling
without its core. `python tools/build_native.py` prints the package that a build here needs, if any.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, build_meta
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.sysconfig import customize_compiler
from setuptools.build_meta import *  # noqa: F403
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

ZIG = "ziglang==0.17.1"  # the version of tools/wasm.py, with which the sources are tested
# GNU C, as all sources are; Microsoft's compiler has none of it.
PROBE = "typedef float four __attribute__((vector_size(16)));\nint probe(four x) { return __builtin_ctz((int)x[0]); }\n"
NATIVE = Path("src/mixling/native")
PACKAGE = NATIVE / "__init__.py"
FLAGS = ["-Wall", "-Wextra", "-O3", "-g0", "-std=gnu11", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"]


def extensions() -> list[Extension]:
    """Return the extension modules; the current folder is the project's."""
    core = [file for file in sorted(NATIVE.glob("*.c")) if file.name != "example.c"]
    return [
        _extension("_core", [*core, *sorted(NATIVE.glob("texts/*.c"))]),
        _extension("_margins", sorted(NATIVE.glob("linear/*.c"))),
        _extension("_counts", sorted(NATIVE.glob("vectors/*.c"))),
        # Products are fused with sums where the source says so, not where a compiler likes to.
        _extension("_steps", sorted(NATIVE.glob("training/*.c")), "-ffp-contract=off", "-pthread"),
    ]


def _extension(name: str, sources: list[Path], *flags: str) -> Extension:
    headers = map(str, sorted(NATIVE.rglob("*.h")))
    interface = re.search(r"^INTERFACE = (\d+)$", PACKAGE.read_text("utf-8"), re.MULTILINE)
    return Extension(
        f"mixling.native.{name}",
        sources=[str(file) for file in sources],
        depends=[*headers, str(NATIVE / "unicode_tables.inc"), str(PACKAGE), "tools/build_native.py"],
        extra_compile_args=[*FLAGS, *flags],
        define_macros=[("MIXLING_INTERFACE", interface[1])],
        py_limited_api=True,
    )


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """Return what building a wheel needs beside setuptools."""
    return build_meta.get_requires_for_build_wheel(config_settings) + compilers()


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    """Return what installing a checkout needs beside setuptools."""
    return build_meta.get_requires_for_build_editable(config_settings) + compilers()


def compilers() -> list[str]:
    """Return the package with a C compiler if none works here."""
    return [] if compiler_works() else [ZIG]


def compiler_works() -> bool:
    """Return whether the machine's C compiler makes a library of GNU C."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nothing:
        source = Path(folder, "probe.c")
        source.write_text(PROBE, "ascii")
        kept = os.dup(2)
        os.dup2(nothing.fileno(), 2)  # what a compiler complains about is not the user's business
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            objects = compiler.compile([str(source)], output_dir=folder)
            compiler.link_shared_object(objects, str(Path(folder, "probe.so")))
        except Exception:  # of several classes, which setuptools moves from version to version
            return False
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    return True


class BuildNative(build_ext):
    """Compiles extension modules side by side, by Zig where no other compiler works."""

    def initialize_options(self) -> None:
        """Let each processor compile a module."""
        super().initialize_options()
        self.parallel = True

    def build_extensions(self) -> None:
        """Compile all modules that are older than their sources.

        Raises:
            PlatformError: there is no compiler, or Python has no headers here, or the compiler refuses a file.
        """
        headers = Path(sysconfig.get_paths()["include"], "Python.h")
        if not headers.is_file():
            remedy = "on Debian and Ubuntu: sudo apt install python3-dev"
            raise PlatformError(f"mixling compiles its C core, which needs Python's headers ({headers}); {remedy}")
        self.by_zig = not compiler_works()
        if self.by_zig and find_spec("ziglang") is None:
            raise PlatformError(
                f"mixling compiles its C core, and finds no C compiler that works: install gcc or clang, or {ZIG} "
                "into the environment that builds (pip does so by itself unless --no-build-isolation is given)"
            )
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compile one module, unless it stands in the sources, newer than they are."""
        out = Path(self.get_ext_fullpath(ext.name))
        made_of = max(map(os.path.getmtime, [*ext.sources, *ext.depends]))
        for built in (out, NATIVE / out.name):  # pip builds in a new folder each time
            if not self.force and built.exists() and built.stat().st_mtime > made_of:
                if built != out:
                    out.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(built, out)
                return
        if not self.by_zig:
            super().build_extension(ext)
            return
        out.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([*zig_command(ext), "-o", str(out)])
        if done.returncode:
            raise PlatformError(f"Zig's compiler cannot compile {ext.name}, see above")


def zig_command(ext: Extension) -> list[str]:
    """Return the command that compiles a module for this system, but for where it is written."""
    command = [*zig_compiles(ext), f"-I{sysconfig.get_paths()['include']}", "-mcpu=baseline"]  # not for this processor
    if os.name == "nt":
        return [*command, str(Path(sys.base_prefix, "libs", "python3.lib"))]
    return [*command, "-fPIC", *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else [])]


def zig_compiles(ext: Extension) -> list[str]:
    """Return the part of the command that all systems have."""
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-s", "-fno-sanitize=undefined"]
    macros = [f"-D{name}={value}" for name, value in ext.define_macros]
    return [*command, *ext.extra_compile_args, *macros, *ext.sources]


if __name__ == "__main__":
    print(*compilers())
