"""Write the tables of README.md and docs/benchmarks.md that are marked with comments, from the results.

    python experiments/readme.py

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`; TABLES has what is written there. Where there
are no results yet, the document states that. Accuracies are means of at least three seeds with their standard
deviation; results of fewer seeds are left out.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "experiments" / "README.md", ROOT / "docs" / "benchmarks.md")
NO_RESULTS = "*There is no results file yet.*"
SLOTS = ("word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy")
_MARKED = re.compile(r"(?<=<!-- table: )(\w+) -->\n(?:(?!<!-- table: ).)*?(?=\n<!-- end of table -->)", re.DOTALL)


def slots(folder: Path) -> str:
    """Taggers of MTOP English: the papers' sizes and mixling's own, on the test split."""
    rows = [["model", "word accuracy", "without O", "span F1", "sentence accuracy", "paper's exact match", "commit"]]
    lines = read(folder / "benchmarks" / "results" / "accuracy.json") or []
    plain = [line for line in lines if line["run"] == "mtop_en:x-small"]
    rows.append(["X-SMALL", *_metrics(line["test"] for line in plain), ".774", plain[0]["provenance"]["commit"][:7]])
    results = read(folder / "experiments" / "results" / "pnlp_mixer.json") or {}
    for label, row in results.get("table 5, ours", {}).items():
        if len(row["seeds"]) >= 3:
            paper = "" if row["paper"] is None else fraction(row["paper"] / 100)
            tested = _metrics(seed["test"] for seed in row["seeds"])
            rows.append([label, *tested, paper, row["provenance"]["commit"][:7]])
    for line in read(folder / "experiments" / "results" / "own_models.json") or []:
        if line["set"] == "mtop_en":
            tested = _metrics(seed["test"] for seed in line["seeds"])
            rows.append([line["model"], *tested, "", line["provenance"]["commit"][:7]])
    return as_markdown(rows)


def gmlp_ablation(folder: Path) -> str:
    """gMLP's Table 3: perplexities, the highest first."""
    results = read(folder / "experiments" / "results" / "gmlp_ablation.json")
    if results is None:
        return NO_RESULTS
    rows = [["model", "body", "perplexity (seeds)", "paper"]]
    for name, row in sorted(results["models"].items(), key=lambda item: -item[1]["mean"]):
        seeds = ", ".join(f"{value:.1f}" for value in row["perplexity"])
        found = f"{row['mean']:.1f}" + (f" ({seeds})" if len(row["perplexity"]) > 1 else "")
        rows.append([name, f"{row['body']:,}", found, f"{row['paper'] or ''}"])
    return as_markdown(rows)


def exact_match(folder: Path) -> str:
    """What pNLP-Mixer's "exact match" may be: our metrics less the printed figures, trained as the paper did."""
    results = read(folder / "experiments" / "results" / "pnlp_mixer.json") or {}
    both = results.get("table 1, paper", {}) | results.get("table 2, paper", {})
    printed = [row for label, row in both.items() if row["paper"] and label != "Mixer"]  # which is MinHash again
    if not printed:
        return NO_RESULTS
    foreign = [
        row["mean"]
        for label, row in results.get("table 8, ours", {}).items()
        if label.split()[-1] in ("hi", "th") and label.split()[1] not in (f"{label.split()[-1]},", "M,")
    ]
    rows = [
        ["our metric less the printed figure, in points", "Tables 1 and 2", "mean", "Table 8, wrong script, in percent"]
    ]
    for metric in ("span_f1", "word_accuracy_without_o", "sentence_accuracy", "word_accuracy"):
        apart = [100 * row["mean"][metric] - row["paper"] for row in printed]
        low, high = (100 * extreme(row[metric] for row in foreign) for extreme in (min, max))
        rows.append([metric.replace("_", " "), f"{min(apart):+.1f} to {max(apart):+.1f}"])
        rows[-1] += [f"{statistics.mean(apart):+.1f}", f"{low:.1f} to {high:.1f}"]
    return as_markdown(rows)


