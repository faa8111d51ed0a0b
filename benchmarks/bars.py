"""The chart of the README: accuracy, size and time of three systems, and the claim above it, from results files.

    python benchmarks/bars.py    # writes docs/pictures/bars.svg and bars-dark.svg, and prints the claim

Accuracy and size are means over the eight data sets of experiments/results/own_models.json; the time is the median for
one text of SNIPS on one core, in benchmarks/results/native.json. `overview.py` draws each data set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from overview import FONT, PICTURES, SYSTEMS, THEMES, points, read

TITLES = {"mixling": "mixling", "tf-idf": "TF-IDF + LR", "fasttext": "fastText"}
PANELS = {  # what is measured: where its bars begin, and how its values are written
    "accuracy": (100, "{:.1%}"),
    "megabytes": (370, "{:.1f} MB"),
    "milliseconds": (640, "{:.3f} ms"),
}
HEADS = {"accuracy": "Accuracy", "megabytes": "Size of the model", "milliseconds": "Time for one answer"}
WIDTH, HEIGHT, LONGEST, TOP, ROW = 860, 142, 140, 40, 28


class System(NamedTuple):
    """What is measured of a system."""

    accuracy: float
    megabytes: float
    milliseconds: float


def systems() -> dict[str, System]:
    """Return the three systems, from the results files."""
    sets = points(read("experiments/results/own_models.json"), [])
    timed = {title: name for name, title in SYSTEMS.items()}
    snips = read("benchmarks/results/native.json")["results"]["snips"]["systems"]
    found = {}
    for name in TITLES:
        measured = [one.mixling if name == "mixling" else one.baselines[name] for one in sets]
        accuracy, megabytes = mean(one.accuracy for one in measured), mean(one.megabytes for one in measured)
        found[name] = System(accuracy, megabytes, snips[timed[name]]["p50_us"] / 1e3)
    return found


def claim(found: Mapping[str, System]) -> str:
    """Return the claim of the README."""
    ours, theirs = found["mixling"], found["tf-idf"]
    return (
        f"{100 * (ours.accuracy - theirs.accuracy):.1f} points more accurate than TF-IDF with logistic regression, "
        f"{theirs.megabytes / ours.megabytes:.0f} times smaller, "
        f"{theirs.milliseconds / ours.milliseconds:.0f} times as fast"
    )


def picture(found: Mapping[str, System], colors: Mapping[str, str]) -> str:
    """Return the chart as SVG."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" font-size="13">',
        "<title>Accuracy, size and time for one answer of mixling, TF-IDF + logistic regression, and fastText</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colors["page"]}"/>',
        f'<g fill="{colors["text"]}">',
    ]
    for number, title in enumerate(TITLES.values()):
        weight = "" if number else ' font-weight="600"'
        out.append(
            f'<text x="{PANELS["accuracy"][0] - 8}" y="{_middle(number)}" text-anchor="end"{weight}>{title}</text>'
        )
    for quantity in PANELS:
        out.extend(_panel(quantity, found, colors))
    return "\n".join([*out, "</g></svg>", ""])


def _panel(quantity: str, found: Mapping[str, System], colors: Mapping[str, str]) -> Iterator[str]:
    left, form = PANELS[quantity]
    best = "more is better" if quantity == "accuracy" else "less is better"
    yield f'<text x="{left}" y="24" font-weight="600">{HEADS[quantity]}'
    yield f'<tspan dx="8" font-size="11" font-weight="400" fill="{colors["quiet"]}">{best}</tspan></text>'
    most = max(getattr(one, quantity) for one in found.values())
    for number, one in enumerate(found.values()):
        value = getattr(one, quantity)
        length, fill = round(max(LONGEST * value / most, 2), 1), colors["other" if number else "mark"]
        weight = "" if number else ' font-weight="600"'
        yield f'<rect x="{left}" y="{TOP + number * ROW}" width="{length}" height="{ROW - 8}" rx="2" fill="{fill}"/>'
        yield f'<text x="{left + length + 6}" y="{_middle(number)}"{weight}>{form.format(value)}</text>'


def _middle(number: int) -> float:
    return TOP + number * ROW + ROW / 2


def pictures() -> dict[str, str]:
    """Return the charts by file name."""
    found = systems()
    return {name.replace("overview", "bars"): picture(found, colors) for name, colors in THEMES.items()}


def main() -> None:
    """Write the charts, and print the claim."""
    for name, content in pictures().items():
        (PICTURES / name).write_text(content, "utf-8")
    print(claim(systems()))


if __name__ == "__main__":
    main()
