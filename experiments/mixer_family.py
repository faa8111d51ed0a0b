"""HyperMixer, Table 1 in small: mixers of equal size on real text from scratch, at what accuracy and at what cost.

Paper (11 million parameters): HyperMixer performs better than alternative MLP-based models and on par with
Transformers. Here, so that two cores can do it: 2 layers of width 128 whose bodies have the Transformer's number of
parameters (the free width of each mixer is searched for), a vocabulary trained on each task's text, and beside the
paper's rivals a body without token mixing. SNIPS intents, SST-2 (GLUE) and ConjNLI, which has no public test labels, as
GLUE has none: their validation split is the test here, and 5% of the training rows choose. SICK has all three. Of QNLI
only the validation rows are at hand: a fifth of their questions is the test, and a tenth of the others choose. gmlp-512
and fnet-512 have the other models' feed-forward, as in the paper, where FNet is smaller; gmlp has no feed-forward and
fnet a wider one.
ConjNLI's two epochs are too few to order models by (README.md beside this file); --epochs has more, as a result of its
own, with the best epoch of each training; --overlap marks the words that both texts of a pair have, which no model has
to find then. Where HyperMixer is among the models, the others' results have how far it is ahead of them on test, with a
95% interval over the examples, each with its mean over the seeds.

    python experiments/mixer_family.py --data ../shared/data             # about 3 hours of one core
    python experiments/mixer_family.py conjnli --data ../shared/data --epochs 8 --extend --seeds 5 \
        --models "no mixing" transformer linear-transformer fnet-512 mlp-mixer gmlp-512 hypermixer    # 2.5 hours

Texts are trained on as they are, without the typos and dropped words that `mixling train` has by default.
Every model has the same grid of learning rates, which --extend continues where a model's best rate is at its edge. The
best on validation (seed 0) is trained with more seeds; test is read of these alone. --chosen has the rates that an
earlier search found best, in place of another search. Each training is a run folder under --runs: what is finished
there is not done again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mixling import PRESETS, Dataset, ModelConfig, Predictor, RunConfig, fit, model_config, read_examples
from mixling.artifacts import RUN_FILE
from mixling.config import parse
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.metrics import resampled
from mixling.models import count
from mixling.networks import WORDS_AS_THEY_ARE
from mixling.provenance import provenance
from mixling.research.cost import time_model
from mixling.runs.resolve import resumed_config
from mixling.storage import write_json
from mixling.tasks import Classification


class Task(NamedTuple):
    """Files of one data set, without .jsonl.gz.

    Where `validation` is None a part of train, `fraction`, chooses; where `test` is, a fifth of train is the test.
    """

    train: str
    validation: str | None
    test: str | None
    epochs: int
    max_len: int
    columns: dict[str, str]
    fraction: float = 0.05


TASKS = {
    "snips": Task("train", "dev", "test", 6, 64, {"text": "tokens", "label": "intent"}),
    "sst2_glue": Task("train", None, "dev", 2, 64, {}),
    "conjnli": Task("train_adversarial", None, "dev", 2, 128, {"text_pair": "text_pair"}),
    "sick": Task("train", "dev", "test", 10, 64, {"text_pair": "text_pair"}),
    "qnli": Task("dev", None, None, 6, 128, {"text_pair": "text_pair", "group": "text"}, 0.1),
}
# Of each model, the width that decides its size.
FREE = {
    "no mixing": ("feed_forward", "ffn_dim"),
    "transformer": None,
    "linear-transformer": None,
    "fnet": ("feed_forward", "ffn_dim"),
    "mlp-mixer": ("mixer", "hidden_dim"),
    "gmlp": ("mixer", "ffn_dim"),
    "fnet-512": None,
    "gmlp-512": ("mixer", "ffn_dim"),
    "hypermixer": ("mixer", "hidden_dim"),
    "hypermixer-untied": ("mixer", "hidden_dim"),
}
DIM, LAYERS = 128, 2
AS_IT_IS = {**WORDS_AS_THEY_ARE, "token_dropout": 0.0}  # the text, as in the paper


def matched(name: str, max_len: int) -> ModelConfig:
    """The preset at width DIM, with LAYERS layers, as near to the Transformer's size as its free width allows."""

    def sized(width: int | None) -> ModelConfig:
        layer = PRESETS["transformer" if name == "no mixing" else name].config.layers[0].to_dict()
        if name == "no mixing":
            layer["mixers"] = []
        layer["dropout"] = 0.1
        if layer["feed_forward"] is not None:
            layer["feed_forward"]["ffn_dim"] = 2 * DIM
        if width is not None:
            location, key = FREE[name]
            (layer["feed_forward"] if location == "feed_forward" else layer["mixers"][0])[key] = width
        changes = {"dim": DIM, "num_layers": LAYERS, "layers": [layer], "text": {"max_len": max_len}}
        return model_config("transformer" if name == "no mixing" else name, changes)

    if FREE[name] is None:
        return sized(None)
    budget = count(matched("transformer", max_len), vocabulary=1).body
    low, high = 1, 32 * DIM
    while low < high:  # the largest even width (gMLP halves its own) within the budget
        middle = (low + high + 1) // 2
        fits = count(sized(2 * middle), vocabulary=1).body <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    return sized(2 * low)


