"""Tables of HyperMixer and the models that it is compared with."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from tables.markdown import NO_RESULTS, as_markdown, fraction, interval, percent, read_results, spread

NAMES = {"mlp-mixer": "MLP-Mixer", "hypermixer": "HyperMixer"}
FAMILY = {"sst2_glue": "SST-2", "conjnli": "ConjNLI"}


def pairs_of_shapes(folder: Path) -> str:
    """Figure 5: the error on test, median and range of the seeds, by the number of signals to train on."""
    results = read_results(folder, "hypermixer_shapes")["test_mse"]
    sizes = list(next(iter(results.values())))
    rows = [["model", *(f"{int(size):,}" for size in sizes)]]
    for model, found in results.items():
        rows.append([NAMES.get(model, model), *(_median_and_range(found[size]) for size in sizes)])
    return as_markdown(rows)


def _median_and_range(found: Mapping[str, float]) -> str:
    median, low, high = (
        f"{value:.2f}" if value >= 1 else f"{value:#.2g}".removeprefix("0")
        for value in (found["median"], found["min"], found["max"])
    )
    return f"{median} ({low}–{high})"


def mixer_family(folder: Path) -> str:
    """Table 1 in small: accuracies of all models on SST-2 and ConjNLI, in percent."""
    rows = [["model"]]
    found = [read_results(folder, "mixer_family")[task]["models"] for task in FAMILY]
    for title in FAMILY.values():
        rows[0] += [f"{title} validation", "test (sd)", "lr", "ms"]
    for model in found[0]:
        rows.append([model])
        for row in (task[model] for task in found):
            tested = f"{percent(statistics.mean(row['test']))} ({percent(statistics.stdev(row['test']))})"
            rows[-1] += [percent(statistics.mean(row["validation"])), tested, f"{row['rate']:g}"]
            rows[-1].append(f"{row['milliseconds']:.2f}")
    return as_markdown(rows)


def mixer_family_sizes(folder: Path) -> str:
    """Parameters and operations of the same models."""
    sst2, conjnli = (read_results(folder, "mixer_family")[task]["models"] for task in FAMILY)
    tokens = [next(iter(models.values()))["tokens"] for models in (sst2, conjnli)]
    rows = [["model", "body (SST-2)", f"MFLOPs at {tokens[0]} / {tokens[1]} tokens"]]
    for model, row in sst2.items():
        operations = f"{row['flops'] / 1e6:.1f} / {conjnli[model]['flops'] / 1e6:.1f}"
        rows.append([model, f"{row['body']:,}", operations])
    return as_markdown(rows)


def qnli(folder: Path) -> str:
    """The matched family on the part of QNLI that is at hand."""
    return _family(folder, "qnli")


def conjnli_family(folder: Path) -> str:
    """The family on ConjNLI until validation no longer rises."""
    return _family(folder, "conjnli, 8 epochs, extended grid")


def sst2_family(folder: Path) -> str:
    """The family on SST-2's phrases until validation no longer rises."""
    return _family(folder, "sst2_glue, 4 epochs, extended grid")


def snips_family(folder: Path) -> str:
    """The family on SNIPS until validation no longer rises."""
    return _family(folder, "snips, 10 epochs, extended grid")


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
    """HyperMixer's Figures 3 and 4 on SST-2: the expected best of n random trials, by model and size of the data."""
    return _search(folder, "hypermixer_search-sst2_glue-narrow", (5, 10))


def hypermixer_search_snips(folder: Path) -> str:
    """The same on SNIPS."""
    return _search(folder, "hypermixer_search-snips-narrow", (10,))


def hypermixer_search_conjnli(folder: Path) -> str:
    """Figure 3 on ConjNLI, with words that change in training."""
    return _search(folder, "hypermixer_search-conjnli-narrow", ())


def hypermixer_search_conjnli_words(folder: Path) -> str:
    """Figure 3 on ConjNLI, as far as it is run on the words as they are."""
    return _search(folder, "hypermixer_search-conjnli-narrow-words", ())


def hypermixer_search_paper(folder: Path) -> str:
    """Figure 4 on SNIPS in the paper's space."""
    return _search(folder, "hypermixer_search-snips-paper", (2, 5))


def hypermixer_search_paper_sst2(folder: Path) -> str:
    """Figure 4 on SST-2 in the paper's space."""
    return _search(folder, "hypermixer_search-sst2_glue-paper", (2, 5))


def _search(folder: Path, name: str, numbers: Sequence[int]) -> str:
    """The expected best of one trial, of some numbers of them and of all; HyperMixer's also against the Transformer."""
    best_of = [f"best of {number}" for number in numbers]
    against = "one trial, all: against the Transformer"
    rows = [["examples", "model", "trials", "one trial", *best_of, "best of all", against, "commit"]]
    for size in read_results(folder, name)["fractions"].values():
        transformer = size["models"]["transformer"]["expected"]
        for model, found in size["models"].items():
            count = len(found["expected"])
            best = zip(found["expected"], found["deviation"], strict=True)
            cells = [f"{percent(value)} ± {percent(deviation)}" for value, deviation in best]
            rows.append([f"{size['examples']:,}", model, str(count)])
            rows[-1] += [cells[number - 1] if number <= count else "" for number in (1, *numbers, count)]
            changes = [f"{100 * (found['expected'][at] / transformer[at] - 1):+.1f}%" for at in (0, -1)]
            rows[-1].append(", ".join(changes) if model == "hypermixer" else "")
            rows[-1].append(size["provenance"]["commit"][:7])
    return as_markdown(rows)


def recall(folder: Path) -> str:
    """Multi-query associative recall of all mixers, the best at 128 tokens first."""
    results = read_results(folder, "bench")
    found = [(name, row) for name, mixer in results.items() for row in mixer["forms"]]
    lengths = list(found[0][1]["recall"])
    rows = [["mixer", "form", *(f"{length} tokens" for length in lengths), "rate", "state", "parameters"]]
    for name, row in sorted(found, key=lambda item: [-item[1]["recall"][length] for length in lengths[::-1]]):
        state = "" if row["state"] is None else f"{row['state']:,}"
        scores = [fraction(row["recall"][length]) for length in lengths]
        rows.append([name, row["form"], *scores, f"{row['rate']:g}", state, f"{row['parameters']:,}"])
    return as_markdown(rows)
