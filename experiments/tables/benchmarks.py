"""Tables of docs/benchmarks.md and docs/costs.md whose results are under benchmarks/results."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from tables.markdown import as_markdown, fraction, read_results, spread, spread_or_mean

SYSTEMS = {
    "native": "mixling, native engine",
    "native, AVX2": "the same without AVX-512",
    "onnx": "mixling, ONNX Runtime",
    "tf-idf + lr": "TF-IDF + LR (scikit-learn)",
    "fasttext, split as for its training": "fastText, text split as for its training",
    "fasttext, raw lines": "fastText, raw lines",
}
CORE_HOUR = 0.05  # the price that docs/costs.md states
LABELING = {
    "mixling": "mixling",
    "file to file": "mixling, file to file",
    "fasttext": "fastText",
    "tf-idf + lr": "TF-IDF + LR (scikit-learn)",
    "MiniLM, 8 bits": "MiniLM, 8 bits",
    "MiniLM": "MiniLM, float32",
}
PARTS = {
    "split": "words found",
    "word table": "words looked up",
    "hidden layer from the products of words": "hidden layer from what is kept of words",
    "products with integers": "second product, integers",
    "products with floats, GELU": "other products, GELU",
    "norms, pools, output": "norms, pools, output",
    "n-gram branch": "n-gram branch",
    "Python objects": "Python: strings in, predictions out",
}
PAPERS = {  # for each run its set, and what the table calls set and model
    "snips:x-small": ("snips", "SNIPS, 7 intents", "X-SMALL"),
    "clinc150:x-small+model.frontend.window=1": ("clinc150", "CLINC150, 150 intents", "X-SMALL, window of one word"),
}
STEPS = {
    "mixling": "mixling",
    "mixling, with changes of texts": "mixling, with typos and pseudo-words, as it trains",
    "embedding bag": "textbook, embedding bag",
    "dense counters": "textbook, dense counters",
}
TRAININGS = {
    "snips": "SNIPS, 13,084 texts, 13 epochs",
    "imdb": "IMDB, 25,000 reviews, one epoch",
    "million": "1,000,000 texts, 50 steps",
}

COLUMN_SETS = {
    "sick": "SICK, two texts, `relatedness`",
    "mtop": "MTOP in six languages, `lang`",
    "imdb": "IMDB, 2,000 rows, `score`",
}
COLUMN_SYSTEMS = ("mixling", "tf-idf and columns + lr", "tf-idf and columns + trees", "tf-idf + lr")


def speed(folder: Path) -> str:
    """Microseconds of one text, median and 90th percentile, and texts per second, with warm and cold caches."""
    results = read_results(folder, "native", "benchmarks")["results"]
    rows = [["system", "SNIPS, one text", "SNIPS, many", "IMDB, one text", "IMDB, many"]]
    for key, name in SYSTEMS.items():
        rows.append([name])
        for set_ in ("snips", "imdb"):
            found = results[set_]["systems"][key]
            rows[-1].append(f"{found['p50_us']:.0f}, {found['p90_us']:.0f}")
            rows[-1].append(f"{found['warm_texts_per_second']:,}, {found['cold_texts_per_second']:,}")
    return as_markdown(rows)


def core_hours(folder: Path) -> str:
    """Texts in a core-hour, and what a billion texts take, in core-hours and in money."""
    results = read_results(folder, "core_hours", "benchmarks")["results"]
    rows = [["system", *(f"{name}, {what}" for name in ("SNIPS", "IMDB")
                   for what in ("texts in a core-hour", "core-hours for a billion", "price"))]]  # fmt: skip
    for key, name in LABELING.items():
        rows.append([name])
        for found in (results["snips"], results["imdb"]):
            rate = found["texts_per_second"].get(key) or found["file_to_file"]["rows_per_second"]
            hours = 1e9 / rate / 3600
            rows[-1] += [f"{rate * 3600 / 1e6:,.3g} million", f"{hours:,.{1 if hours < 100 else 0}f}"]
            rows[-1].append(f"{hours * CORE_HOUR:,.2f}")
    return as_markdown(rows)


def native_profile(folder: Path) -> str:
    """Where the native engine's time goes."""
    results = read_results(folder, "native_profile", "benchmarks")["results"]
    found = [results[name] for name in ("snips", "imdb", "snips, X-SMALL")]
    rows = [["microseconds a text", "SNIPS", "IMDB", "SNIPS, X-SMALL"]]
    rows.append(["all", *(f"{one['us_per_text']:.1f}" for one in found)])
    for part, name in PARTS.items():
        rows.append([name, *(f"{one['us_per_text'] * one['fractions'].get(part, 0):.1f}" for one in found)])
    others = [sum(value for part, value in one["fractions"].items() if part not in PARTS) for one in found]
    rows.append(["other"])
    rows[-1] += [f"{one['us_per_text'] * other:.1f}" for one, other in zip(found, others, strict=True)]
    return as_markdown(rows)


