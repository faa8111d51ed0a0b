"""Tables of gMLP and the models that it is compared with."""

from __future__ import annotations

from pathlib import Path

from tables.markdown import as_markdown, fraction, mean_and_seeds, percent, read_results

NAMES = {"gmlp": "gMLP", "amlp": "aMLP", "transformer": "Transformer", "hypermixer-minhash": "HyperMixer on hashes"}


def gmlp_ablation(folder: Path) -> str:
    """gMLP's Table 3: perplexities, the highest first."""
    results = read_results(folder, "gmlp_ablation")
    rows = [["model", "body", "perplexity (seeds)", "paper"]]
    for name, row in sorted(results["models"].items(), key=lambda item: -item[1]["mean"]):
        seeds = ", ".join(f"{value:.1f}" for value in row["perplexity"])
        found = f"{row['mean']:.1f}" + (f" ({seeds})" if len(row["perplexity"]) > 1 else "")
        rows.append([name, f"{row['body']:,}", found, f"{row['paper'] or ''}"])
    return as_markdown(rows)


def gmlp_filters(folder: Path) -> str:
    """Figures 4 and 9: how much of the matrices is constant along their diagonals, layer by layer."""
    models = read_results(folder, "gmlp_filters")["models"]
    rows = [["W", "perplexity", "Toeplitz"]]
    for name, key in (("Toeplitz", "toeplitz"), ("unconstrained", "free")):
        shares = ", ".join(f"{share:.0%}" for share in models[key]["toeplitz_share"])
        rows.append([name, f"{models[key]['perplexity']:.1f}", "all" if key == "toeplitz" else shares])
    return as_markdown(rows)


def gmlp_scaling(folder: Path) -> str:
    """Figures 5, 7 and 8: perplexities by size, and the exponent of the power law."""
    results = read_results(folder, "gmlp_scaling")
    rows = [["model"]]
    for points in zip(*results["points"].values(), strict=True):
        sizes = {f"{extreme(point['body'] for point in points) / 1e6:.2g}": None for extreme in (min, max)}
        rows[0].append(f"{' to '.join(sizes)} M")
    rows[0].append("k")
    for model, points in results["points"].items():
        layers = ", ".join(str(point["layers"]) for point in points)
        perplexities = [f"{point['perplexity']:.1f}" for point in points]
        rows.append([f"{NAMES[model]} ({layers} layers)", *perplexities, fraction(results["laws"][model][1], 2)])
    return as_markdown(rows)


def gmlp_data(folder: Path) -> str:
    """Figure 7's axis of data: perplexities by the part of the text that models of the middle depth are trained on."""
    points = read_results(folder, "gmlp_scaling")["data"]["points"]
    parts = next(iter(points.values()))
    rows = [["model", *(f"{part['fraction']:.0%}, {part['tokens'] / 1e6:.2g} M subwords" for part in parts)]]
    for model, found in points.items():
        name = f"{NAMES[model]} ({found[0]['layers']} layers)"
        rows.append([name, *(f"{point['perplexity']:.1f}" for point in found)])
    return as_markdown(rows)


def pretraining(folder: Path) -> str:
    """Section 4.4: perplexities of masked language models, and accuracies on pairs after fine-tuning, in percent."""
    results = read_results(folder, "pretraining")
    tasks = [results[task]["models"] for task in ("rte", "conjnli")]
    rows = [["model", "parameters", "held-out perplexity", "WikiText-2", "RTE", "ConjNLI"]]
    for model, found in results["sst2_glue"]["pretraining"].items():
        name = f"{model}, pretrained"
        rows.append([NAMES[model], f"{results['sst2_glue']['models'][name]['parameters']:,}"])
        rows[-1] += [f"{found['perplexity']:.1f}", f"{results['wikitext2']['models'][model]['perplexity']:.0f}"]
        rows[-1] += [mean_and_seeds(task[name]["test"]) if name in task else "" for task in tasks]
    rows.append(["TF-IDF + LR", "", "", "", *(percent(task["tf-idf + lr"]["test"][0]) for task in tasks)])
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
