"""Write rows with their predictions: all columns of the input, and predictions under names of their own.

JSON lines get one object, `prediction`, with what `mixling predict` writes for a text. Tables get a column for each of
its fields, such as `prediction_label`. A bad row has an error instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO

from mixling.bulk.read import PREFIX, Window
from mixling.data.csv_lines import cell_of, csv_line, json_of
from mixling.errors import ConfigError, DataError, near_miss
from mixling.features.cells import with_missing
from mixling.tasks.presentation import DEFAULT_SHOWN, Shown

if TYPE_CHECKING:
    from mixling.answers.predictions import Prediction
    from mixling.runtime.predictor import Predictor

TABLE_FORMATS = ("parquet", "jsonl", "csv")
# of Parquet, in memory until they are written
_GROUP_ROWS = 65_536
_GROUP_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of the output.

    Attributes:
        file_format: one of `TABLE_FORMATS`.
        schema: of the input: an Arrow schema, the names of a CSV's columns, or None for JSON lines.
        fields: predicted values, such as "label"; of CSV, the task's `csv_columns`.
        labels: the names of the labels that have probabilities.
        escape: CSV: put an apostrophe before cells that look like formulas.
        shown: the probabilities of labels that are written.
        kept: the names of the columns of JSON lines; None: all.
    """

    file_format: str
    schema: Any
    fields: tuple[str, ...]
    labels: tuple[str, ...]
    escape: bool = False
    shown: Shown = DEFAULT_SHOWN
    kept: tuple[str, ...] | None = None

    @property
    def added(self) -> list[str]:
        """The names of the columns of tables that are added."""
        return [f"{PREFIX}_{name}" for name in (*self.fields, "error")]


def make_layout(
    predictor: Predictor,
    schema: Any,
    input_format: str,
    name: str | None,
    *,
    escape: bool,
    shown: Shown = DEFAULT_SHOWN,
    kept: Sequence[str] | None = None,
) -> Layout:
    """Return the columns that a model's predictions have in a format.

    Args:
        schema, input_format: of a `PartPlan`.
        name: the format; None: the input's.
        kept: the columns of the input that are written; None: all.

    Raises:
        ConfigError: the format is unknown, or cannot hold the input or the predictions.
        DataError: the input has a column of the name of one that would be added, or lacks one that is kept.
    """
    task = predictor.task
    labels = tuple(predictor.labels.names)
    task.check_shown(shown)
    if name is None:
        name = "csv" if input_format == "tsv" else input_format
    if name not in TABLE_FORMATS:
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, TABLE_FORMATS)}")
    if input_format == "jsonl" and name != "jsonl":
        raise ConfigError(
            f"--format: got {name!r}; each row of JSON lines may have other columns, so only jsonl is allowed; convert "
            "what is written with a program that knows their types"
        )
    if name == "csv":
        if not task.csv_columns:
            raise ConfigError(f"the model predicts {task.gives}, which CSV cannot hold; use --format jsonl or parquet")
        fields, _ = task.table(labels, shown)
    else:
        # Which fields there are depends on the model alone.
        number = len(predictor.text_names or ("",))
        sample = predictor.predict_one(
            with_missing(("a",) * number if number > 1 else "a", predictor.feature_names)
        ).to_dict()
        sample |= {"probability": 0} if "label" in sample else {}
        order = ("label", "probability")
        fields = (*(key for key in order if key in sample), *(key for key in sample if key not in order))
        fields = (*fields, *["empty"] * ("empty" not in fields))
        if shown.probabilities is not None:
            rest = (field for field in fields if field not in ("probability", "probabilities"))
            fields = (*labels, *(field for field in rest if field != "label")) if shown.probabilities else tuple(rest)
    if kept is not None and schema is not None:
        schema = _only(schema, kept)
    layout = Layout(file_format=name, schema=schema, fields=fields, labels=labels, escape=escape, shown=shown,
                    kept=None if kept is None else tuple(kept))  # fmt: skip
    if len(set(layout.added)) < len(layout.added):
        twice = max(layout.added, key=layout.added.count)
        raise ConfigError(f"--probabilities: two columns would be {twice!r}; leave it out")
    taken = {PREFIX} if name == "jsonl" else set(layout.added)
    names = () if schema is None else schema if isinstance(schema, tuple) else schema.names
    if both := sorted(taken.intersection(names)):
        raise DataError(f"the input has a column {both[0]!r} already; rename it")
    if name != "parquet" and not isinstance(schema, tuple | None):
        _check_values(schema)
    return layout