def papers_models(folder: Path) -> str:
    """Classifiers of the papers on test, beside TF-IDF."""
    lines = read_results(folder, "accuracy", "benchmarks")
    baselines = read_results(folder, "baselines", "benchmarks")["sets"]
    rows = [["test set", "model", "test", "TF-IDF + LR", "commit, date"]]
    for run, (set_, title, model) in PAPERS.items():
        found = [line for line in lines if line["run"] == run]
        accuracies = [spread([line["test"]["accuracy"] for line in found]), fraction(baselines[set_]["test_accuracy"])]
        made = found[0]["provenance"]
        rows.append([title, model, *accuracies, f"{made['commit'][:7]}, {made['date'][:10]}"])
    return as_markdown(rows)


def training_steps(folder: Path) -> str:
    """Milliseconds of a training step."""
    steps = read_results(folder, "training", "benchmarks")["steps"]
    rows = [["texts in a batch", "64", "256, the default from 5,000 texts on"]]
    for key, name in STEPS.items():
        rows.append([name, *(f"{steps[size]['ms'][key]:.2f}" for size in ("64", "256"))])
    return as_markdown(rows)


def training_layers(folder: Path) -> str:
    """Milliseconds and GFLOP/s of a feed-forward sublayer by the processor's instructions."""
    found = read_results(folder, "training", "benchmarks")["layers"]
    layers = {name: one for name, one in found.items() if name != "provenance"}
    rows = [["forward and backward", *layers]]
    for kind in next(iter(layers.values()))["ms"]:
        rows.append(
            [kind, *(f"{one['ms'][kind]:.1f} ms, {one['gflop_per_s'][kind]} GFLOP/s" for one in layers.values())]
        )
    return as_markdown(rows)


def trainings(folder: Path) -> str:
    """Time and memory of whole trainings."""
    results = read_results(folder, "training", "benchmarks")
    rows = [["training", "seconds", "CPU seconds", "GB at most", "steps and evaluations, s", "n-gram branch, s"]]
    for key, name in TRAININGS.items():
        found = results[key]
        rows.append([name, f"{found['wall_s']:.0f}", f"{found['cpu_s']:.0f}", f"{found['peak_mb'] * 2**20 / 1e9:.2f}"])
        rows[-1] += [f"{found['phases_wall_s'][part]:.0f}" for part in ("steps and evaluations", "n-gram branch")]
    return as_markdown(rows)


def heap(folder: Path) -> str:
    """Memory of training beside the size of the text."""
    rows = [["reviews", "text, MB", "GB at most", "times the text", "before, GB"]]
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for run in read_results(folder, "heap", "benchmarks")["runs"]:
        found.setdefault(run["copies"], {})[run["version"]] = run
    for copies, runs in found.items():
        now, before = runs["now"], runs.get("before")
        rows.append([f"{25_000 * copies:,}", f"{now['text_bytes'] / 1e6:.0f}", f"{now['peak_bytes'] / 1e9:.2f}"])
        rows[-1].append(f"{now['peak_bytes'] / now['text_bytes']:.1f}")
        rows[-1].append("" if before is None else f"{before['peak_bytes'] / 1e9:.2f}")
    return as_markdown(rows)


