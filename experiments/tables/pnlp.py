"""Tables of pNLP-Mixer."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

from tables.markdown import NO_RESULTS, as_markdown, fraction, interval, read_results, spread_or_mean

METRICS = ("word_accuracy_without_o", "span_f1", "sentence_accuracy", "word_accuracy")
TITLES = ("without O", "span F1", "sentence accuracy", "word accuracy")


def exact_match(folder: Path) -> str:
    """What pNLP-Mixer's "exact match" may be: our metrics less the printed figures, trained as the paper did."""
    results = read_results(folder, "pnlp_mixer")
    tables = [results.get(f"table {number}, paper", {}) for number in range(1, 5)]
    rows = {label: row for table in tables for label, row in table.items() if row["paper"]}
    rows.pop("Mixer", None)  # which is MinHash again
    if len(rows) < 3:
        return NO_RESULTS
    unknown = [row["mean"] for row in results.get("table 8, paper", {}).values()]
    printed = [row["paper"] for row in rows.values()]
    lines = [["read as", "rows", "ours less the paper's: mean, sd", "range", "correlation", "no word known"]]
    for metric, title in zip(METRICS, TITLES, strict=True):
        ours = [100 * row["mean"][metric] for row in rows.values()]
        apart = [mine - theirs for mine, theirs in zip(ours, printed, strict=True)]
        known = sorted(100 * row[metric] for row in unknown)
        lines.append(
            [
                title,
                f"{len(rows)}",
                f"{statistics.mean(apart):+.1f}, {statistics.stdev(apart):.1f}",
                f"{min(apart):+.1f} to {max(apart):+.1f}",
                fraction(statistics.correlation(ours, printed), 2),
                " to ".join(dict.fromkeys(f"{value:.1f}" for value in known[:1] + known[-1:])),
            ]
        )
    return as_markdown(lines)


def pnlp_tables(folder: Path) -> str:
    """pNLP-Mixer's Tables 1 to 4 as far as they are run: validation, and differences between neighbors."""
    results = read_results(folder, "pnlp_mixer")
    parts = []
    for key, table in results.items():
        if not re.match(r"table [1-4],", key):
            continue
        number, training = key.removeprefix("table ").split(", ", 1)
        single = number in "34"
        chosen = {
            label: row
            for label, row in table.items()
            if not label.endswith(", distilled") and (single or len(row["seeds"]) >= 3)
        }
        if not chosen:
            continue
        base = results.get(f"table 1, {training}", {}).get("MinHash")
        if single and base is not None:
            chosen = {"BASE": base} | chosen
        differences = results.get(f"differences {number}, {training}", [])
        ahead = {line["first"]: interval(line["difference"], line["low"], line["high"]) for line in differences}
        printed = "paper's BASE" if "x-small" in training else "paper"
        rows = [["model", "parameters", "seeds", *TITLES, *(["ahead of the next"] if ahead else []), printed]]
        ordered = chosen.items() if single else sorted(chosen.items(), key=lambda item: -(item[1]["paper"] or 0))
        for label, row in ordered:
            gap = [ahead.get(label, "")] if ahead else []
            rows.append([label, *_tested(row, "validation"), *gap, f"{row['paper'] or ''}"])
        commits = dict.fromkeys(row["provenance"]["commit"][:7] for row in chosen.values())
        parts.append(f"Table {number}, {training}, commit {', '.join(commits)}:\n\n{as_markdown(rows)}")
    return "\n\n".join(parts) or NO_RESULTS


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
    """Taggers of MTOP English on test: all sizes of Table 5, two with transitions, by the paper's recipe, mixling's."""
    rows = [["model", "parameters", "seeds", *TITLES, "paper's exact match", "commit"]]
    results = read_results(folder, "pnlp_mixer")
    found = dict(results.get("table 5, ours", {}))
    found |= {f"{label}, the paper's recipe": row for label, row in results.get("table 5, paper", {}).items()}
    models = [(label, row) for label, row in found.items() if "rows" not in label]
    models.sort(key=lambda item: -item[1]["paper"])
    models += [(line["model"], line) for line in read_results(folder, "own_models") if line["set"] == "mtop_en"]
    for label, row in models:
        paper = fraction(row["paper"] / 100) if row.get("paper") else ""
        rows.append([label, *_tested(row, "test"), paper, row["provenance"]["commit"][:7]])
    return as_markdown(rows)


def distilled(folder: Path) -> str:
    """Models of Table 2 trained on labels alone and as students, on validation."""
    found = read_results(folder, "pnlp_mixer").get("table 2, paper", {})
    rows = [["model", "parameters", "seeds", *TITLES, "commit"]]
    for taught in (label for label in found if label.endswith(", distilled")):
        for label in (taught.removesuffix(", distilled"), taught):
            rows.append([label, *_tested(found[label], "validation"), found[label]["provenance"]["commit"][:7]])
    return as_markdown(rows) if len(rows) > 1 else NO_RESULTS


def _tested(row: dict[str, Any], part: str) -> list[str]:
    """Parameters, seeds, and the mean of the metrics, of three seeds and more with their standard deviation."""
    seeds = row["seeds"]
    values = [spread_or_mean([seed[part][metric] for seed in seeds]) for metric in METRICS]
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