def _only(schema: Any, kept: Sequence[str]) -> Any:
    """Return the columns of a schema, or names, that are kept, in their order."""
    names = schema if isinstance(schema, tuple) else schema.names
    for name in kept:
        if name not in names:
            raise DataError(
                f"the input has no column {name!r}; {near_miss(name, names)}; choose columns with --columns"
            )
    if isinstance(schema, tuple):
        return tuple(kept)
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in kept])


class PartWriter(ABC):
    """Writes the windows of a part to a file."""

    @abstractmethod
    def write(self, window: Window, predictor: Predictor, texts: list[Any], batch_size: int) -> None:
        """Predict for the texts, and write all rows of the window."""

    def finish(self) -> None:  # noqa: B027 (most have nothing to do)
        """Write the rest."""

    def close(self) -> None:  # noqa: B027
        """Free what the writer holds, finished or not."""


def part_writer(layout: Layout, file: BinaryIO) -> PartWriter:
    """Return a writer of a part."""
    kinds: dict[str, Callable[[Layout, BinaryIO], PartWriter]] = {"jsonl": _Jsonl, "csv": _Csv, "parquet": _Parquet}
    return kinds[layout.file_format](layout, file)


def _rows(window: Window) -> Sequence[Mapping[str, Any]]:
    return window.rows if window.batch is None else window.batch.to_pylist()


class _Jsonl(PartWriter):
    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        self._file = file
        self._kept = layout.kept
        self._shown = layout.shown

    def write(self, window: Window, predictor: Predictor, texts: list[Any], batch_size: int) -> None:
        if predictor.task.json_of_texts and self._shown == DEFAULT_SHOWN:
            found = (line.rstrip("\n") for line in predictor.json_lines(texts))
        else:
            predictions = predictor.predict_stream(texts, batch_size=batch_size, top_k=self._shown.needed)
            found = (json_of(self._shown.of(item.to_json())) for item in predictions)
        values = [
            f'"{PREFIX}_error": {json_of(item.error)}' if item.text is None else f'"{PREFIX}": {next(found)}'
            for item in window.items
        ]
        lines: Sequence[str] = window.lines
        if self._kept is not None:
            lines = [json_of({name: row[name] for name in self._kept if name in row}) for row in _rows(window)]
        elif not any(lines):
            lines = [json_of(row) for row in _rows(window)]
        self._file.write("".join(map(_joined, lines, values)).encode("utf-8", "surrogatepass"))


def _joined(line: str, value: str) -> str:
    """Add a key with its value to a JSON object, whose bytes stay as they are; "" is an object without keys."""
    start = line.strip().removesuffix("}").rstrip()
    return f"{{{value}}}\n" if start in ("", "{") else f"{start}, {value}}}\n"


class _Csv(PartWriter):
    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        self._file = file
        self._layout = layout
        schema = layout.schema
        self._names = schema if isinstance(schema, tuple) else tuple(schema.names)
        self._put([[*self._names, *layout.added]])

    def write(self, window: Window, predictor: Predictor, texts: list[Any], batch_size: int) -> None:
        shown = self._layout.shown
        found = predictor.predict_stream(texts, batch_size=batch_size, top_k=shown.needed)
        columns, values = predictor.task.table(self._layout.labels, shown)
        rows = []
        for item, row in zip(window.items, _rows(window), strict=True):
            predicted = [*repeat("", len(columns)), item.error] if item.text is None else [*values(next(found)), ""]
            rows.append([*(cell_of(row.get(name)) for name in self._names), *predicted])
        self._put(rows)

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        lines = (csv_line(row, escape=self._layout.escape) for row in rows)
        self._file.write("".join(lines).encode("utf-8", "surrogatepass"))


