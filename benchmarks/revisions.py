"""Two revisions of mixling beside one another: processor time, memory and accuracy of `mixling train`.

    git worktree add ../before 5e84c5d
    (cd ../before && python setup.py -q build_ext --inplace)
    python benchmarks/revisions.py ../before . --data ../shared/data snips clinc150 --models pnlp-mixer-x-small

The two take turns, seed by seed, with one thread on one core, so that other work on the machine slows both. Each trains
with its own defaults, or those of the named model. Data: SNIPS' intents, CLINC150, MTOP's slots, and SST-2 and IMDB, of
which a tenth is set aside, the same for both. Accuracy, or the span F1 of slots, is that on validation examples; test
splits are not read. Needs Linux.

Written to benchmarks/results/revisions.json, one item for each set, model, seed and number of epochs; others are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import arguments

from mixling.data import split_validation
from mixling.provenance import provenance
from mixling.storage import write_json
from training import dataset, read, write

SETS = {"snips": "dev", "clinc150": "val", "mtop_en": "dev", "sst2_glue": None, "imdb": None}
KEY = ("set", "model", "seed", "epochs")


def files(source: Path, split: str | None, folder: Path) -> list[str]:
    """Write the training and validation examples of a set; the command's arguments."""
    if source.name == "mtop_en":  # which has intents, too
        return [f"{source / 'train.jsonl.gz'}", "--dev", f"{source / f'{split}.jsonl.gz'}", "--task", "tagging"]
    rows = read(source / "train.jsonl.gz")
    if split is None:
        parts = split_validation(dataset(rows), fraction=0.1, seed=0)
        rows, validation = (list(zip(part.texts, part.targets, strict=True)) for part in parts)
    else:
        validation = read(source / f"{split}.jsonl.gz")
    train = write(rows, folder / f"{source.name}-train.jsonl")
    chosen_on = write(validation, folder / f"{source.name}-validation.jsonl")
    return [str(train), "--dev", str(chosen_on)]  # as all revisions call it


def train(tree: Path, given: list[str], folder: Path) -> dict[str, Any]:
    """Train with the code of a source tree; processor seconds, MB at most, accuracy and log-loss on validation."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mixling", "train", *given, "-o", str(folder)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, cwd=folder.parent, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            log.seek(0)
            raise SystemExit(f"{tree}: {' '.join(command)}\n{log.read().decode(errors='replace')}")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    numbers = metrics.get("validation") or metrics.get("dev") or metrics  # as it was called before
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "mb": round(used.ru_maxrss / 1024),
        **{name: round(numbers[name], 5) for name in ("accuracy", "log_loss", "span_f1") if name in numbers},
    }


def parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    out = arguments(__doc__, "revisions")
    out.add_argument("before", type=Path, help="a checkout whose extension modules are built")
    out.add_argument("after", type=Path, help="another one")
    out.add_argument("sets", nargs="+", choices=SETS, metavar="SET", help=f"of {', '.join(SETS)}")
    out.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    out.add_argument(
        "--models", nargs="+", default=["default"], help="names of models; default: chosen by each revision"
    )
    out.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    out.add_argument("--epochs", type=int, help="in place of what each revision chooses")
    return out


def main() -> None:
    """Train, and write after each pair of trainings."""
    options = parser().parse_args()
    made = provenance()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    trees = {"before": options.before.resolve(), "after": options.after.resolve()}
    commits = {
        label: subprocess.check_output(["git", "-C", str(tree), "rev-parse", "HEAD"], text=True).strip()
        for label, tree in trees.items()
    }
    results = json.loads(options.out.read_text(encoding="utf-8"))["results"] if options.out.exists() else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for set_name in options.sets:
            given = files((options.data / set_name).resolve(), SETS[set_name], folder)
            for model in options.models:
                chosen = [] if model == "default" else ["--model", model]
                chosen += [] if options.epochs is None else ["--epochs", str(options.epochs)]
                for seed in options.seeds:
                    new: dict[str, Any] = dict(zip(KEY, (set_name, model, seed, options.epochs), strict=True))
                    for label, tree in trees.items():
                        run = folder / f"{set_name}-{model}-{seed}-{label}"
                        found = train(tree, [*given, *chosen, "--seed", str(seed)], run)
                        new[label] = {"commit": commits[label], **found}
                    print(json.dumps(new), flush=True)
                    results = [one for one in results if any(one[key] != new[key] for key in KEY)]
                    results.append({**new, "provenance": made})
                    write_json(options.out, {"results": results})


if __name__ == "__main__":
    main()