def pnlp_tables(folder: Path) -> str:
    """pNLP-Mixer's Tables 1 to 4 as far as they are run: validation, and differences between neighbors."""
    results = read(folder / "experiments" / "results" / "pnlp_mixer.json") or {}
    parts = []
    for key, table in results.items():
        if not key.startswith("table"):
            continue
        found = {label: row for label, row in table.items() if _of_validation(key, len(row["seeds"]))}
        if not found:
            continue
        if key.startswith(("table 3", "table 4")):
            parts.append(_varied(key, found, results))
            continue
        rows = [["model", "parameters", "word accuracy", "span F1", "sentence accuracy", "ahead of the next", "paper"]]
        ahead = {line["first"]: line for line in results.get(key.replace("table", "differences"), [])}
        for label, row in sorted(found.items(), key=lambda item: -(item[1]["paper"] or 0)):
            seeds = [seed["validation"] for seed in row["seeds"]]
            tested = [spread([seed[metric] for seed in seeds]) for metric in ("word_accuracy", "span_f1")]
            tested.append(spread([seed["sentence_accuracy"] for seed in seeds]))
            size = f"{row['seeds'][0]['parameters']:,}"
            rows.append([label, size, *tested, _interval(ahead.get(label)), f"{row['paper'] or ''}"])
        commit = next(iter(found.values()))["provenance"]["commit"][:7]
        parts.append(f"{key[0].upper()}{key[1:]}, {len(seeds)} seeds, commit {commit}:\n\n{as_markdown(rows)}")
    return "\n\n".join(parts) or NO_RESULTS


def _varied(key: str, found: dict[str, Any], results: dict[str, Any]) -> str:
    """BASE with one size changed, one seed each, beside all seeds of BASE itself."""
    rows = [["BASE, with", "parameters", "word accuracy", "span F1", "sentence accuracy"]]
    metrics = ("word_accuracy", "span_f1", "sentence_accuracy")
    own = results.get(f"table 1, {key.partition(', ')[2]}", {}).get("MinHash")
    if own is not None:
        tested = [spread([seed["validation"][metric] for seed in own["seeds"]]) for metric in metrics]
        rows.append(["no change (three seeds)", f"{own['seeds'][0]['parameters']:,}", *tested])
    for label, row in found.items():
        rows.append([label.replace("1 layers", "1 layer"), f"{row['seeds'][0]['parameters']:,}"])
        rows[-1] += [fraction(row["mean"][metric]) for metric in metrics]
    commit = next(iter(found.values()))["provenance"]["commit"][:7]
    return f"{key[0].upper()}{key[1:]}, one seed, commit {commit}:\n\n{as_markdown(rows)}"


def languages(folder: Path) -> str:
    """BASE on the rows of six languages, by what spells the words: the rows' own subwords, then Table 8's."""
    results = read(folder / "experiments" / "results" / "pnlp_mixer.json") or {}
    tables = results.get("table 5, ours", {}) | results.get("table 8, ours", {})
    names = list(dict.fromkeys(label.split()[-1] for label in tables if label.startswith("vocabulary")))
    sources = list(dict.fromkeys(label.split()[1].rstrip(",") for label in tables if label.startswith("vocabulary")))
    if not names:
        return NO_RESULTS
    rows = [["rows", "own subwords", *sources[:-1], "multilingual BERT's"]]
    for name in names:
        labels = [f"BASE, {name}, 859 rows", *(f"vocabulary {source}, rows {name}" for source in sources)]
        found = [tables[label]["mean"] for label in labels]
        rows.append([name, *(f"{fraction(one['sentence_accuracy'])}, {fraction(one['span_f1'])}" for one in found)])
    return as_markdown(rows)


def hyperpartisan(folder: Path) -> str:
    """Table 7's second half: means over the five folds of Hyperpartisan, with their standard deviation."""
    results = read(folder / "experiments" / "results" / "pnlp_mixer.json") or {}
    folds: dict[str, list[dict[str, Any]]] = {}
    for label, row in results.get("table 7, ours", {}).items():
        if label.startswith("Hyperpartisan, "):
            folds.setdefault(label.split(", ")[1], []).append(row)
    rows = [["model", "folds", "accuracy", "macro F1", 'F1 of "false"', 'F1 of "true"', "paper's F1", "commit"]]
    for model, found in folds.items():
        first = found[0]
        means = [spread([row["mean"][key] for row in found]) for key in ("accuracy", "macro_f1", "f1_false", "f1_true")]
        rows.append([model, str(len(found)), *means, f"{first['paper'] or ''}", first["provenance"]["commit"][:7]])
    return as_markdown(rows) if folds else NO_RESULTS


