"""`mixling similar`: the texts of an index that are nearest to others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Option

from mixling.cli.command import OUTPUT
from mixling.cli.output import no_collections, put
from mixling.errors import ConfigError, printable


@dataclass(frozen=True, kw_only=True)
class SimilarInput:
    """The index and the texts."""

    index: Annotated[Path, typer.Argument(metavar="INDEX", help="A folder of `mixling encode MODEL FILES -o FOLDER`.")]
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXTS...", help="Texts to find others for; of several that belong together, each."),
    ]


@dataclass(frozen=True, kw_only=True)
class SimilarOutput:
    """What is printed."""

    panel: ClassVar[str] = OUTPUT
    count: Annotated[int, Option("-n", "--count", min=1, metavar="N", help="Texts for each.")] = 10
    graph: Annotated[
        bool, Option("--graph", help="Search by the index's graph; of an index that you made, as it may crash usearch.")
    ] = False
    format: Annotated[str, Option("--format", metavar="text|jsonl", help="Lines to read, or JSON lines.")] = "text"


def similar_command(given: SimilarInput, output: SimilarOutput) -> None:
    """Find the texts of an index that are nearest to others.

    Texts are near whose vectors have a high cosine. All vectors are compared, or with --graph those that the graph
    of the index leads to, which finds about 98 of 100.
    """
    with no_collections():
        from mixling.runtime.index import VectorIndex

    if output.format not in ("text", "jsonl"):
        raise ConfigError(f"--format: got {output.format!r}; allowed: text, jsonl")
    if not all(map(str.strip, given.texts)):
        raise ConfigError("a text is empty, which is near to nothing; give texts with words")
    index = VectorIndex(given.index, graph=output.graph)
    names = index.predictor.text_names or ("text",)
    if len(given.texts) % len(names):
        allowed = f"for each search {len(names)}: {', '.join(names)}"
        raise ConfigError(f"got {len(given.texts)} texts; the model reads several that belong together, {allowed}")
    texts = [*zip(*[iter(given.texts)] * len(names), strict=True)] if len(names) > 1 else given.texts
    for text, found in zip(texts, index.nearest(texts, output.count), strict=True):
        nearest = [(number, cosine, index.text(number)) for number, cosine in found]
        if output.format == "jsonl":
            rows = [{"row": number, "similarity": round(cosine, 4), "text": other} for number, cosine, other in nearest]
            put(json.dumps({"text": text, "nearest": rows}, ensure_ascii=False) + "\n")
            continue
        put(_line(text) + "\n")
        for _, cosine, other in nearest:
            put(f"  {cosine:.3f}  {_line(other)}\n")


def _line(text: Any) -> str:
    return printable(text if isinstance(text, str) else " | ".join(text))
