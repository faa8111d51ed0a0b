"""The picture of the README: accuracy, size and the time for one text, from results files.

    python benchmarks/overview.py    # writes docs/pictures/overview.svg and overview-dark.svg

Accuracy and size are those of experiments/results/own_models.json (exported 8-bit models, means of three seeds, beside
its baselines on the same examples) and of experiments/results/fine_tuned.json (MiniLM fine-tuned, where that has been
run; the legend states with how many seeds). Times are those of benchmarks/results/native.json and transformer.json:
medians for one text on one core; of MiniLM, those of ONNX Runtime, which is faster than PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import log
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
SETS = {
    "snips": "SNIPS",
    "clinc150": "CLINC150",
    "imdb": "IMDB",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "cola": "CoLA",
    "rte": "RTE",
    "mtop_intents": "MTOP intents",
}
SYSTEMS = {  # of native.json
    "native": "mixling",
    "fasttext, split as for its training": "fasttext",
    "tf-idf + lr": "tf-idf",
}
TIMED = {"snips": "SNIPS, 9 words", "imdb": "IMDB, 227 words"}
THEMES = {
    "overview.svg": {
        "page": "#ffffff",
        "text": "#1f2328",
        "quiet": "#59636e",
        "line": "#d1d9e0",
        "mark": "#0969da",
        "other": "#818b98",
    },
    "overview-dark.svg": {
        "page": "#0d1117",
        "text": "#f0f6fc",
        "quiet": "#9198a1",
        "line": "#3d444d",
        "mark": "#4493f8",
        "other": "#9198a1",
    },
}
FONT = "-apple-system, Segoe UI, Helvetica, Arial, sans-serif"
WIDTH, HEIGHT = 860, 316
TOP, ROW = 58, 26  # the first row of sets, and its height
APART = 4  # mixling above the middle of a row, its baselines below it, so that none hides another
PANELS = {"accuracy": (104, 344), "megabytes": (384, 530), "milliseconds": (672, 812)}  # where they begin and end
SCALES = {
    "accuracy": (0.5, 1.0),
    "megabytes": (0.5, 150.0),
    "milliseconds": (0.01, 100.0),
}  # of the last two the logarithm
BASELINES = {
    "tf-idf": "TF-IDF + LR",
    "fasttext": "fastText",
    "embeddings": "MiniLM embeddings + LR",
}


class Measured(NamedTuple):
    """Accuracy on test, and megabytes, of a system on a set."""

    accuracy: float
    megabytes: float


class Point(NamedTuple):
    """A set: mixling, its baselines, and which of TF-IDF + logistic regression and fastText is better on validation."""

    name: str
    mixling: Measured
    baselines: dict[str, Measured]
    best: str


def points(results: list[dict[str, Any]], tuned: list[dict[str, Any]]) -> list[Point]:
    """Return the sets of own_models.json, with models without a teacher, and without other text where there are any."""
    chosen = {one["set"]: one for one in sorted(results, key=lambda one: -one["start"]) if one["teacher"] is None}
    return [_point(chosen[name], [one for one in tuned if one["set"] == name]) for name in SETS if name in chosen]


def _point(one: dict[str, Any], tuned: list[dict[str, Any]]) -> Point:
    beside = {name: one["baselines"][name] for name in BASELINES if name in one["baselines"]}
    baselines = {name: Measured(found["test"], found["bytes"] / 1e6) for name, found in beside.items()}
    if tuned:
        accuracy = mean(seed["test"] for seed in tuned)
        baselines["fine-tuned"] = Measured(accuracy, mean(seed["bytes"] for seed in tuned) / 1e6)
    mixling = Measured(
        mean(seed["test"]["accuracy"] for seed in one["seeds"]), mean(seed["bytes"] for seed in one["seeds"]) / 1e6
    )
    best = max((name for name in ("tf-idf", "fasttext") if name in beside), key=lambda name: beside[name]["validation"])
    return Point(one["set"], mixling, baselines, best)


def times(native: Mapping[str, Any], transformer: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the milliseconds for one text by set and system, from native.json and transformer.json."""
    return {
        name: {title: native[name]["systems"][system]["p50_us"] / 1e3 for system, title in SYSTEMS.items()}
        | {"embeddings": transformer[name]["systems"]["onnx"]["p50_us"] / 1e3}
        for name in TIMED
    }


def picture(
    sets: list[Point], milliseconds: Mapping[str, Mapping[str, float]], seeds: str, colors: Mapping[str, str]
) -> str:
    """Return the picture as SVG; `seeds` is how many the fine-tuned MiniLM has, empty where no set has it."""
    sets = sorted(sets, key=lambda one: -one.mixling.accuracy)
    bottom = _row(len(sets)) - ROW / 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="12">',
        "<title>Test accuracy, size, and time for one text, of mixling and its rivals</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colors["page"]}"/>',
        f'<g fill="{colors["text"]}">',
        _text(PANELS["accuracy"][0], 18, "Test accuracy", 'font-weight="600"'),
        _text(PANELS["megabytes"][0], 18, "Size of the model", 'font-weight="600"'),
        _text(PANELS["milliseconds"][0] - 108, 18, "Time for one text, one core", 'font-weight="600"'),
        *_axis("accuracy", {level / 100: f"{level}%" for level in range(50, 101, 10)}, bottom, colors),
        *_axis("megabytes", {tick: f"{tick:g} MB" for tick in (1, 10, 100)}, bottom, colors),
        *_axis("milliseconds", {tick: f"{tick:g} ms" for tick in (0.01, 1, 100)}, bottom, colors),
        *(_text(8, _row(number) + 4, SETS[one.name]) for number, one in enumerate(sets)),
        *_marks(sets, colors),
        *_times(milliseconds, colors),
        *_legend(bottom + 48, seeds, [SETS[one.name] for one in sets if "fine-tuned" not in one.baselines], colors),
    ]
    return "\n".join([*out, "</g></svg>", ""])