def hypermixer_search(folder: Path) -> str:
    """HyperMixer's Figures 3 and 4: the expected best of n random trials, by model and size of the data."""
    results = read(folder / "experiments" / "results" / "hypermixer_search.json")
    if results is None:
        return NO_RESULTS
    rows = [["examples", "model", "trials", "one trial", "best of 5", "best of 10", "best of all", "commit"]]
    for size in results["fractions"].values():
        for model, found in size["models"].items():
            count = len(found["expected"])
            rows.append([f"{size['examples']:,}", model, str(count)])
            for number in (1, 5, 10, count):
                best, deviation = found["expected"][number - 1], found["deviation"][number - 1]
                rows[-1].append(f"{100 * best:.1f} ± {100 * deviation:.1f}")
            rows[-1].append(size["provenance"]["commit"][:7])
    return as_markdown(rows)


def fashion_mnist(folder: Path) -> str:
    """Images of clothes: accuracy by model and size."""
    results = read(folder / "experiments" / "results" / "fashion_mnist.json")
    if results is None:
        return NO_RESULTS
    rows = [["model", "parameters", "epochs", "seed", "validation", "test, 95% interval", "CPU minutes", "commit"]]
    for row in results["models"]:
        low, high = row["test_interval"]
        tested = f"{fraction(row['test'])} [{fraction(low)}, {fraction(high)}]"
        sizes = [f"{row['parameters']:,}", str(row["epochs"]), str(row["seed"]), fraction(row["validation"])]
        rows.append([row["model"], *sizes, tested, f"{row['cpu_minutes']:.0f}", row["commit"][:7]])
    linear = results["linear"]
    images = f"logistic regression on {linear['images']:,} images"
    rows.append([images, "", "", "", "", fraction(linear["test"]), "", results["commit"][:7]])
    return as_markdown(rows)


def qnli(folder: Path) -> str:
    """The matched family on the part of QNLI that is at hand."""
    return _family(folder, "qnli")


def conjnli(folder: Path) -> str:
    """Transformer and HyperMixer on ConjNLI until validation no longer rises."""
    return _family(folder, "conjnli, 8 epochs")


def _family(folder: Path, key: str) -> str:
    results = (read(folder / "experiments" / "results" / "mixer_family.json") or {}).get(key)
    if results is None:
        return NO_RESULTS
    converged = all("best_epochs" in row for row in results["models"].values())
    rows = [["model", "body", *(["rates tried"] if converged else []), "rate", "validation", "test", "ms"]]
    rows[0] += ["best epochs", "HyperMixer is ahead by"] if converged else []
    for model, row in results["models"].items():
        tried = [", ".join(f"{rate} ({fraction(value)})" for rate, value in row["rates"].items())] if converged else []
        values = [spread(row["validation"]), spread(row["test"]), f"{row['milliseconds']:.2f}"]
        rows.append([model, f"{row['body']:,}", *tried, f"{row['rate']:g}", *values])
        if converged:
            found = {name: 100 * value for name, value in row.get("hypermixer_is_ahead", {}).items()}
            ahead = "{difference:+.1f} [{low:+.1f}, {high:+.1f}]".format(**found) if found else ""
            rows[-1] += [", ".join(f"{epoch:.3g}" for epoch in row["best_epochs"]), ahead]
    return as_markdown(rows)


def noise(folder: Path) -> str:
    """Accuracy on test with three tenths of the words changed: the default, without typos in training, baselines."""
    lines = read(folder / "experiments" / "results" / "robustness.json")
    if lines is None:
        return NO_RESULTS
    columns = ["clean", *(f"{kind} 0.3" for kind in ("swap", "delete", "insert", "keyboard", "ocr", "emoji"))]
    rows = [["set", "model", *(column.removesuffix(" 0.3") for column in columns)]]
    names = {"before": "without changes of training texts", "tf-idf word": "TF-IDF of words"}
    names["tf-idf word+char"] = "TF-IDF of words and characters"
    for set_, variant in sorted({(line["set"], line["variant"]): None for line in lines}, key=_default_first):
        found = [line["test"] for line in lines if (line["set"], line["variant"]) == (set_, variant)]
        means = [statistics.mean(one[column] for one in found) for column in columns]
        rows.append([set_, names.get(variant, variant), *(f"{100 * mean:.1f}" for mean in means)])
    return as_markdown(rows)


