"""Run the examples of the commands' help, and keep what they print for docs/reference/commands.md.

python tools/docs/outputs.py            # many minutes; writes tools/docs/outputs.json
python tools/docs/outputs.py train show  # of these commands only, after those of `sample`
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Set
from pathlib import Path

import mixling
from mixling.cli.examples import EXAMPLES

FILE = Path(__file__).with_suffix(".json")
SAMPLES = Path(mixling.__file__).parent / "samples"  # the folder of the packaged model, elsewhere another one
LINES = 12  # of an output that are shown
# Commands that serve until they are stopped, or need an account or a folder that no other example makes.
WITHOUT = {"label", "serve", "push", "generate"}


def outputs(folder: Path, names: Set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield what each command line prints in a folder, in lines; the last one is "..." where there are more."""
    for name, lines in EXAMPLES.items():
        for line in lines:
            if not line.startswith("mixling sample") and (name in WITHOUT or name not in names):
                continue
            command = f"{sys.executable} -m {line}"
            done = subprocess.run(command, shell=True, cwd=folder, text=True, capture_output=True, check=False)
            if done.returncode:
                raise ValueError(f"{line}: {done.stderr}")
            lines = (done.stdout or done.stderr).replace(str(SAMPLES), "SAMPLES").splitlines()
            printed = [text.rstrip() for text in lines]
            yield line, printed[:LINES] + ["..."] * (len(printed) > LINES)


def main() -> None:
    """Write the file."""
    kept = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for line, printed in outputs(Path(folder), set(sys.argv[1:]) or EXAMPLES.keys()):
            kept[line] = printed
            FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
