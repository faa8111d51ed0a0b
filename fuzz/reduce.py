"""Keep of a corpus what reaches new code: python fuzz/reduce.py TO BYTES PROGRAM [ARGUMENT ...] -- CORPUS ...

libFuzzer runs the inputs from the smallest to the largest, and tells which of them reach an edge that none before has
reached. Those are copied that reach most for their size, as long as they fit into so many bytes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def new_edges(program: list[str], corpora: list[str]) -> dict[Path, int]:
    """Return how many new edges each input reaches."""
    with tempfile.TemporaryDirectory() as folder:
        control, merged = Path(folder) / "control", Path(folder) / "merged"
        merged.mkdir()
        options = ["-merge=1", f"-merge_control_file={control}"]
        subprocess.run([*program, *options, merged, *corpora], stderr=subprocess.DEVNULL, check=True)
        lines = control.read_text().splitlines()
    names = [Path(line) for line in lines[2 : 2 + int(lines[0])]]
    found = [line.split() for line in lines[2 + len(names) :] if line.startswith("COV ")]
    return {names[int(number)]: len(edges) for _, number, *edges in found if edges}


def main() -> None:
    """Copy inputs."""
    to, limit, split = Path(sys.argv[1]), int(sys.argv[2]), sys.argv.index("--")
    gains = new_edges(sys.argv[3:split], sys.argv[split + 1 :])
    sizes = {path: path.stat().st_size for path in gains}
    to.mkdir(parents=True, exist_ok=True)
    kept = edges = 0
    for path in sorted(gains, key=lambda path: gains[path] / (sizes[path] + 100), reverse=True):
        if kept + sizes[path] <= limit:
            kept += sizes[path]
            edges += gains[path]
            shutil.copyfile(path, to / hashlib.sha1(path.read_bytes()).hexdigest()[:16])
    print(f"{to}: {len(list(to.iterdir()))} inputs, {kept:,} bytes, {edges:,} of {sum(gains.values()):,} edges")


if __name__ == "__main__":
    main()