def hypermixing(folder: Path) -> str:
    """HyperMixing's speed beside attention's, and what it would be at the rate of a matrix product."""
    rows = [["tokens", "1 head", "4 heads", "8 heads", "at the rate of a matrix product", "its share of that rate"]]
    for line in read_results(folder, "hypermixing", "benchmarks")["lengths"]:
        limits = ", ".join(f"{value:.2f}" for value in line["limit"].values())
        beside = [f"{line['faster_than'][name]:.2f}" for name in line["limit"]]
        rows.append([f"{line['length']:,}", *beside, limits, f"{line['share_of_gemm_rate']:.0%}"])
    return as_markdown(rows)


def hypermixing_training(folder: Path) -> str:
    """The time of a step of training HyperMixing, and how many times as fast it is as other forms and attention."""
    rows = [
        ["tokens", "precision", "ms", "without the native module", "the equation in torch", "attention, 1, 4, 8 heads"]
    ]
    for line in read_results(folder, "hypermixing", "benchmarks")["training"]:
        ratios = line["faster_than"]
        heads = ", ".join(f"{ratios[name]:.2f}" for name in ratios if name.startswith("attention"))
        rows.append([f"{line['length']:,}", line["precision"], f"{line['median_ms']['hypermixing']:.1f}"])
        rows[-1] += [f"{ratios['without native']:.2f}", f"{ratios['unchunked']:.2f}", heads]
    return as_markdown(rows)


def revisions(folder: Path) -> str:
    """Accuracy (of slots, span F1), log-loss and processor time of `mixling train` at two revisions."""
    results = read_results(folder, "revisions", "benchmarks")["results"]
    rows = [["set", "model", "validation, before", "after", "log-loss", "CPU seconds", "times as fast (seeds)"]]
    rows[0].append("commit")
    for set_, model, epochs in dict.fromkeys((one["set"], one["model"], one["epochs"]) for one in results):
        runs = [one for one in results if (one["set"], one["model"], one["epochs"]) == (set_, model, epochs)]
        rows.append([set_, model if epochs is None else f"{model}, {epochs} {'epoch' if epochs == 1 else 'epochs'}"])
        measure = "span_f1" if "span_f1" in runs[0]["after"] else "accuracy"
        rows[-1] += [spread_or_mean([one[label][measure] for one in runs]) for label in ("before", "after")]
        for key, digits in (("log_loss", 3), ("cpu_s", 0)):
            known = key in runs[0]["before"]
            means = [statistics.mean(one[label][key] for one in runs) for label in ("before", "after") if known]
            rows[-1].append(", ".join(f"{mean:.{digits}f}" for mean in means))
        rows[-1].append(", ".join(f"{one['before']['cpu_s'] / one['after']['cpu_s']:.1f}" for one in runs))
        rows[-1].append(", ".join(dict.fromkeys(one["after"]["commit"][:7] for one in runs)))
    return as_markdown(rows)


def columns(folder: Path) -> str:
    """Accuracy with columns beside the text, and how far ours is from the best of the others that read them."""
    results = read_results(folder, "columns", "benchmarks")
    rows = [["test set", *COLUMN_SYSTEMS, "mixling beside the better of both that read columns", "commit, date"]]
    for name, title in COLUMN_SETS.items():
        if name not in results:
            continue
        found = {one["name"]: one for one in results[name]["systems"]}
        best = max((found[one] for one in COLUMN_SYSTEMS[1:3]), key=lambda one: one["mean"])
        interval = best["difference_interval"]
        low, high = -interval["high"], -interval["low"]
        ahead = f"{-100 * best['difference']:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
        origin = results[name]["provenance"]
        values = [spread(found["mixling"]["by_seed"]), *(fraction(found[one]["mean"]) for one in COLUMN_SYSTEMS[1:])]
        rows.append([title, *values, ahead, f"{origin['commit'][:7]}, {origin['date'][:10]}"])
    return as_markdown(rows)
