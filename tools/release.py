"""Build a release into dist/: sdist, wheels, a list of what is installed with it, and checksums; and try it.

    pip install build ziglang==0.17.1
    python tools/release.py

The sdist is built from the commit, and a wheel from the sdist. Its C core is then compiled by Zig for each system of
TARGETS, for the stable ABI of Python 3.11, and put into a wheel of its own. The wheel for this machine is installed
into an empty environment, where it answers and passes the tests of saved files; the wheels of other systems are
compiled and linked, not run. The workflow of the repository builds each on its own system, runs the tests there, and
publishes those: its files win.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

from build_native import Extension, extensions, zig_compiles
from windows import python_config, python_library

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TARGETS = {  # the tag of a wheel: the target of Zig
    "manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "macosx_10_13_x86_64": "x86_64-macos.10.13",
    "win_amd64": "x86_64-windows-gnu",
}
TRIED = ("tests/golden", "tests/cli/test_base_install.py")
QUESTION = "where is my parcel?"


def main() -> None:
    """Build, try, list, and sum."""
    os.chdir(ROOT)
    if changed := output("git", "status", "--porcelain"):
        sys.exit(f"error: a release is built from a commit, and these files differ from it:\n{changed}")
    version = re.search(r'__version__ = "(.+)"', Path("src/mixling/version.py").read_text("utf-8"))[1]
    if not re.search(rf"(?m)^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", Path("CHANGELOG.md").read_text("utf-8")):
        print(f"CHANGELOG.md has no date for {version}: this is a rehearsal", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST))
    (built,) = DIST.glob("*.whl")
    for tag, target in TARGETS.items():
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            modules = compiled(target, Path(folder))
            path = with_modules(built, tag, {file.name: file.read_bytes() for file in modules})
        print(f"{path.name}  {path.stat().st_size:,} bytes, {time.monotonic() - begin:.0f} s", flush=True)
    built.unlink()  # indexes take no wheel of one machine's libraries
    try_out(next(DIST.glob(f"*manylinux*_{platform.machine()}.whl")))
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(DIST.iterdir()))
    (DIST / "SHA256SUMS").write_text(sums, "ascii")
    print(sums, end="")


def compiled(target: str, folder: Path) -> list[Path]:
    """Compile the extension modules for a system, and return them."""
    headers = Path(sysconfig.get_paths()["include"])
    flags, suffix = ["-fPIC"], "abi3.so"
    if "windows" in target:
        headers = Path(shutil.copytree(headers, folder / "python"))
        (headers / "pyconfig.h").write_text(python_config())
        flags, suffix = [str(python_library(headers))], "pyd"
    elif "macos" in target:
        flags += ["-undefined", "dynamic_lookup"]
    return [_compile(extension, target, [f"-I{headers}", *flags], folder, suffix) for extension in extensions()]


def _compile(extension: Extension, target: str, flags: list[str], folder: Path, suffix: str) -> Path:
    out = folder / f"{extension.name.rpartition('.')[2]}.{suffix}"
    run(*zig_compiles(extension), "-target", target, "-mcpu=baseline", *flags, "-o", str(out))
    return out


def with_modules(wheel: Path, tag: str, modules: dict[str, bytes]) -> Path:
    """Write a copy of a wheel with the modules of another system, beside it, and return its path."""
    name, version, python, abi, _ = wheel.stem.split("-")
    out = wheel.with_name(f"{name}-{version}-{python}-{abi}-{tag}.whl")
    record = f"{name}-{version}.dist-info/RECORD"
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        files = {
            item.filename: source.read(item)
            for item in source.infolist()
            if item.filename != record and not item.filename.endswith(".so")
        }
        files |= {f"{name}/native/{module}": content for module, content in modules.items()}
        about = f"{name}-{version}.dist-info/WHEEL"
        files[about] = re.sub(rb"(?m)^(Tag: .+-)[^-\n]+$", rb"\g<1>" + tag.encode(), files[about])
        lines = [f"{file},sha256={_digest(content)},{len(content)}\n" for file, content in files.items()]
        for file, content in {**files, record: "".join([*lines, f"{record},,\n"]).encode()}.items():
            info = zipfile.ZipInfo(file, (1980, 1, 1, 0, 0, 0))  # equal content gives equal bytes
            info.external_attr = 0o100644 << 16
            target.writestr(info, content, zipfile.ZIP_DEFLATED)
    return out


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")


def try_out(wheel: Path) -> None:
    """Install a wheel into an empty environment, ask its model, run the tests of saved files, and list the packages."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, pip = Path(folder, "bin", "python"), Path(folder, "bin", "pip")
        quiet = ("--quiet", "--disable-pip-version-check")
        begin = time.monotonic()
        run(str(pip), "install", *quiet, "-c", "constraints.txt", str(wheel))
        answer = output(str(Path(folder, "bin", "mixling")), "predict", "demo", QUESTION)
        print(f"installed, and answered after {time.monotonic() - begin:.1f} s: {answer[:60]}", flush=True)
        packages = json.loads(
            output(str(pip), "list", "--format", "json", "--exclude", "pip", "--exclude", "setuptools")
        )
        listed = DIST / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
        listed.write_text(json.dumps(bill_of_materials(packages), indent=2) + "\n", "utf-8")
        run(str(pip), "install", *quiet, "-c", "constraints.txt", "pytest", "hypothesis")
        run(str(python), "-m", "pytest", "-p", "no:cacheprovider", *TRIED)


def bill_of_materials(packages: list[dict[str, str]]) -> dict[str, Any]:
    """Return a list of packages in the form of CycloneDX."""
    components = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name.lower()}@{version}"}
        for name, version in ((item["name"], item["version"]) for item in packages)
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}


def run(*command: str) -> None:
    """Run a command, and end where it fails."""
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(f"error: {' '.join(command)} ended with {code}")


def output(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
