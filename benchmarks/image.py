"""The size of what the Dockerfile puts into an image, and whether it serves: measured without Docker.

    sudo apt-get update && sudo python benchmarks/image.py

The base image cannot be downloaded everywhere, but its lists of packages are public (`base`, `cc` and `python3` of
github.com/GoogleContainerTools/distroless): those packages of Debian 12 are unpacked into a folder, whole, with the
documentation and certificates of which the base image has less. Then the Dockerfile's own command installs mixling into
it. Sizes are those of the files. With the folder as its root, write-protected but for /tmp, and as a user without
rights, the image's entry point then serves a model with each engine, and the health check must agree. Needs Debian 12,
Python 3.11, gcc, and root for chroot. Written to benchmarks/results/image.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixling.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests" / "serving" / "models" / "intents.onnx"
NOBODY = "65532:65532"  # the user of the base image
PACKAGES = {
    "base": "base-files ca-certificates libc6 libssl3 media-types netbase tzdata",
    "cc": "gcc-12-base libgcc-s1 libgomp1 libstdc++6",
    "python3": "libbz2-1.0 libcom-err2 libcrypt1 libdb5.3 libexpat1 libffi8 libgssapi-krb5-2 libk5crypto3 libkeyutils1 "
    "libkrb5-3 libkrb5support0 liblzma5 libncursesw6 libnsl2 libpython3.11-minimal libpython3.11-stdlib libreadline8 "
    "libsqlite3-0 libtinfo6 libtirpc3 libuuid1 python3-distutils python3.11-minimal zlib1g",
}


def main() -> None:
    """Assemble, count, try and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "image.json")
    options = parser.parse_args()
    result: dict[str, Any] = {"built by Docker": False, "megabytes": {}}
    origin = provenance(seed=0, packages=())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        debian = unpacked(folder)
        result["megabytes"]["base"] = megabytes(debian)
        for extras in ("serve,onnx", "serve"):
            image = folder / extras
            shutil.copytree(debian, image, symlinks=True)
            install(image / "app", extras)
            tried = ("native", "onnx") if "onnx" in extras else ("native",)
            answers = {engine: tried_out(image, engine) for engine in tried}
            result["megabytes"][f"EXTRAS={extras}"] = {"app": megabytes(image / "app"), "whole": megabytes(image)}
            result.setdefault("answers", {})[f"EXTRAS={extras}"] = answers
    options.out.write_text(json.dumps({**result, "provenance": origin}, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


def instruction(name: str) -> str:
    """Return what follows the last instruction of a name in the Dockerfile."""
    text = re.sub(r"\\\n *", "", (ROOT / "Dockerfile").read_text("utf-8"))
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[-1]


def unpacked(folder: Path) -> Path:
    """Return the folder of the base image's packages."""
    out, debs = folder / "debian", folder / "debs"
    debs.mkdir()
    for path in ("bin", "lib", "lib64", "sbin"):  # as Debian merges them
        (out / "usr" / path).mkdir(parents=True)
        (out / path).symlink_to(f"usr/{path}")
    names = " ".join(PACKAGES.values()).split()
    subprocess.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *names], cwd=debs, check=True)
    assert len(list(debs.iterdir())) == len(names)
    for deb in sorted(debs.iterdir()):
        files = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", out], input=files, check=True)
    (out / "usr" / "bin" / "python3").symlink_to("python3.11")
    (out / "models" / "model").mkdir(parents=True)
    return out


def install(app: Path, extras: str) -> None:
    """Run the Dockerfile's command that installs into /app."""
    command = instruction("RUN").replace("/app", str(app)).replace("$EXTRAS", extras)
    assert "pip install" in command
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as name:  # pip builds in the folder of the source
        source = Path(name) / "source"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(source)], check=True)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(["sh", "-ec", command], cwd=source, env={**environment, "PATH": path}, check=True)


def megabytes(folder: Path) -> float:
    """Return the size of the files below a folder in millions of bytes, as Docker counts."""
    seen: set[tuple[int, int]] = set()
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            if (status.st_dev, status.st_ino) not in seen:
                size += status.st_size
                seen.add((status.st_dev, status.st_ino))
    return round(size / 1e6, 1)


@contextlib.contextmanager
def devices(image: Path) -> Iterator[None]:
    """Give an image what Docker gives a container; write-protect it but for /tmp."""
    mounts = [("/dev", "dev", ["--bind"]), ("proc", "proc", ["-t", "proc"]), ("tmpfs", "tmp", ["-t", "tmpfs"])]
    for _, point, _ in mounts:
        (image / point).mkdir(exist_ok=True)
    shutil.copy(MODEL, image / "models" / "model" / "model.onnx")
    subprocess.run(["mount", "--bind", image, image], check=True)
    try:
        for source, point, options in mounts:
            subprocess.run(["mount", *options, source, image / point], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", image], check=True)
        yield
    finally:
        subprocess.run(["umount", "-R", image], check=True)
        (image / "models" / "model" / "model.onnx").unlink()


def tried_out(image: Path, engine: str) -> dict[str, Any]:
    """Return what the server of an image answers."""
    variables = dict(item.split("=", 1) for item in instruction("ENV").split())
    variables |= {"LANG": "C.UTF-8", "MIXLING_ENGINE": engine}
    inside = ["/usr/sbin/chroot", f"--userspec={NOBODY}", str(image)]
    command = [*inside, *json.loads(instruction("ENTRYPOINT")), *json.loads(instruction("CMD"))]
    with devices(image):
        begin = time.perf_counter()
        with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines = []
            try:
                while "serving on" not in (line := process.stderr.readline()):
                    assert line, "".join(lines)
                    lines.append(line)
                seconds = time.perf_counter() - begin
                body = json.dumps({"texts": ["play some jazz"]}).encode()
                with urllib.request.urlopen("http://127.0.0.1:8000/v1/models/model/predict", body) as response:
                    answer = json.load(response)["predictions"][0]
                check = json.loads(instruction("HEALTHCHECK").partition(" CMD ")[2])
                healthy = subprocess.run([*inside, *check], env=variables).returncode == 0
            finally:
                process.terminate()
    return {"first_line": lines[0].strip(), "start_s": round(seconds, 2), "healthy": healthy, "answer": answer}


if __name__ == "__main__":
    main()
