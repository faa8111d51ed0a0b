"""`mixling encode`: vectors of texts, as an array, a table, or an index to search."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from mixling.cli.command import OUTPUT
from mixling.cli.input_files import InputFiles
from mixling.cli.options import ModelArgument
from mixling.cli.output import no_collections
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.runtime.predictor import Predictor
    from mixling.text.encoder import Text


@dataclass(frozen=True, kw_only=True)
class EncodeOutput:
    """Which vectors are written, and where."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[
        Path,
        Option("-o", "--out", metavar="OUT", help="FILE.npy, FILE.parquet, or a FOLDER for `mixling similar`."),
    ]
    layer: Annotated[
        str, Option("--layer", metavar="words|text", help="Texts are near that have the same words, or answers.")
    ] = "words"
    int8: Annotated[bool, Option("--int8", help="8-bit integers, of length 127, in place of float32.")] = False
    graph: Annotated[
        bool, Option("--graph", help="FOLDER: add a graph, which millions of texts are searched by (extra [index]).")
    ] = False


def encode_command(model: ModelArgument, texts: InputFiles, output: EncodeOutput) -> None:
    """Write a vector for each text.

    The layer "words" is the mean of the words' vectors before the network, "text" what the network makes its answer of.
    These vectors know what the model learned, not the language: they find texts with the same words, or of the same
    topic as the model sees it, not paraphrases.
    """
    suffix = output.out.suffix.lower()
    if suffix not in ("", ".npy", ".parquet"):
        raise ConfigError(f"{output.out}: ends in none of .npy and .parquet, and a folder's name has no suffix")
    if not suffix and output.out.is_file():
        raise ConfigError(f"{output.out}: is a file; a folder is needed")
    if suffix and output.graph:
        raise ConfigError(f"--graph: {output.out} is no index; name a folder")
    with no_collections():
        from mixling.runtime.index import write_index

        predictor, found = texts.read("encode", model, output.out)
    dtype = "int8" if output.int8 else "float32"
    if not suffix:
        count = write_index(output.out, predictor, found, layer=output.layer, graph=output.graph)
    elif suffix == ".npy":
        count = _write_array(output.out, predictor, found, output.layer, dtype)
    else:
        count = _write_table(output.out, predictor, found, output.layer, dtype)
    print(f"{output.out}: {count:,} vectors of layer {output.layer}", file=sys.stderr)


def _write_array(out: Path, predictor: Predictor, texts: Iterator[Text], layer: str, dtype: str) -> int:
    from mixling.runtime.index import npy_header
    from mixling.storage import atomic_file

    size = predictor.encode([], layer=layer).shape[1]
    count = 0
    with atomic_file(out) as file:
        file.write(npy_header((0, size)))
        for part in iter(lambda: list(itertools.islice(texts, 4096)), []):
            file.write(predictor.encode(part, layer=layer, dtype=dtype).tobytes())  # type: ignore[call-overload]
            count += len(part)
        file.seek(0)
        file.write(npy_header((count, size), "|i1" if dtype == "int8" else "<f4"))
    return count


def _write_table(out: Path, predictor: Predictor, texts: Iterator[Text], layer: str, dtype: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mixling.storage import atomic_file

    size = predictor.encode([], layer=layer).shape[1]
    kind = pa.list_(pa.int8() if dtype == "int8" else pa.float32(), size)
    names = predictor.text_names or ("text",)
    schema = pa.schema([*((name, pa.string()) for name in names), ("vector", kind)])
    count = 0
    with atomic_file(out) as file, pq.ParquetWriter(file, schema) as writer:
        for part in iter(lambda: list(itertools.islice(texts, 4096)), []):
            vectors = predictor.encode(part, layer=layer, dtype=dtype)  # type: ignore[call-overload]
            columns = zip(*part, strict=True) if len(names) > 1 else [part]
            values = [[item if isinstance(item, str) else " ".join(item) for item in column] for column in columns]
            flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=kind)
            writer.write_table(pa.table([*map(pa.array, values), flat], schema=schema))
            count += len(part)
    return count
