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
from mixling.notebook import Html, html_page
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
th button { all: unset; cursor: pointer } th button:focus-visible { outline: 2px solid }
th[aria-sort=ascending] button::after { content: " ↑" } th[aria-sort=descending] button::after { content: " ↓" }
form { display: flex; flex-wrap: wrap; gap: .7rem; position: sticky; top: 0; padding: .7rem 0; background: Canvas }
input, select, form button { font: inherit; padding: .2rem .5rem }
section { overflow-x: auto }
.note { opacity: .8 }
"""
# Filters and sorts the tables, and saves what a person decides on the improbable labels.
_TOOLS = """<form><input type="search" placeholder="Filter rows" aria-label="Filter rows">
<button type="button" disabled>Save decisions</button></form>"""
_SCRIPT = r"""
const [filter, save] = [document.querySelector("input"), document.querySelector("form button")];
const choices = [...document.querySelectorAll("select")], key = location.pathname + document.title;
const remember = work => { try { return work() } catch { return null } };  // a browser may allow no storage
const kept = remember(() => JSON.parse(localStorage.getItem(key))) ?? {};
const value = (row, at) => row.cells[at].querySelector("select")?.value ?? row.cells[at].textContent;
const number = text => /^[\d,]*\.?\d+$/.test(text) ? Number(text.replaceAll(",", "")) : NaN;
document.querySelector("form").addEventListener("submit", event => event.preventDefault());
filter.addEventListener("input", () => {
  for (const row of document.querySelectorAll("tbody tr"))
    row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase());
});
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentNode, up = head.ariaSort === "ascending" ? -1 : 1, at = head.cellIndex;
  for (const one of head.parentNode.cells) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
  const body = head.closest("table").tBodies[0];
  body.append(...[...body.rows].sort((a, b) => {
    const [x, y] = [value(a, at), value(b, at)];
    return up * (number(x) - number(y) || x.localeCompare(y));
  }));
});
const count = () => {
  const decided = choices.filter(one => one.value).length;
  save.textContent = `Save decisions (${decided})`, save.disabled = !decided;
};
for (const one of choices) {
  const name = `${one.dataset.where} ${one.dataset.suggested}`;
  one.value = kept[name] ?? "";
  one.addEventListener("change", () => {
    kept[name] = one.value, count();
    remember(() => localStorage.setItem(key, JSON.stringify(kept)));
  });
}
save.addEventListener("click", () => {
  const rows = choices.filter(one => one.value).map(({ value, dataset }) => {
    const [, path, line] = dataset.where.match(/^(.*):(\d+)$/s), label = dataset.label;
    return [path, line, label, value, { keep: label, change: dataset.suggested, drop: "" }[value]];
  });
  const csv = [["path", "line", "label", "decision", "new_label"], ...rows]
    .map(row => row.map(cell => `"${cell.replaceAll('"', '""')}"`).join(",") + "\n").join("");
  const link = Object.assign(document.createElement("a"), { download: "decisions.csv" });
  link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" })), link.click();
});
count();
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
         f"{item.probability:.3f}", with_escapes(item.suggested), f"{item.suggested_probability:.3f}",
         _decision(_where(examples, item.example), audit.label_of(item.example), item.suggested))
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
        _table("Improbable labels", "The label is improbable for a model that did not see the row, and another label "
               "is as probable as in its own rows (confident learning). The most improbable rows come first.",
               ("where", "text", "label", "its probability", "suggested", "its probability", "decision"),
               errors, len(findings)),
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
    script = f"<script>{_SCRIPT}</script>"
    return html_page(title, "\n".join([f"<ul>{listed}</ul>", note, _TOOLS, *parts, script]), _STYLE)


def _table(title: str, note: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    shown = list(rows)
    heading = f"<h2>{html.escape(title)}: {total:,}</h2>"
    if not shown:
        return heading
    more = f" The first {len(shown):,} of {total:,}." if len(shown) < total else ""
    text = f'<p class="note">{html.escape(note + more)}</p>' if note + more else ""
    head = "".join(f'<th><button type="button">{html.escape(name)}</button></th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{heading}{text}<section>{table}</section>"


def _decision(where: str, label: str, suggested: str) -> Html:
    """Return the choices of a person on a row."""
    data = {"where": where, "label": label, "suggested": suggested}
    # References, so that nobody who reads the page's source is misled by invisible characters.
    written = ((name, html.escape(value).encode("ascii", "xmlcharrefreplace").decode()) for name, value in data.items())
    attributes = " ".join(f'data-{name}="{value}"' for name, value in written)
    choices = {"": "", "keep": "keep the label", "change": "take the suggestion", "drop": "drop the row"}
    options = "".join(f'<option value="{value}">{name}</option>' for value, name in choices.items())
    return Html(f'<select aria-label="decision on {html.escape(where)}" {attributes}>{options}</select>')


def _cell(value: Any) -> str:
    if isinstance(value, Html):
        return f"<td>{value}</td>"
    return f'<td class="n">{value:,}</td>' if isinstance(value, int) else f"<td>{html.escape(str(value))}</td>"


def _where(examples: Dataset, index: int) -> str:
    path, line = examples.where(index)
    return f"{path}:{line}"


def _short(text: Text) -> str:
    joined = text if isinstance(text, str) else (" | " if isinstance(text, tuple) else " ").join(text)
    return joined if len(joined) <= _CHARACTERS else f"{joined[:_CHARACTERS]}..."
