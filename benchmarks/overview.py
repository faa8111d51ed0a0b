"""The picture of the README: accuracy, size and the time for one text, from results files.

    python benchmarks/overview.py    # writes docs/pictures/overview.svg and overview-dark.svg

Accuracy and size are those of experiments/results/own_models.json (exported 8-bit models, means of three seeds, beside
its baselines on the same examples), times those of benchmarks/results/native.json (median for one text,
one core, all systems in turn).
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
SYSTEMS = {"native": "mixling", "fasttext, split as for its training": "fastText", "tf-idf + lr": "TF-IDF + LR"}
TIMED = {"snips": "SNIPS, 9 words", "imdb": "IMDB, 227 words"}
THEMES = {
    "overview.svg": {"text": "#1f2328", "quiet": "#59636e", "line": "#d1d9e0", "mark": "#0969da", "other": "#818b98"},
    "overview-dark.svg": {
        "text": "#f0f6fc",
        "quiet": "#9198a1",
        "line": "#3d444d",
        "mark": "#4493f8",
        "other": "#9198a1",
    },
}
FONT = "-apple-system, Segoe UI, Helvetica, Arial, sans-serif"
WIDTH, HEIGHT = 860, 300
TOP, ROW = 58, 24  # the first row of sets, and its height
ACCURACY, SIZE = (104, 344), (388, 532)  # where the panels begin and end
LEAST, MOST = 0.5, 150.0  # megabytes
BARS, LONGEST = 668, 130  # where the bars begin, and the length of the longest
BASELINES = {"tf-idf": "TF-IDF + LR", "fasttext": "fastText", "embeddings": "MiniLM embeddings + LR"}


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


def points(results: list[dict[str, Any]]) -> list[Point]:
    """Return the sets of own_models.json, with models without a teacher, and without other text where there are any."""
    chosen = {one["set"]: one for one in sorted(results, key=lambda one: -one["start"]) if one["teacher"] is None}
    return [_point(chosen[name]) for name in SETS if name in chosen]


def _point(one: dict[str, Any]) -> Point:
    beside = {name: one["baselines"][name] for name in BASELINES if name in one["baselines"]}
    mixling = Measured(
        mean(seed["test"]["accuracy"] for seed in one["seeds"]), mean(seed["bytes"] for seed in one["seeds"]) / 1e6
    )
    return Point(
        one["set"],
        mixling,
        {name: Measured(found["test"], found["bytes"] / 1e6) for name, found in beside.items()},
        max((name for name in ("tf-idf", "fasttext") if name in beside), key=lambda name: beside[name]["validation"]),
    )


def times(results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the milliseconds for one text by set and system, from native.json."""
    return {
        name: {title: results[name]["systems"][system]["p50_us"] / 1e3 for system, title in SYSTEMS.items()}
        for name in TIMED
    }


def picture(sets: list[Point], milliseconds: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> str:
    """Return the picture as SVG."""
    sets = sorted(sets, key=lambda one: -one.mixling.accuracy)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="12">',
        "<title>Test accuracy, size, and time for one text, of mixling and its rivals</title>",
        f'<g fill="{colors["text"]}">',
        f'<text x="{ACCURACY[0]}" y="18" font-weight="600">Test accuracy</text>',
        f'<text x="{SIZE[0]}" y="18" font-weight="600">Size of the model</text>',
        f'<text x="{BARS - 84}" y="18" font-weight="600">Time for one text, one core</text>',
        *_panel(sets, "accuracy", {level / 100: f"{level}%" for level in range(50, 101, 10)}, colors),
        *_panel(sets, "megabytes", {tick: f"{tick:g} MB" for tick in (1, 10, 100)}, colors),
        *(f'<text x="8" y="{_row(number) + 4}">{SETS[one.name]}</text>' for number, one in enumerate(sets)),
        *_legend(_row(len(sets)) + 38, colors),
        *_times(milliseconds, colors),
    ]
    return "\n".join([*out, "</g></svg>", ""])


def _panel(sets: list[Point], quantity: str, ticks: Mapping[float, str], colors: Mapping[str, str]) -> Iterator[str]:
    bottom = _row(len(sets)) - ROW / 2
    for tick, title in ticks.items():
        x = _across(quantity, tick)
        yield f'<path d="M{x} {TOP - 20}V{bottom}" stroke="{colors["line"]}"/>'
        place = f'x="{x}" y="{bottom + 16}" text-anchor="middle"'
        yield f'<text {place} font-size="11" fill="{colors["quiet"]}">{title}</text>'
    for number, one in enumerate(sets):
        for name in reversed(one.baselines):
            x = _across(quantity, getattr(one.baselines[name], quantity))
            yield _mark(name, x, _row(number), colors)
        yield _mark("mixling", _across(quantity, getattr(one.mixling, quantity)), _row(number), colors)


def _mark(system: str, x: float, y: float, colors: Mapping[str, str]) -> str:
    line = f'fill="none" stroke="{colors["other"]}" stroke-width="1.5"'
    return {
        "mixling": f'<circle cx="{x}" cy="{y}" r="6" fill="{colors["mark"]}"/>',
        "tf-idf": f'<circle cx="{x}" cy="{y}" r="4" fill="{colors["other"]}"/>',
        "fasttext": f'<circle cx="{x}" cy="{y}" r="4" {line}/>',
        "embeddings": f'<path d="M{x} {y - 5}l5 5l-5 5l-5 -5z" {line}/>',
    }[system]


def _legend(y: float, colors: Mapping[str, str]) -> Iterator[str]:
    x = ACCURACY[0] + 6.0
    for system, title in {"mixling": "mixling", **BASELINES}.items():
        yield _mark(system, x, y - 4, colors)
        yield f'<text x="{x + 11}" y="{y}">{title}</text>'
        x += 40 + 6.5 * len(title)


def _times(milliseconds: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> Iterator[str]:
    longest = max(max(systems.values()) for systems in milliseconds.values())
    y = TOP - 8
    for name, systems in milliseconds.items():
        yield f'<text x="{BARS - 84}" y="{y + 4}" fill="{colors["quiet"]}">{TIMED[name]}</text>'
        for title, value in systems.items():
            y += 25
            color = colors["mark" if title == "mixling" else "other"]
            length = round(LONGEST * value / longest, 1)
            yield f'<text x="{BARS - 8}" y="{y + 4}" text-anchor="end">{title}</text>'
            yield f'<rect x="{BARS}" y="{y - 7}" width="{length}" height="14" rx="2" fill="{color}"/>'
            yield f'<text x="{BARS + length + 6}" y="{y + 4}">{value:.2g} ms</text>'
        y += 34


def _row(number: int) -> float:
    return TOP + number * ROW


def _across(quantity: str, value: float) -> float:
    (begin, end), part = ACCURACY, (value - 0.5) / 0.5
    if quantity == "megabytes":
        (begin, end), part = SIZE, log(value / LEAST) / log(MOST / LEAST)
    return round(begin + (end - begin) * part, 1)


def pictures() -> dict[str, str]:
    """Return the pictures by file name."""
    own = json.loads((ROOT / "experiments" / "results" / "own_models.json").read_text("utf-8"))
    native = json.loads((ROOT / "benchmarks" / "results" / "native.json").read_text("utf-8"))
    return {name: picture(points(own), times(native["results"]), colors) for name, colors in THEMES.items()}


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, content in pictures().items():
        (PICTURES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
