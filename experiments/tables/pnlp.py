"""Tables of pNLP-Mixer."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tables.markdown import NO_RESULTS, as_markdown, fraction, interval, read_results, spread, spread_or_mean

METRICS = ("word_accuracy", "span_f1", "sentence_accuracy")
SLOTS = ("word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy")
TITLES = ("word accuracy", "span F1", "sentence accuracy")


def exact_match(folder: Path) -> str:
    """What pNLP-Mixer's "exact match" may be: our metrics less the printed figures, trained as the paper did."""
    results = read_results(folder, "pnlp_mixer")
    both = results.get("table 1, paper", {}) | results.get("table 2, paper", {})
    printed = [row for label, row in both.items() if row["paper"] and label != "Mixer"]  # which is MinHash again
    if not printed:
        return NO_RESULTS
    foreign = [
        row["mean"]
        for label, row in results.get("table 8, ours", {}).items()
        if label.split()[-1] in ("hi", "th") and label.split()[1] not in (f"{label.split()[-1]},", "M,")
    ]
    unknown = [row["mean"] for row in results.get("table 8, paper", {}).values()]
    rows = [["", "Tables 1 and 2", "mean", "Table 8, wrong script", "no word known"]]
    for metric in ("span_f1", "word_accuracy_without_o", "sentence_accuracy", "word_accuracy"):
        apart = [100 * row["mean"][metric] - row["paper"] for row in printed]
        rows.append([metric.replace("_", " "), f"{min(apart):+.1f} to {max(apart):+.1f}"])
        rows[-1].append(f"{statistics.mean(apart):+.1f}")
        for found in (foreign, unknown):
            values = sorted(100 * row[metric] for row in found)
            rows[-1].append(" to ".join(dict.fromkeys(f"{value:.1f}" for value in values[:1] + values[-1:])))
    return as_markdown(rows)


def pnlp_tables(folder: Path) -> str:
    """pNLP-Mixer's Tables 1 to 4 as far as they are run: validation, and differences between neighbors."""
    results = read_results(folder, "pnlp_mixer")
    parts = []
    for key, table in results.items():
        if not key.startswith("table"):
            continue
        found = {label: row for label, row in table.items() if _of_validation(key, label, len(row["seeds"]))}
        if not found:
            continue
        if key.startswith(("table 3", "table 4")):
            parts.append(_varied(key, found, results))
            continue
        rows = [["model", "parameters", *TITLES, "ahead of the next", "paper"]]
        differences = results.get(key.replace("table", "differences"), [])
        ahead = {line["first"]: interval(line["difference"], line["low"], line["high"]) for line in differences}
        for label, row in sorted(found.items(), key=lambda item: -(item[1]["paper"] or 0)):
            seeds = [seed["validation"] for seed in row["seeds"]]
            tested = [spread([seed[metric] for seed in seeds]) for metric in ("word_accuracy", "span_f1")]
            tested.append(spread([seed["sentence_accuracy"] for seed in seeds]))
            size = f"{row['seeds'][0]['parameters']:,}"
            rows.append([label, size, *tested, ahead.get(label, ""), f"{row['paper'] or ''}"])
        commit = next(iter(found.values()))["provenance"]["commit"][:7]
        parts.append(f"{key[0].upper()}{key[1:]}, {len(seeds)} seeds, commit {commit}:\n\n{as_markdown(rows)}")
    return "\n\n".join(parts) or NO_RESULTS


def _varied(key: str, found: dict[str, Any], results: dict[str, Any]) -> str:
    """BASE with one size changed, one seed each, beside all seeds of BASE itself."""
    rows = [["BASE, with", "parameters", *TITLES]]
    own = results.get(f"table 1, {key.partition(', ')[2]}", {}).get("MinHash")
    if own is not None:
        tested = [spread([seed["validation"][metric] for seed in own["seeds"]]) for metric in METRICS]
        rows.append(["no change (three seeds)", f"{own['seeds'][0]['parameters']:,}", *tested])
    for label, row in found.items():
        rows.append([label.replace("1 layers", "1 layer"), f"{row['seeds'][0]['parameters']:,}"])
        rows[-1] += [fraction(row["mean"][metric]) for metric in METRICS]
    commit = next(iter(found.values()))["provenance"]["commit"][:7]
    return f"{key[0].upper()}{key[1:]}, one seed, commit {commit}:\n\n{as_markdown(rows)}"


