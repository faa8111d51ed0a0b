"""Make the environments of `make`, and install mixling into them with the versions of constraints.txt.

    python3 tools/environment.py EXTRAS           # .venv, for the extras dev,docs, say; base: without any
    python3 tools/environment.py --base           # .venv-base: mixling without extras, from a copy, and pytest
    python3 tools/environment.py --active EXTRAS  # install nothing; say what the running environment lacks

What is installed is installed again when pyproject.toml, setup.py or constraints.txt change. Only the first lines run
on a Python that is too old, so the file has nothing that Python 3.6 cannot read.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

OLDEST = (3, 11)
NEWEST = (3, 14)
OLDEST_BUILDER = 77  # of setuptools, as pyproject.toml has it
BUILD = "tools/build_native.py"
PINNED = ("pyproject.toml", "setup.py", BUILD, "constraints.txt")
# what a wheel is built from
COPIED = ("pyproject.toml", "setup.py", BUILD, "MANIFEST.in", "README.md", "LICENSE", "src")
VENV, BASE = ".venv", ".venv-base"


def main(arguments):
    """Run one of the three commands."""
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
    if sys.version_info < OLDEST:
        if arguments[0] == "--active":
            fail(f"mixling needs Python 3.11 or later; that of the active environment is {version()}: deactivate it")
        sys.exit(subprocess.call([newer_python(), __file__, *arguments]))
    if arguments[0] == "--active":
        lacking = missing(arguments[1])
        if lacking:
            some = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
            what = "." if arguments[1] == "base" else f'".[{arguments[1]}]"'
            command = f'pip install -c constraints.txt "setuptools>={OLDEST_BUILDER}" -e {what}'
            fail(f"the active environment lacks {some}: run {command}, or deactivate it, and make makes {VENV}")
    elif arguments[0] == "--base":
        install_base()
    else:
        install(arguments[0])


def fail(message):
    """End with one line."""
    sys.exit(f"error: {message}")


def version():
    """Return the version of the running Python."""
    return "{}.{}.{}".format(*sys.version_info[:3])


def newer_python():
    """Return the path of a Python that is new enough."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.call([path, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
            return path
    return fail(f"mixling needs Python 3.11 or later, and finds {version()} only ({sys.executable})")


def missing(extras):
    """Return the packages of extras that the running environment lacks."""
    import importlib.metadata
    import tomllib

    with open("pyproject.toml", "rb") as file:
        optional = tomllib.load(file)["project"]["optional-dependencies"]
    needed, pending = ["mixling"], [] if extras == "base" else extras.split(",")
    while pending:
        for requirement in optional[pending.pop()]:
            own = re.match(r"mixling\[(.*)\]", requirement)
            if own:
                pending += own[1].split(",")
            elif ";" not in requirement:  # on some systems only
                needed.append(re.split(r"[<>=!~\[ ]", requirement)[0])
    lacking = [name for name in needed if not next(importlib.metadata.distributions(name=name), None)]
    builder = next(importlib.metadata.distributions(name="setuptools"), None)
    if builder is None or int(builder.version.split(".")[0]) < OLDEST_BUILDER:
        lacking.append(f"setuptools>={OLDEST_BUILDER}")
    return lacking


def install(extras):
    """Make .venv, and install the checkout into it, so that changed Python files need no second installation."""
    stamp = os.path.join(VENV, "installed")
    digest = digest_of(PINNED)
    before = read(stamp).split()
    wanted = {"base", "dev"} if extras == "base" else {extras}  # dev has all of it
    if before[:1] == [digest] and wanted & set(before[1:]):
        return
    python = environment(VENV)
    slow = ": minutes the first time, as PyTorch is large" if extras != "base" else ""
    name = "" if extras == "base" else f"[{extras}]"
    print(f"installing mixling{name} into {VENV}{slow}", flush=True)
    install_builders(python)  # `make native` builds in place
    pip(python, "--no-build-isolation", "-e", f".{name}")
    with open(stamp, "w") as file:
        file.write(" ".join([digest, extras, *(before[1:] if before[:1] == [digest] else ())]))


def install_base():
    """Make .venv-base, and install what a user gets without extras, built from a copy of the sources."""
    stamp = os.path.join(BASE, "installed")
    digest = digest_of(PINNED)
    if read(stamp) != digest:
        python = environment(BASE)
        install_builders(python)
        pip(python, "pytest", "hypothesis")
    python = interpreter(BASE)
    with tempfile.TemporaryDirectory() as copy:  # a build in the checkout would meet that of the other environment
        for name in COPIED:  # with their times: modules that are newer than the sources are not compiled again
            if os.path.isdir(name):
                unbuilt = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(name, os.path.join(copy, name), ignore=unbuilt)
            else:
                os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
                shutil.copy2(name, os.path.join(copy, name))
        pip(python, "--no-build-isolation", copy)  # offline, too, once its packages are there
    with open(stamp, "w") as file:
        file.write(digest)


def install_builders(python):
    """Install what compiles the C core: setuptools, and Zig where there is no C compiler."""
    pip(python, f"setuptools>={OLDEST_BUILDER}")
    compiler = subprocess.check_output([python, BUILD], universal_newlines=True).split()
    if compiler:
        pip(python, *compiler)


def environment(folder):
    """Make a virtual environment, unless there is one that works, and return its Python."""
    import importlib.util

    python = interpreter(folder)
    if os.path.exists(folder):
        for command, fault in (
            ("import sys; sys.exit(sys.version_info < (3, 11))", "does not run, or is older than Python 3.11"),
            ("import pip", "has no pip"),
        ):
            if subprocess.run([python, "-c", command], capture_output=True, check=False).returncode:
                fail(f"the environment in {folder} {fault}: remove the folder, and run the command again")
        return python
    package = "sudo apt install python3-venv"
    if not importlib.util.find_spec("venv") or not importlib.util.find_spec("ensurepip"):
        fail(f"{sys.executable} cannot make virtual environments; on Debian and Ubuntu: {package}")
    done = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        lines = (done.stdout + done.stderr).strip().splitlines() or [""]
        fail(f"{sys.executable} -m venv {folder} failed ({lines[-1].strip()}); on Debian and Ubuntu: {package}")
    return python


def interpreter(folder):
    """Return the Python of an environment."""
    return os.path.join(folder, "bin", "python")


def pip(python, *arguments):
    """Install with the pins. Nothing is compiled: that would take long, and most files are never imported."""
    command = [python, "-m", "pip", "install", "-q", "--no-compile", "-c", "constraints.txt", *arguments]
    if subprocess.call(command):
        fail("pip failed, see above; what is installed already is kept, so the same command goes on from there")


def digest_of(names):
    """Return a digest of the contents of files."""
    parts = [hashlib.sha256(read(name).encode()).hexdigest() for name in names]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def read(path):
    """Return the text of a file, empty where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1:])
