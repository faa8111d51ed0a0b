"""Tables of gMLP and the models that it is compared with."""

from __future__ import annotations

from pathlib import Path

from tables.markdown import as_markdown, fraction, read_results


def gmlp_ablation(folder: Path) -> str:
    """gMLP's Table 3: perplexities, the highest first."""
    results = read_results(folder, "gmlp_ablation")
    rows = [["model", "body", "perplexity (seeds)", "paper"]]
    for name, row in sorted(results["models"].items(), key=lambda item: -item[1]["mean"]):
        seeds = ", ".join(f"{value:.1f}" for value in row["perplexity"])
        found = f"{row['mean']:.1f}" + (f" ({seeds})" if len(row["perplexity"]) > 1 else "")
        rows.append([name, f"{row['body']:,}", found, f"{row['paper'] or ''}"])
    return as_markdown(rows)


def fashion_mnist(folder: Path) -> str:
    """Images of clothes: accuracy by model and size."""
    results = read_results(folder, "fashion_mnist")
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
