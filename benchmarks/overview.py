"""The picture of the README: accuracy against size, and the time for one text, from results files.

    python benchmarks/overview.py    # writes docs/pictures/overview.svg and overview-dark.svg

Accuracy and size are those of experiments/results/own_models.json (exported 8-bit models, means of three seeds, beside
TF-IDF + logistic regression on the same examples), times those of benchmarks/results/native.json (median for one text,
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
WIDTH, HEIGHT = 780, 300
TOP, BOTTOM, LEFT, RIGHT = 46, 252, 46, 400  # of the first panel
LEAST, MOST = 0.2, 50.0  # megabytes
BARS, LONGEST = 560, 150  # where the bars begin, and the length of the longest


class Point(NamedTuple):
    """Accuracy and megabytes of mixling and of TF-IDF + logistic regression on a set.

    Attributes:
        best: the accuracy of TF-IDF + logistic regression or fastText, whichever is better on validation.
    """

    name: str
    accuracy: float
    megabytes: float
    other_accuracy: float
    other_megabytes: float
    best: float


def points(results: list[dict[str, Any]]) -> list[Point]:
    """Return the sets of own_models.json, with models without a teacher, and without other text where there are any."""
    chosen = {one["set"]: one for one in sorted(results, key=lambda one: -one["start"]) if one["teacher"] is None}
    return [_point(chosen[name]) for name in SETS if name in chosen]


def _point(one: dict[str, Any]) -> Point:
    beside = one["baselines"]
    best = max((beside[name] for name in ("tf-idf", "fasttext") if name in beside), key=lambda item: item["validation"])
    return Point(
        one["set"],
        mean(seed["test"]["accuracy"] for seed in one["seeds"]),
        mean(seed["bytes"] for seed in one["seeds"]) / 1e6,
        beside["tf-idf"]["test"],
        beside["tf-idf"]["bytes"] / 1e6,
        best["test"],
    )


def times(results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the milliseconds for one text by set and system, from native.json."""
    return {
        name: {title: results[name]["systems"][system]["p50_us"] / 1e3 for system, title in SYSTEMS.items()}
        for name in TIMED
    }


def picture(sizes: list[Point], milliseconds: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> str:
    """Return the picture as SVG."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="12">',
        "<title>Test accuracy against size, and time for one text, of mixling and its rivals</title>",
        f'<g fill="{colors["text"]}">',
        '<text x="8" y="18" font-weight="600">Test accuracy against size of the model</text>',
        f'<text x="{BARS - 84}" y="18" font-weight="600">Time for one text, one core</text>',
        *_sizes(sizes, colors),
        *_times(milliseconds, colors),
    ]
    return "\n".join([*out, "</g></svg>", ""])


def _sizes(sizes: list[Point], colors: Mapping[str, str]) -> Iterator[str]:
    quiet = f'fill="{colors["quiet"]}"'
    for level in range(50, 101, 10):
        yield f'<path d="M{LEFT} {_down(level / 100)}H{RIGHT}" stroke="{colors["line"]}"/>'
        yield f'<text x="{LEFT - 6}" y="{_down(level / 100) + 4}" text-anchor="end" {quiet}>{level}%</text>'
    for tick in (0.3, 1, 3, 10, 30):
        yield f'<path d="M{_across(tick)} {BOTTOM}v5" stroke="{colors["quiet"]}"/>'
        yield f'<text x="{_across(tick)}" y="{BOTTOM + 19}" text-anchor="middle" {quiet}>{tick:g} MB</text>'
    free = 0.0
    for one in sorted(sizes, key=lambda one: -one.other_accuracy):
        x, y, far, there = *_at(one.megabytes, one.accuracy), *_at(one.other_megabytes, one.other_accuracy)
        yield f'<path d="M{x} {y}L{far} {there}" stroke="{colors["other"]}" stroke-dasharray="2 3"/>'
        yield f'<circle cx="{far}" cy="{there}" r="4" fill="{colors["other"]}"/>'
        yield f'<circle cx="{x}" cy="{y}" r="6" fill="{colors["mark"]}"/>'
        free = max(there + 4, free + 13)  # names do not overlap
        yield f'<text x="{RIGHT + 6}" y="{free}" font-size="11" {quiet}>{SETS[one.name]}</text>'
    y = BOTTOM + 40
    yield f'<circle cx="{LEFT + 6}" cy="{y - 4}" r="6" fill="{colors["mark"]}"/>'
    yield f'<text x="{LEFT + 18}" y="{y}">mixling</text>'
    yield f'<circle cx="{LEFT + 88}" cy="{y - 4}" r="4" fill="{colors["other"]}"/>'
    yield f'<text x="{LEFT + 98}" y="{y}">TF-IDF + logistic regression</text>'


def _times(milliseconds: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> Iterator[str]:
    longest = max(max(systems.values()) for systems in milliseconds.values())
    y = TOP + 8
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


def _at(megabytes: float, accuracy: float) -> tuple[float, float]:
    return _across(megabytes), _down(accuracy)


def _across(megabytes: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * log(megabytes / LEAST) / log(MOST / LEAST), 1)


def _down(accuracy: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * (accuracy - 0.5) / 0.5, 1)


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