def _of_validation(key: str, label: str, seeds: int) -> bool:
    wanted = r"table [34]," if seeds < 3 or label.endswith(", distilled") else r"table [1-4],"
    return re.match(wanted, key) is not None


def languages(folder: Path) -> str:
    """BASE on the rows of six languages, by what spells the words: the rows' own subwords, then Table 8's."""
    results = read_results(folder, "pnlp_mixer")
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


def slots(folder: Path) -> str:
    """Taggers of MTOP English on test: all sizes of Table 5, two with transitions, and mixling's own."""
    titles = (TITLES[0], "without O", *TITLES[1:])
    rows = [["model", "parameters", "seeds", *titles, "paper's exact match", "commit"]]
    found = read_results(folder, "pnlp_mixer").get("table 5, ours", {})
    models = [(label, row) for label, row in found.items() if "rows" not in label]
    models.sort(key=lambda item: -item[1]["paper"])
    models += [(line["model"], line) for line in read_results(folder, "own_models") if line["set"] == "mtop_en"]
    for label, row in models:
        paper = fraction(row["paper"] / 100) if row.get("paper") else ""
        rows.append([label, *_tested(row, "test", SLOTS), paper, row["provenance"]["commit"][:7]])
    return as_markdown(rows)


def distilled(folder: Path) -> str:
    """Models of Table 2 trained on labels alone and as students, on validation."""
    found = read_results(folder, "pnlp_mixer").get("table 2, paper", {})
    rows = [["model", "parameters", "seeds", *TITLES, "commit"]]
    for taught in (label for label in found if label.endswith(", distilled")):
        for label in (taught.removesuffix(", distilled"), taught):
            rows.append([label, *_tested(found[label], "validation"), found[label]["provenance"]["commit"][:7]])
    return as_markdown(rows) if len(rows) > 1 else NO_RESULTS


def _tested(row: dict[str, Any], part: str, metrics: Sequence[str] = METRICS) -> list[str]:
    """Parameters, seeds, and the mean of the metrics, of three seeds and more with their standard deviation."""
    seeds = row["seeds"]
    values = [spread_or_mean([seed[part][metric] for seed in seeds]) for metric in metrics]
    return [f"{seeds[0]['parameters']:,}", str(len(seeds)), *values]


def long_reviews(folder: Path) -> str:
    """Table 7's first half: accuracy on IMDB's test split, reading up to 1,024 words."""
    results = read_results(folder, "pnlp_mixer")
    rows = [["model", "parameters", "validation", "best epoch", "test", "paper", "commit"]]
    for label, row in sorted(
        results.get("table 7, ours", {}).items(), key=lambda item: item[1]["seeds"][0].get("parameters", 0)
    ):
        if label.startswith("IMDB, "):
            (seed,) = row["seeds"]
            accuracies = [f"{seed[part]['accuracy']:.3f}" for part in ("validation", "test")]
            rows.append(
                [label.removeprefix("IMDB, "), f"{seed['parameters']:,}", accuracies[0], f"{seed['best_epoch']:g}"]
            )
            rows[-1] += [accuracies[1], f"{row['paper'] / 100:.3f}", row["provenance"]["commit"][:7]]
    return as_markdown(rows) if len(rows) > 1 else NO_RESULTS


def hyperpartisan(folder: Path) -> str:
    """Table 7's second half: means over folds or seeds of Hyperpartisan, with their standard deviation."""
    results = read_results(folder, "pnlp_mixer")
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for label, row in results.get("table 7, ours", {}).items():
        if label.startswith("Hyperpartisan, "):
            _, model, split = label.split(", ")
            parts.setdefault(("folds" if split.startswith("fold ") else split, model), []).append(row)
    metrics = ("accuracy", "macro_f1", "f1_false", "f1_true")
    titles = ("accuracy", "macro F1", 'F1 of "false"', 'F1 of "true"')
    rows = [["split", "model", "trainings", *titles, "paper's F1", "commit"]]
    for (split, model), found in sorted(parts.items(), key=lambda item: item[0][0]):
        seeds = [seed["test"] for row in found for seed in row["seeds"]]
        values = [spread_or_mean([seed[key] for seed in seeds]) for key in metrics]
        rows.append([split, model, str(len(seeds)), *values, f"{found[0]['paper'] or ''}"])
        rows[-1].append(found[0]["provenance"]["commit"][:7])
    return as_markdown(rows) if parts else NO_RESULTS
