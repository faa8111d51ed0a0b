"""Tables of what is done with a model: explanations, audits, suggestions, late labels, probabilities relied on."""

from __future__ import annotations

from pathlib import Path

from trust import accuracies, coverages

from tables.markdown import as_markdown, fraction, fractions, read_results, spread

METHODS = {"leave_one_out": "leave-one-out", "shapley": "Shapley values"}
LEARNED = {
    "from scratch": "training from scratch on everything",
    **{f"replay {number}": f"`init.replay={number}`" for number in (0, 10, 50, 200)},
    "replay 400": "all 400",
}


def explanations(folder: Path) -> str:
    """By how much probabilities fall without the words of the largest effects."""
    rows = [["set", "method", "top fifth", "random fifth", "ratio"]]
    for line in sorted(read_results(folder, "explanations"), key=lambda line: -line["texts"]):
        falls = [fraction(line[f"fall_{words}_fifth"]) for words in ("top", "random")]
        rows.append([line["model"], METHODS[line["method"]], *falls, f"{line['ratio']:.2g}"])
    return as_markdown(rows)


def label_errors(folder: Path) -> str:
    """How many wrong labels an audit finds."""
    rows = [["seed", "AUROC", "precision of the 5% least probable labels", "likely errors: precision, recall"]]
    rows[0].append("CPU seconds")
    for line in read_results(folder, "label_errors"):
        likely = fractions(line[f"likely_errors_{metric}"] for metric in ("precision", "recall"))
        found = [fraction(line["auroc"], 4), fraction(line["precision_at_replaced"]), likely]
        rows.append([str(line["seed"]), *found, f"{line['cpu_seconds']:.0f}"])
    return as_markdown(rows)


def suggestions(folder: Path) -> str:
    """Accuracies on test after each round, with random texts and with suggested ones."""
    lines = read_results(folder, "suggestions")
    first = lines[0]
    sizes = ", ".join(f"{first['begin'] + first['size'] * number:,}" for number in range(1, first["rounds"] + 1))
    rows = [["seed", "commit", f"{first['begin']}", f"random: {sizes}", f"suggested: {sizes}", "area, random"]]
    rows[0].append("suggested")
    for line in lines:
        random, suggested = (line["accuracy"][kind] for kind in ("random", "suggested"))
        rows.append([str(line["seed"]), line["provenance"]["commit"][:7], fraction(random[0])])
        rows[-1] += [fractions(random[1:]), fractions(suggested[1:])]
        rows[-1] += [fraction(line["area"][kind]) for kind in ("random", "suggested")]
    return as_markdown(rows)


def late_labels(folder: Path) -> str:
    """Validation accuracy on the intents a model had and on those that came, by the old examples replayed."""
    items = read_results(folder, "late_labels")["items"]
    (seeds,) = (list(item["accuracy"].values()) for item in items if item["split"] == "validation")
    rows = [["learned by", "old intents", "new intents", "all"]]
    for key, name in LEARNED.items():
        rows.append([name, *(spread([seed[key][intents] for seed in seeds]) for intents in ("old", "new", "all"))])
    return as_markdown(rows)


def trust(folder: Path) -> str:
    """Calibration and abstention."""
    return accuracies(read_results(folder, "trust"))


def conformal_sets(folder: Path) -> str:
    """Coverage and size of conformal sets."""
    return coverages(read_results(folder, "trust"))
