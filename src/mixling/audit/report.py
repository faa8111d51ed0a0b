"""An audit as files: a row for each example as CSV, the numbers as JSON, and one HTML page for people."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mixling.audit.audits import SHARES, Audit, LabelsAudit
from mixling.data.dataset import Dataset
from mixling.data.similar_labels import with_escapes
from mixling.notebook import html_page
from mixling.storage import write_atomic, write_json
from mixling.text.encoder import Text

ROWS_FILE = "rows.csv"
NUMBERS_FILE = "audit.json"
PAGE_FILE = "report.html"
_COLUMNS = (
    "path", "line", "text", "label", "label_probability", "suggested", "suggested_probability", "improbable",
    "conflict", "also_in_test",
)  # fmt: skip
_LISTED = 200  # rows of a table of the page
_CHARACTERS = 300  # of a text in it
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
th, td { text-align: left; vertical-align: top; padding: .2rem .7rem; border-bottom: 1px solid #8886 }
td { overflow-wrap: break-word; max-width: 40rem }
th { white-space: nowrap } td.n { text-align: right; white-space: nowrap }
.note { opacity: .8 }
"""


def write_report(audit: Audit, folder: Path, *, title: str) -> None:
    """Write the files of an audit into a folder.

    Raises:
        StorageError: a file could not be written.
    """
    write_atomic(folder / ROWS_FILE, rows_csv(audit).encode("utf-8", "replace"))
    write_json(folder / NUMBERS_FILE, audit.to_dict())
    write_atomic(folder / PAGE_FILE, audit_page(audit, title=title).encode("utf-8", "replace"))


def rows_csv(audit: Audit) -> str:
    """Return a table with a row for each example, in their order; conflicting examples have the same number."""
    conflict = {index: number for number, group in enumerate(audit.conflicts, 1) for index in group}
    in_test: dict[int, str] = {}
    if audit.test is not None:
        for test_index, index in audit.leaks:
            in_test.setdefault(index, _where(audit.test, test_index))
    suggested = audit.suggested
    quality = audit.quality.tolist()
    errors = audit.errors.tolist()
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_COLUMNS)
    for index, example in enumerate(audit.examples):
        text = example.text if isinstance(example.text, str) else json.dumps(example.text, ensure_ascii=False)
        table.writerow([
            example.path, example.line, text, audit.label_of(index), f"{quality[index]:.6f}", suggested[index][0],
            f"{suggested[index][1]:.6f}", int(errors[index]), conflict.get(index, ""), in_test.get(index, ""),
        ])  # fmt: skip
    return out.getvalue()


def summarize(audit: Audit) -> list[str]:
    """Return what was found, as lines for a terminal."""
    count = len(audit.examples)
    improbable = int(audit.errors.sum())
    score = f"{audit.metric.replace('_f1', ' F1')} on unseen parts"
    own = audit.metrics.numbers()[audit.metric]
    lines = [
        *audit.remarks,
        f"{count:,} examples, {len(audit.names)} labels",
        f"{audit.what}: {improbable:,} ({improbable / count:.1%}); {score} {own:.4f}",
        *_first_lines(audit),
        f"texts with different labels: {len(audit.conflicts):,} ({sum(map(len, audit.conflicts)):,} examples)",
    ]
    if audit.test is not None:
        more = "" if audit.leaks_complete else " at least"
        lines.append(f"texts of the other split that are equal or nearly equal:{more} {len(audit.leaks):,}")
    if audit.rare:
        name, number = audit.rare[0]
        lines.append(f"labels with few examples: {len(audit.rare)}, such as {with_escapes(name)} ({number})")
    if audit.mixed_up:
        *names, number = audit.mixed_up[0]
        given, found = map(with_escapes, names)
        several = isinstance(audit, LabelsAudit)
        lines.append(
            f"most often wrong: {given} is {found}, {number:,} examples"
            if several
            else f"most confused: {given} predicted as {found}, {number:,} examples"
        )
    beside = ", with columns" if audit.examples.has_cells else ""
    lines.append(f"{score}: mixling {own:.4f}, {audit.baseline_name}{beside} {audit.baseline:.4f}")
    return lines