def train(model: ModelConfig, epochs: int, data: tuple[Dataset, Dataset], rate: float, folder: Path) -> float:
    """Train into a folder named by the seed, unless that is done; the accuracy on validation."""
    training = {"epochs": epochs, "seed": int(folder.name), "optim": {"lr": rate}} | AS_IT_IS
    values = {"model": model.to_dict(), "train": training, "decisions": {"precision": "float32"}}
    complete(parse(RunConfig, values, where=str(folder)), data, folder)
    return float(metrics(folder)["validation"]["accuracy"])


def best_rate(
    trained: Callable[[float], float], rates: Sequence[float], *, extend: bool
) -> tuple[float, dict[float, float]]:
    """The learning rate with the highest accuracy on validation, and the accuracy of each.

    Args:
        trained: trains at a rate, and returns the accuracy.
        extend: where the best rate is the lowest or the highest, try half or twice as much, too, until it is not.
    """
    found: dict[float, float] = {}
    more = list(rates)
    while more:
        found |= {rate: trained(rate) for rate in more}
        best = max(found, key=lambda rate: found[rate])
        beyond = {min(found): best / 2, max(found): best * 2}
        more = [beyond[best]] if extend and best in beyond else []
    return best, dict(sorted(found.items()))


def metrics(folder: Path) -> dict[str, Any]:
    """What a training wrote at its end."""
    return json.loads((folder / "metrics.json").read_text())