def _text(x: float, y: float, content: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}"{" " if style else ""}{style}>{content}</text>'


def _axis(quantity: str, ticks: Mapping[float, str], bottom: float, colors: Mapping[str, str]) -> Iterator[str]:
    for tick, title in ticks.items():
        x = _across(quantity, tick)
        yield f'<path d="M{x} {TOP - 20}V{bottom}" stroke="{colors["line"]}"/>'
        yield _text(x, bottom + 16, title, f'text-anchor="middle" font-size="11" fill="{colors["quiet"]}"')


def _marks(sets: list[Point], colors: Mapping[str, str]) -> Iterator[str]:
    for number, one in enumerate(sets):
        for quantity in ("accuracy", "megabytes"):
            for name in reversed(one.baselines):
                x = _across(quantity, getattr(one.baselines[name], quantity))
                yield _mark(name, x, _row(number) + APART, colors)
            yield _mark("mixling", _across(quantity, getattr(one.mixling, quantity)), _row(number) - APART, colors)


def _mark(system: str, x: float, y: float, colors: Mapping[str, str]) -> str:
    line = f'fill="none" stroke="{colors["other"]}" stroke-width="1.5"'
    return {
        "mixling": f'<circle cx="{x}" cy="{y}" r="5.5" fill="{colors["mark"]}"/>',
        "tf-idf": f'<circle cx="{x}" cy="{y}" r="4" fill="{colors["other"]}"/>',
        "fasttext": f'<circle cx="{x}" cy="{y}" r="4" {line}/>',
        "embeddings": f'<path d="M{x} {y - 5}l5 5l-5 5l-5 -5z" {line}/>',
        "fine-tuned": f'<path d="M{x} {y - 5}l5 5l-5 5l-5 -5z" fill="{colors["other"]}"/>',
    }[system]


def _legend(y: float, seeds: str, without: list[str], colors: Mapping[str, str]) -> Iterator[str]:
    x, titles = 14.0, {"mixling": "mixling", **BASELINES}
    if seeds:
        titles["fine-tuned"] = f"MiniLM fine-tuned ({seeds}{'; not run on ' if without else ''}{', '.join(without)})"
    for system, title in titles.items():
        yield _mark(system, x, y - 4, colors)
        yield _text(x + 11, y, title)
        x += 40 + 6.5 * len(title)


def _times(milliseconds: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> Iterator[str]:
    y, titles = TOP - 8, {"mixling": "mixling", **BASELINES, "embeddings": "MiniLM"}
    for name, systems in milliseconds.items():
        yield _text(PANELS["milliseconds"][0] - 108, y + 4, TIMED[name], f'fill="{colors["quiet"]}"')
        for system, value in systems.items():
            y += 19
            x = _across("milliseconds", value)
            side, anchor = (-10, "end") if value > 1 else (10, "start")
            yield _text(PANELS["milliseconds"][0] - 12, y + 4, titles[system], 'text-anchor="end"')
            yield _mark(system, x, y, colors)
            yield _text(x + side, y + 4, f"{value:.2g} ms", f'text-anchor="{anchor}"')
        y += 30


def _row(number: int) -> float:
    return TOP + number * ROW


def _across(quantity: str, value: float) -> float:
    (begin, end), (least, most) = PANELS[quantity], SCALES[quantity]
    part = (value - least) / (most - least) if quantity == "accuracy" else log(value / least) / log(most / least)
    return round(begin + (end - begin) * part, 1)


def read(path: str) -> Any:
    """Return a results file."""
    return json.loads((ROOT / path).read_text("utf-8"))


def fine_tuned() -> list[dict[str, Any]]:
    """Return the results of the fine-tuned MiniLM, for the sets that it has been trained on."""
    path = "experiments/results/fine_tuned.json"
    return read(path) if (ROOT / path).exists() else []


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    tuned = fine_tuned()
    sets = points(read("experiments/results/own_models.json"), tuned)
    milliseconds = times(
        read("benchmarks/results/native.json")["results"], read("benchmarks/results/transformer.json")["results"]
    )
    counts = sorted({sum(one["set"] == name for one in tuned) for name in SETS} - {0})
    seeds = f"{' or '.join(map(str, counts))} seed{'s' * (counts[-1:] > [1])}" if counts else ""
    return {name: picture(sets, milliseconds, seeds, colors) for name, colors in THEMES.items()}


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, content in pictures().items():
        (PICTURES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