class _Parquet(PartWriter):
    def __init__(self, layout: Layout, file: BinaryIO) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = layout.schema
        own = [pa.field(name, pa.string()) for name in schema] if isinstance(schema, tuple) else list(schema)
        types = _arrow_types(layout.labels)
        if layout.shown.probabilities:
            types |= dict.fromkeys(layout.labels, pa.float64())
        added = [pa.field(f"{PREFIX}_{name}", types[name]) for name in (*layout.fields, "error")]
        self._layout = layout
        self._types = types
        self._count = len(own)
        self._schema = pa.schema([field.with_nullable(True) for field in (*own, *added)])
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, window: Window, predictor: Predictor, texts: list[Any], batch_size: int) -> None:
        import pyarrow as pa

        found = predictor.predict_stream(texts, batch_size=batch_size, top_k=self._layout.shown.needed)
        predictions = [None if item.text is None else next(found) for item in window.items]
        if window.batch is None:
            names = self._schema.names[: self._count]
            own = [pa.array([row.get(name) for row in window.rows], pa.string()) for name in names]
        else:
            own = [window.batch.column(name) for name in self._schema.names[: self._count]]
        added = self._columns(predictions)
        added.append(pa.array([item.error for item in window.items], pa.string()))
        batch = pa.RecordBatch.from_arrays([*own, *added], schema=self._schema)
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.get_total_buffer_size() if window.batch is None else batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _columns(self, predictions: Sequence[Prediction | None]) -> list[Any]:
        import pyarrow as pa

        names = self._layout.fields
        if _OF_A_LABEL.issuperset(names):  # without a dictionary for each row
            columns = [[None if item is None else _of_a_label(item, name) for item in predictions] for name in names]
        else:
            rows = [{} if item is None else {"empty": False, **item.to_dict()} for item in predictions]
            if self._layout.shown.probabilities:
                rows = [{**row, **row.get("probabilities", {})} for row in rows]
            columns = [[row.get(name) for row in rows] for name in names]
        return [pa.array(column, self._types[name]) for name, column in zip(names, columns, strict=True)]

    def _flush(self) -> None:
        import pyarrow as pa

        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=_GROUP_ROWS)
        self._batches = []
        self._rows = 0
        self._bytes = 0

    def finish(self) -> None:
        self._flush()
        self._writer.close()

    def close(self) -> None:
        self._writer.close()


_OF_A_LABEL = frozenset(
    {"label", "probability", "abstained", "label_set", "path", "probabilities", "truncated", "empty"}
)


def _of_a_label(prediction: Prediction, name: str) -> Any:
    if name == "probability":
        return prediction.probability
    return getattr(prediction, name)


def _arrow_types(labels: Sequence[str]) -> dict[str, Any]:
    import pyarrow as pa

    text = pa.string()
    number = pa.float64()
    index = pa.int64()
    span = pa.struct([("label", text), ("start", index), ("end", index), ("score", number)])
    return {
        **dict.fromkeys(("label", "answer", "error"), text),
        **dict.fromkeys(("abstained", "no_answer", "truncated", "empty"), pa.bool_()),
        **dict.fromkeys(("probability", "score", "value"), number),
        **dict.fromkeys(("start", "end"), index),
        **dict.fromkeys(("label_set", "labels", "tokens", "tags"), pa.list_(text)),
        "path": pa.map_(text, number),
        "spans": pa.list_(span),
        "probabilities": pa.struct([(name, number) for name in labels]),
    }


def _check_values(schema: Any) -> None:
    """Refuse columns that text cannot hold.

    Raises:
        ConfigError: a column has bytes.
    """
    import pyarrow as pa

    for field in schema:
        kind = field.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            raise ConfigError(f"--format: the column {field.name!r} has bytes; use --format parquet")
