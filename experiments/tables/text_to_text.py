"""Tables of encoder-decoders."""

from __future__ import annotations

from pathlib import Path

from tables.markdown import as_markdown, mean_and_seeds, percent_spread, percents, read_results

# Results, and what is recombined in them.
COGS = {
    "cogs": "all words",
    "cogs, dropout of 0.1": "all words",
    "cogs, repeated words recombined, dropout of 0.1": "names and nouns",
}
PUBLISHED = {  # exact match on the generalization set
    "Transformer, from scratch (Kim and Linzen 2020)": "35",
    "Transformer, relative positions (Csordas et al. 2021)": "81",
    "T5.1.1 and Remixer, pretrained (paper)": "77.4, 79.2",
}
STARTS = {"pretrained": "pretrained", "scratch": "from scratch"}
MOST_FREQUENT = ["52.7", "50.0", "", "63.5"]  # accuracies of the most frequent label on the test rows, counted once


def parsing(folder: Path) -> str:
    """Table 4, scaled down: exact match on COGS, in percent, where there are three seeds."""
    results = read_results(folder, "parsing")
    rows = [["model", "recombination of", "dropout", "epochs", "validation", "test", "generalization"]]
    for key, recombined in COGS.items():
        for model, row in results[key].items():
            if len(row["tests"]) >= 3:
                name = f"{model} (mixling's)" if model == "HyperMixer" else model
                rows.append([name, recombined, f"{row['shape']['dropout']:g}", str(row["epochs"])])
                rows[-1].append(percents(row["validation"]))
                for split in ("test", "gen"):
                    values = [seed[split] for seed in row["tests"]]
                    rows[-1].append(f"{percent_spread(values)} ({percents(values)})")
    return as_markdown(rows + [[name, *[""] * 5, value] for name, value in PUBLISHED.items()])


def span_corruption(folder: Path) -> str:
    """Section 5, scaled down: perplexities, and accuracies of tasks as text to text, in percent."""
    results = read_results(folder, "span_corruption")
    tasks = (("rte", "accuracy"), ("cb", "accuracy"), ("cb", "macro_f1"), ("boolq", "accuracy"))
    rows = [["model", "parameters", "held-out perplexity", "RTE", "CB, accuracy", "CB, macro F1", "BoolQ"]]
    for start, name in STARTS.items():
        for model, found in results["rte"]["pretraining"].items():
            perplexity = f"{found['perplexity']:.1f}" if start == "pretrained" else ""
            rows.append([f"{model}, {name}", f"{found['parameters']:,}", perplexity])
            for task, measure in tasks:
                seeds = results[task]["models"][f"{model}, {start}"]["test"]
                rows[-1].append(mean_and_seeds([seed["measures"][measure] for seed in seeds]))
    return as_markdown([*rows, ["the most frequent label", "", "", *MOST_FREQUENT]])


def remixer_cost(folder: Path) -> str:
    """Operations of the base size, and steps of smaller models."""
    results = read_results(folder, "remixer_cost")
    rows = [["model", "parameters", "GFLOPs", "steps per second", "beside T5.1.1"]]
    for model, row in results["models"].items():
        speeds = [f"{row['steps_per_second']:.2f}", f"{row['relative_speed']:.2f}"]
        rows.append([model, f"{row['parameters']:,}", f"{row['flops'] / 1e9:.0f}", *speeds])
    return as_markdown(rows)