def complete(config: RunConfig, data: tuple[Dataset, Dataset], folder: Path) -> bool:
    """Train into a folder, unless that is done; an interrupted training with this configuration goes on.

    Returns:
        Whether there was something to do.
    """
    saved, finished = resumed_config(folder) if (folder / RUN_FILE).exists() else (None, False)
    if finished and saved == config:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    fit(config, *data, folder=folder, resume=saved == config)
    return True


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All models on one task."""
    task = task_of(name, options)

    def load(split: str) -> Dataset:
        path, columns = options.data / name / f"{split}.jsonl.gz", ColumnsConfig(**task.columns)
        error, reader = OnBadRow("error"), Classification.reader
        return Dataset.from_examples(
            read_examples([path], reader=reader, columns=columns, on_bad_row=error, grouped=True)
        )

    data, test = load(task.train), None
    if task.test is None:
        data, test = split_validation(data, fraction=0.2, seed=1)
    splits = (
        (data, load(task.validation)) if task.validation else split_validation(data, fraction=task.fraction, seed=0)
    )
    models = {model: matched(model, task.max_len) for model in options.models}
    if options.overlap:
        text = {model: config.text.model_copy(update={"overlap": True}) for model, config in models.items()}
        models = {model: config.model_copy(update={"text": text[model]}) for model, config in models.items()}
    runs = options.runs / called(name, options)
    report: dict[str, Any] = {}
    for model, config in models.items():

        def trained(rate: float, seed: int = 0, *, model: str = model, config: ModelConfig = config) -> float:
            return train(config, task.epochs, splits, rate, runs / model / f"{rate:g}" / str(seed))

        rates, extend = ([options.chosen[model]], False) if model in options.chosen else (options.rates, options.extend)
        best, validation = best_rate(trained, rates, extend=extend)
        seeds = [trained(best, seed) for seed in range(options.seeds)]
        report[model] = {
            "rates": {f"{rate:g}": value for rate, value in validation.items()},
            "rate": best,
            "validation": seeds,
        }
        print(name, model, report[model], flush=True)

    test = load(task.test) if task.test else test
    texts, labels = list(test.texts), list(test.targets)
    length, hits = 0, {}
    for model, found in report.items():
        folders = [runs / model / f"{found['rate']:g}" / str(seed) for seed in range(options.seeds)]
        predictors = [Predictor(folder) for folder in folders]
        if options.epochs is not None:
            found["best_epochs"] = [metrics(folder)["best"]["epoch"] for folder in folders]
        answers = [predictor.predict_stream(texts) for predictor in predictors]
        hits[model] = np.array(
            [[item.label == label for item, label in zip(answer, labels, strict=True)] for answer in answers], float
        )
        found["test"] = hits[model].mean(1).tolist()
        length = round(statistics.mean(len(item.words) for item in predictors[0].tokenize(texts)))
    for model in report if "hypermixer" in report else ():
        ahead = (hits["hypermixer"] - hits[model]).mean(0)
        if model != "hypermixer":
            interval = asdict(resampled(ahead))
            report[model]["hypermixer_is_ahead"] = {"difference": float(ahead.mean()), **interval}
    for row in time_model(models, [length], repeats=51):  # all models take turns
        counts = {"body": count(models[row.model], vocabulary=1).body, "tokens": length, "flops": row.flops}
        report[row.model] |= {**counts, "milliseconds": row.seconds * 1e3}
    return report


def task_of(name: str, options: argparse.Namespace) -> Task:
    """The task, with the number of epochs that is asked for."""
    return TASKS[name] if options.epochs is None else TASKS[name]._replace(epochs=options.epochs)


def chosen(text: str) -> tuple[str, float]:
    """A model and its learning rate, of MODEL=RATE."""
    model, _, rate = text.partition("=")
    if model not in FREE:
        raise argparse.ArgumentTypeError(f"{model!r} is no model; allowed are {', '.join(FREE)}")
    return model, float(rate)


def called(name: str, options: argparse.Namespace) -> str:
    """The name of a task's results and folder: one of its own for each number of epochs, and for each option."""
    name = name if options.epochs is None else f"{name}, {options.epochs} epochs"
    name = f"{name}, extended grid" if options.extend else name
    return f"{name}, overlap" if options.overlap else name


def as_table(report: dict[str, Any]) -> str:
    """One line for each model: accuracies in percent, mean and, over the seeds, standard deviation."""
    lines = [f"{'model':<20} {'validation':>6} {'test':>6} {'sd':>5} {'lr':>7} {'body':>9} {'MFLOPs':>7} {'ms':>6}"]
    for model, row in report.items():
        spread = statistics.stdev(row["test"]) if len(row["test"]) > 1 else float("nan")
        lines.append(
            f"{model:<20} {100 * statistics.mean(row['validation']):>6.2f} {100 * statistics.mean(row['test']):>6.2f} "
            f"{100 * spread:>5.2f} {row['rate']:>7g} {row['body']:>9,} {row['flops'] / 1e6:>7.2f} "
            f"{row['milliseconds']:>6.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the tasks that are named, or all, and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; default: all")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets' folders")
    parser.add_argument("--models", nargs="+", choices=FREE, default=list(FREE))
    parser.add_argument("--rates", nargs="+", type=float, default=[5e-4, 1.5e-3, 4e-3], help="the grid, for all models")
    parser.add_argument(
        "--chosen", nargs="+", type=chosen, default=[], metavar="MODEL=RATE", help="by an earlier search"
    )
    parser.add_argument("--extend", action="store_true", help="go on where a model's best rate is at the grid's edge")
    parser.add_argument("--epochs", type=int, help="in place of the task's own number; a result of its own")
    parser.add_argument("--overlap", action="store_true", help="mark the words that both texts of a pair have")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/mixer_family"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mixer_family.json")
    options = parser.parse_args()
    options.chosen = dict(options.chosen)
    for name in options.tasks:
        if name not in TASKS:
            parser.error(f"unknown task {name!r}; choose of {', '.join(TASKS)}")
    torch.set_num_threads(options.threads)
    for name in options.tasks or TASKS:
        made = provenance(packages=("onnxruntime", "tokenizers"))
        report = run(name, options)
        print(f"{name}\n{as_table(report)}", flush=True)
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        epochs = task_of(name, options).epochs
        results[called(name, options)] = {"provenance": made, "epochs": epochs, "models": report}
        write_json(options.out, results)


if __name__ == "__main__":
    main()
