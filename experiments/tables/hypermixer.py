"""Tables of HyperMixer and the models that it is compared with."""

from __future__ import annotations

from pathlib import Path

from tables.markdown import NO_RESULTS, as_markdown, fraction, interval, read_results, spread


def qnli(folder: Path) -> str:
    """The matched family on the part of QNLI that is at hand."""
    return _family(folder, "qnli")


def conjnli(folder: Path) -> str:
    """Transformer and HyperMixer on ConjNLI until validation no longer rises."""
    return _family(folder, "conjnli, 8 epochs")


def _family(folder: Path, key: str) -> str:
    results = read_results(folder, "mixer_family").get(key)
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
            ahead = interval(**row["hypermixer_is_ahead"]) if "hypermixer_is_ahead" in row else ""
            rows[-1] += [", ".join(f"{epoch:.3g}" for epoch in row["best_epochs"]), ahead]
    return as_markdown(rows)


def hypermixer_search(folder: Path) -> str:
    """HyperMixer's Figures 3 and 4: the expected best of n random trials, by model and size of the data."""
    results = read_results(folder, "hypermixer_search")
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