def _default_first(key: tuple[str, str]) -> tuple[str, bool, str]:
    return key[0], key[1] != "default", key[1]


def patience(folder: Path) -> str:
    """What early stopping saves, and how many trainings it ends before the evaluation that is chosen."""
    results = read(folder / "experiments" / "results" / "patience.json")
    if results is None:
        return NO_RESULTS
    rows = [["evaluations without", "number", "evaluations saved", "ended too early"]]
    for rule in results["rules"]:
        kind = "a better one or a lower loss" if rule["either"] else "a better one"
        rows.append([kind, str(rule["patience"]), f"{100 * rule['saved']:.0f}%", str(len(rule["too_early"]))])
    return as_markdown(rows)


def remixer_cost(folder: Path) -> str:
    """Operations of the base size, and steps of smaller models."""
    results = read(folder / "experiments" / "results" / "remixer_cost.json")
    if results is None:
        return NO_RESULTS
    rows = [["model", "parameters", "GFLOPs", "steps per second", "beside T5.1.1"]]
    for model, row in results["models"].items():
        speeds = [f"{row['steps_per_second']:.2f}", f"{row['relative_speed']:.2f}"]
        rows.append([model, f"{row['parameters']:,}", f"{row['flops'] / 1e9:.0f}", *speeds])
    return as_markdown(rows)


def fine_tuned(folder: Path) -> str:
    """A fine-tuned MiniLM beside the models of `mixling train` without other text; one row for each set."""
    results = folder / "experiments" / "results"
    tuned = {(line["set"], line["seed"]): line for line in read(results / "fine_tuned.json") or []}
    rows = [["set", "mixling", "MiniLM fine-tuned (seeds)", "learning rates tried"]]
    for line in read(results / "own_models.json") or []:
        lines = [tuned[key] for key in sorted(tuned) if key[0] == line["set"]]
        if line["measure"] == "accuracy" and not line["start"] and not line["teacher"]:
            own = spread([seed["test"]["accuracy"] for seed in line["seeds"]])
            accuracy = (
                f"{fraction(statistics.mean(one['test'] for one in lines))} ({len(lines)})" if lines else "not run"
            )
            rates = sorted({float(rate) for one in lines for rate in one["validation"]})
            rows.append([line["set"], own, accuracy, ", ".join(f"{rate:g}" for rate in rates)])
    return as_markdown(rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "fine_tuned": fine_tuned,
    "slots": slots,
    "gmlp_ablation": gmlp_ablation,
    "exact_match": exact_match,
    "hypermixer_search": hypermixer_search,
    "pnlp_tables": pnlp_tables,
    "languages": languages,
    "hyperpartisan": hyperpartisan,
    "fashion_mnist": fashion_mnist,
    "qnli": qnli,
    "conjnli": conjnli,
    "noise": noise,
    "patience": patience,
    "remixer_cost": remixer_cost,
}


def written(document: str, folder: Path = ROOT) -> str:
    """Return a document with the tables of the results.

    Args:
        folder: the repository's.
    """
    return _MARKED.sub(lambda found: f"{found[1]} -->\n\n{TABLES[found[1]](folder)}\n", document)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table, whose first row is the heading."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]])


def fraction(value: float) -> str:
    """.817 for 0.817."""
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1"


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation of at least three seeds."""
    assert len(values) >= 3, values
    return f"{fraction(statistics.mean(values))} ± {fraction(statistics.stdev(values))}"


def read(path: Path) -> Any:
    """Return the contents of a results file; None: there is none."""
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _metrics(seeds: Iterable[dict[str, float]]) -> list[str]:
    found = list(seeds)
    return [spread([seed[metric] for seed in found]) for metric in SLOTS]


def _of_validation(key: str, seeds: int) -> bool:
    return re.match(r"table [34]," if seeds < 3 else r"table [1-4],", key) is not None


def _interval(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    return f"{100 * found['difference']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(written(path.read_text("utf-8")), "utf-8")
