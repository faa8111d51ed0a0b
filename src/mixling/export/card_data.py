"""The sections of a model card about the data, the metrics of each label, and the ways to run the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixling.errors import printable

SHOWN_LABELS = 50


def code(name: str) -> str:
    """Return a label as Markdown code on one line, fenced by more backticks than it contains."""
    line = printable(name)
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def data_section(data: Mapping[str, Any] | None, *, files: Sequence[str], held_out: bool) -> str:
    """Return what the model was trained on, as far as the run knows.

    Args:
        data: the entry of metrics.json.
        files: the training files.
        held_out: whether the validation examples were set aside from these files, rather than read from others.
    """
    if data is None:
        return ""
    names = ", ".join(code(Path(name).name) for name in files)
    of = f" of {names}" if names else ""
    held = "that were set aside" if held_out else "of the files named for validation"
    return f"""
## Data

Trained on {data["training"]:,} examples{of}; {data["validation"]:,} examples {held} were used for validation. License,
languages and origin of the data are not known to the program: add them here before you publish the model, or with the
options `--license`, `--language` and `--dataset` of `mixling push`.
"""


def label_table(validation: Mapping[str, Any], data: Mapping[str, Any] | None) -> str:
    """Return the metrics of each label, the first 50 of them."""
    rows: Sequence[Mapping[str, Any]] = validation.get("per_class") or ()
    if not rows or not {"label", "precision", "recall", "f1", "support"} <= rows[0].keys():
        return ""
    counts = {} if data is None else data["labels"]
    lines = []
    for row in rows[:SHOWN_LABELS]:
        numbers = f"{row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} | {row['support']:,}"
        count = f"{counts[row['label']]:,}" if row["label"] in counts else ""
        lines.append(f"| {cell(row['label'])} | {numbers} | {count} |")
    left = f"\n\n{len(rows) - SHOWN_LABELS} more are in `metrics.json`." if len(rows) > SHOWN_LABELS else ""
    return (
        "\n| label | precision | recall | F1 | validation examples | training examples |\n|---|---|---|---|---|---|\n"
        + "\n".join(lines)
        + left
        + "\n"
    )


def cell(label: str) -> str:
    """Return a label as code in a cell of a Markdown table."""
    return code(label).replace("|", "\\|")


def pictures(validation: Mapping[str, Any]) -> str:
    """Return the pictures that the run has drawn, where matplotlib is installed."""
    confusion = "\n![Confusion matrix on validation](confusion.png)\n" if validation.get("confusion") else ""
    return f"{confusion}\n![Training curves](curves.png)\n"


def weakest_labels(validation: Mapping[str, Any]) -> str:
    """Return an item of the card's list of limitations: the three labels with the lowest F1, of four or more."""
    rows: Sequence[Mapping[str, Any]] = validation.get("per_class") or ()
    if len(rows) < 4 or not {"label", "f1", "support"} <= rows[0].keys():
        return ""
    weakest = sorted(rows, key=lambda row: (row["f1"], row["support"]))[:3]
    names = ", ".join(f"{code(row['label'])} ({row['f1']:.2f} on {row['support']:,} examples)" for row in weakest)
    return f"- The labels with the lowest F1 on validation: {names}.\n"


SERVED = """Over HTTP, with a page to try it (`pip install "mixling[serve]"`), and as a web page that needs no server:

```
mixling serve .
mixling export . --browser site/
```

In C, with the library of the native engine, which computes this model if `mixling show . --engine` prints "native":

```c
mixling_open(content, size, &model, reason, sizeof reason); /* the bytes of model.onnx */
mixling_start(model, 1 << 20, 42, &worker);
/* then mixling_predict, mixling_tag or mixling_answer, as mixling.h describes them */
```
"""
