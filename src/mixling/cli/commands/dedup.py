"""`mixling dedup`: the rows of files without those whose texts repeat earlier ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from typer import Option

from mixling.cli.command import OUTPUT
from mixling.cli.options import OnBadRowOption, SecondText, SeveralTexts, TextColumn, refuse_stdin, text_columns
from mixling.cli.output import no_collections, put, wrapped
from mixling.errors import ConfigError, printable


@dataclass(frozen=True, kw_only=True)
class DedupInput(TextColumn):
    """The rows to compare."""

    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Rows in any format of `train`, or lines of a .txt.")
    ]
    text: SeveralTexts = None  # type: ignore[assignment]  # one or several
    text_pair: SecondText = None
    threshold: Annotated[
        float, Option("--threshold", metavar="J", help="Least share of common words of near-duplicates; 1: equal sets.")
    ] = 0.7
    on_bad_row: OnBadRowOption = "error"


@dataclass(frozen=True, kw_only=True)
class DedupOutput:
    """Where the results are written."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[
        Path | None,
        Option("-o", "--out", metavar="FILE", help="Write the rows that repeat nothing (.csv, .jsonl or .txt)."),
    ] = None
    report: Annotated[
        Path | None, Option("--report", metavar="FILE.csv", help="Write each duplicate with the row that it repeats.")
    ] = None


def dedup_command(rows: DedupInput, output: DedupOutput) -> None:
    """Find rows whose texts repeat earlier ones, exactly or nearly.

    Equal texts differ in case and blanks at most. Near-duplicates have nearly the same words: their Jaccard index
    (common words by all words of both) reaches the threshold. The first row stays. Rows are read once, a million
    sentences in .4 GB; the order of words and what they mean do not count.
    """
    with no_collections():
        from mixling.cli.inputs import keep_inputs
        from mixling.data.readers import OnBadRow
        from mixling.data.without_duplicates import remove_duplicates
    refuse_stdin("dedup", rows.files)
    for path in (output.out, output.report):
        if path is not None:
            keep_inputs(rows.files, path)
    if output.out is not None and output.out == output.report:
        raise ConfigError(f"{output.out}: is the file of -o and of --report; give two")
    bad = OnBadRow(rows.on_bad_row)  # type: ignore[arg-type]
    columns = _columns(rows)
    found = remove_duplicates(
        rows.files, columns=columns, threshold=rows.threshold, on_bad_row=bad, out=output.out, report=output.report
    )
    lines = [
        f"{found.rows:,} rows: {found.kept:,} kept, {found.equal:,} equal and {found.near:,} nearly equal to others"
    ]
    for text, place, earlier, similarity in found.examples:
        shown = printable(" ".join(text.split())[:100])
        lines.append(f"  {place} repeats {earlier} ({similarity:.0%} of their words): {shown}")
    put(wrapped("\n".join(lines)) + "\n")
    for line in bad.lines():
        print(line, file=sys.stderr)


def _columns(rows: DedupInput) -> list[str]:
    """Return the columns to compare: as given, or found in the first file.

    Raises:
        ConfigError: the rows do not say which they are.
    """
    from mixling.data.corpora import is_plain
    from mixling.data.guess import guess_columns

    named = text_columns(rows.text, rows.text_pair)
    if rows.text:
        return named
    first = next((name for name in rows.files if not is_plain(name)), None)
    guess = None if first is None else guess_columns(first)
    if guess is None:
        return named or ["text"]
    if len(guess.text) != 1:
        names = ", ".join(guess.columns)
        raise ConfigError(f"{first}: which column is the text? name it with --text COLUMN; there are {names}")
    return [guess.text[0].name, *named[1:]]