def _first_lines(audit: Audit) -> list[str]:
    """Return a line on the findings to look at first, and how many of them are wrong."""
    if not (first := audit.num_first()):
        return []
    what = (
        "likely label errors" if audit.num_likely() else "none is probable enough to be called an error; look first at"
    )
    few, *more = (f"{audit.precision(first, wrong):.0%}|{wrong:.0%}".split("|") for wrong in SHARES)
    rest = ", ".join(f"{found} if {wrong} are" for found, wrong in more)
    return [f"{what}: the first {first:,}; {few[0]} of them are wrong if {few[1]} of all labels are, {rest}"]


def audit_page(audit: Audit, *, title: str) -> str:
    """Return a complete page that loads nothing."""
    examples = audit.examples
    findings = audit.findings()
    errors = [
        (_where(examples, item.example), _short(examples.texts[item.example]),
         with_escapes(audit.label_of(item.example)),
         f"{item.probability:.3f}", with_escapes(item.suggested), f"{item.suggested_probability:.3f}")
        for item in findings[:_LISTED]
    ]  # fmt: skip
    conflicts = [
        (number, _where(examples, i), _short(examples.texts[i]), with_escapes(audit.label_of(i)))
        for number, group in enumerate(audit.conflicts[:_LISTED], 1)
        for i in group
    ]
    labels = [
        (with_escapes(score.label), score.support, f"{score.precision:.3f}", f"{score.recall:.3f}", f"{score.f1:.3f}")
        for score in sorted(audit.metrics.per_class, key=lambda score: score.f1)
    ]
    parts = [
        _table("Improbable labels", "What is given is improbable for a model that did not see the example, and "
               "something else is as probable as for its own examples (confident learning). The most improbable "
               "first.", ("where", "text", "label", "probability", "suggested", "probability"), errors, len(findings)),
        _table("Equal texts with different labels", "Case and spaces make no difference.",
               ("text no.", "where", "text", "label"), conflicts, sum(map(len, audit.conflicts))),
    ]  # fmt: skip
    if audit.test is not None:
        leaks = [
            (_where(audit.test, a), _short(audit.test.texts[a]), _where(examples, b), _short(examples.texts[b]))
            for a, b in audit.leaks[:_LISTED]
        ]
        note = "They make a model look better than it is."
        note += "" if audit.leaks_complete else " Not all texts were compared: there may be more."
        columns = ("where in the other split", "text", "where", "text")
        parts.append(_table("In the other split as well", note, columns, leaks, len(audit.leaks)))
    several = isinstance(audit, LabelsAudit)
    scores = ("label", "examples", "precision", "recall", "F1")
    confused = ("label", "is" if several else "predicted", "examples")
    title_confused = "Missing and superfluous labels" if several else "Confused labels"
    rare = [(with_escapes(name), count) for name, count in audit.rare]
    mixed_up = [(with_escapes(given), with_escapes(predicted), count) for given, predicted, count in audit.mixed_up]
    parts += [
        _table("Labels with few examples", "", ("label", "examples"), rare, len(rare)),
        _table(title_confused, "", confused, mixed_up, len(mixed_up)),
        _table("Labels, the hardest first", "", scores, labels, len(labels)),
    ]  # fmt: skip
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in summarize(audit))
    note = f'<p class="note">All examples are in {ROWS_FILE}.</p>'
    return html_page(title, "\n".join([f"<ul>{listed}</ul>", note, *parts]), _STYLE)


def _table(title: str, note: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    shown = list(rows)
    heading = f"<h2>{html.escape(title)}: {total:,}</h2>"
    if not shown:
        return heading
    more = f" The first {len(shown):,} of {total:,}." if len(shown) < total else ""
    text = f'<p class="note">{html.escape(note + more)}</p>' if note + more else ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    return f"{heading}{text}<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    return f'<td class="n">{value:,}</td>' if isinstance(value, int) else f"<td>{html.escape(str(value))}</td>"


def _where(examples: Dataset, index: int) -> str:
    path, line = examples.where(index)
    return f"{path}:{line}"


def _short(text: Text) -> str:
    joined = text if isinstance(text, str) else (" | " if isinstance(text, tuple) else " ").join(text)
    return joined if len(joined) <= _CHARACTERS else f"{joined[:_CHARACTERS]}..."
