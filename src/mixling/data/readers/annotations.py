"""Read the rows that annotation tools export as JSON: Label Studio, Prodigy, Argilla, LightTag, UBIAI, Dataturks.

They become rows with a text and either `spans` or `label`. doccano, Rasa and spaCy write such rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mixling.data.readers.rows import OnBadRow, Row, RowBlock

_ANSWERS = ("accept", "reject", "ignore")  # of Prodigy
_KEYS = frozenset(("annotations", "completions", "annotation", "_input_hash", "annotator"))
_RESPONSES = ".responses"  # of Argilla


def plain_rows(items: Iterable[Row | RowBlock]) -> Iterator[Row | RowBlock]:
    """Yield rows in the form of other files; rows of annotation tools are not in blocks."""
    for item in items:
        if isinstance(item, RowBlock) and not any(map(_may_be_export, item.values)):
            yield item
            continue
        for row in [item] if isinstance(item, Row) else item:
            yield from _plain(row) if _may_be_export(row.values) else (row,)


def annotated(rows: Iterator[Any], on_bad_row: OnBadRow) -> Iterator[Any]:
    """Yield the rows whose labels can be learned, and everything that is no row; note how many are left out."""
    left_out = 0
    rejected = 0
    path = ""
    for row in rows:
        if isinstance(row, Row) and row.is_unlabeled:
            left_out = left_out + 1
            path = row.path
            rejected += row.values.get("answer") == "reject" and isinstance(row.values.get("label"), str)
            continue
        yield row
    on_bad_row.unlabeled += left_out
    if left_out:
        rows_are = "1 row is" if left_out == 1 else f"{left_out:,} rows are"
        why = "without annotation, rejected or skipped, or annotated in several ways"
        if rejected:
            why += f"; {rejected:,} of them only say which label is wrong: learning needs the right one"
        on_bad_row.note(f"{path}: {rows_are} left out: {why}")


def _may_be_export(values: dict[str, Any]) -> bool:
    if not _KEYS.isdisjoint(values) or values.get("answer") in _ANSWERS or {"document", "tokens"} <= values.keys():
        return True
    return {"fields", "responses"} <= values.keys() or any(name.endswith(_RESPONSES) for name in values)


def _plain(row: Row) -> Iterator[Row]:
    values = row.values
    parts = values.get("annotations")
    if isinstance(values.get("data"), dict) and isinstance(values.get("annotations", values.get("completions")), list):
        yield _label_studio(row)
    elif "_input_hash" in values or (values.get("answer") in _ANSWERS and values.keys() & {"spans", "accept", "label"}):
        yield _prodigy(row)
    elif isinstance(parts, list) and "classes" in values:  # an object around pairs as spaCy's
        for number, part in enumerate(parts, 1):
            if isinstance(part, list) and len(part) == 2 and isinstance(part[1], dict):
                yield row._replace(values={"text": part[0], **part[1]}, line=number)
    elif isinstance(values.get("fields"), dict) and isinstance(values.get("responses"), dict):  # Argilla 2
        found = {
            name: [one.get("value") for one in many if isinstance(one, dict)]
            for name, many in values["responses"].items()
            if isinstance(many, list)
        }
        found = {f"{name}{_RESPONSES}": many for name, many in found.items() if many}
        yield row._replace(values=_renamed({**values["fields"], **found}), is_unlabeled=not found)
    else:
        yield row._replace(values=_renamed(values))


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose text and annotations have the usual names."""
    out = dict(values)
    for name, value in values.items():
        if name.endswith(_RESPONSES) and isinstance(value, list) and value and all(one == value[0] for one in value):
            are_spans = isinstance(value[0], list) and any(isinstance(one, dict) for one in value[0])
            out.setdefault("spans" if are_spans else name.removesuffix(_RESPONSES), value[0])
    tokens = values.get("tokens")
    found = values.get("annotation", values.get("annotations"))
    if isinstance(values.get("document"), str) and isinstance(tokens, list) and "text" not in values:  # UBIAI
        spans = [{**item, "label": item.get("entityLabel")} for item in tokens if isinstance(item, dict)]
        return {**out, "text": values["document"], "tokens": None, "spans": spans}
    if isinstance(values.get("content"), str) and "text" not in values:  # LightTag, Dataturks
        out["text"] = values["content"]
        out["spans"] = _with_ends(found) if isinstance(found, list) else []
        if isinstance(found, dict):
            out["label"] = found.get("labels")
    elif isinstance(found, str) or (isinstance(found, list) and found and all(isinstance(one, str) for one in found)):
        out.setdefault("label", found)  # Argilla
    elif (
        isinstance(found, list)
        and found
        and all(isinstance(one, dict) and {"label", "user"} == one.keys() for one in found)
    ):
        out.setdefault("label", [one["label"] for one in found])  # doccano's first versions
    return out


def _with_ends(found: list[Any]) -> list[Any]:
    """Return the spans of Dataturks, whose ends are inclusive; spans of LightTag stay as they are."""
    spans: list[Any] = []
    for item in found:
        points = item.get("points") if isinstance(item, dict) else None
        if not isinstance(points, list):
            spans.append(item)
            continue
        for point in points:
            end = point.get("end")
            spans.append({**point, "end": end + 1 if isinstance(end, int) else end, "label": item.get("label")})
    return spans


def _prodigy(row: Row) -> Row:
    values = dict(row.values)
    is_tokens = isinstance(values.get("tokens"), list) and all(isinstance(token, dict) for token in values["tokens"])
    if is_tokens:
        del values["tokens"]
    if isinstance(values.get("accept"), list):
        values["label"] = values["accept"]
    elif is_tokens and "label" not in values:
        values.setdefault("spans", [])
    return row._replace(values=values, is_unlabeled=values.get("answer", "accept") != "accept")


def _label_studio(row: Row) -> Row:
    data = row.values["data"]
    tasks: list[Any] = row.values.get("annotations", row.values.get("completions")) or []
    found = [task for task in tasks if isinstance(task, dict) and not task.get("was_cancelled")]
    results = [_result(task.get("result")) for task in [task for task in found if task.get("ground_truth")] or found]
    texts = [value for value in data.values() if isinstance(value, str)]
    values = {**({"text": texts[0]} if len(texts) == 1 else {}), **data}
    is_sure = bool(results) and all(result == results[0] for result in results)
    return row._replace(values={**values, **(results[0] if is_sure else {})}, is_unlabeled=not is_sure)


def _result(result: Any) -> dict[str, Any]:
    """Return the spans and labels of one annotator."""
    spans: list[dict[str, Any]] = []
    labels: list[Any] = []
    numbers: list[Any] = []
    for item in result if isinstance(result, list) else ():
        value = item.get("value") if isinstance(item, dict) else None
        if not isinstance(value, dict):
            continue
        if "start" in value:
            ends = value.get("globalOffsets") or value
            kind = item.get("type")
            span = {"start": ends.get("start"), "end": ends.get("end"), "label": value.get(kind, value.get("labels"))}
            spans.append(span if isinstance(value.get("globalOffsets"), dict) else {**span, "text": value.get("text")})
        labels += value.get("choices") or []
        labels += ["/".join(map(str, path)) for path in value.get("taxonomy") or []]
        numbers += [value[name] for name in ("rating", "number") if name in value]
    if labels or numbers:
        return {"label": labels or numbers[0], **({"spans": spans} if spans else {})}
    return {"spans": sorted(spans, key=lambda span: str(span["start"]))}
