"""Small files whose content is large: what becomes of a command that reads them within 2 GB of addresses.

    OMP_NUM_THREADS=1 python benchmarks/bombs.py --model MODEL.onnx

Each file is written by this script: lines and fields without an end, rows that take a thousand times their bytes,
JSON that is deep or wide, decompressed gigabytes, Parquet of equal, nested and huge values, and inputs that are no
data. Each command must end in one line on standard error and exit code 2, or do its work; a traceback, a signal, or no
end within the limit of time is a fault. The result is benchmarks/results/bombs.json, written after each; what was
interrupted goes on at the same commit. Exit code 1 after a fault.
"""

from __future__ import annotations

import argparse
import bz2
import collections
import gzip
import json
import lzma
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from folder_bombs import ROWS, folder_bombs

from mixling.provenance import provenance

ADDRESSES = 2 << 30
SECONDS = 60  # of CPU
LARGE = 2_300_000_000  # bytes of what has no end
_UNIT = 1 << 25  # bytes that are compressed once and then repeated


@dataclass(frozen=True)
class Bomb:
    """A file and the command that reads it; FILE in the command is its path, MODEL a model, and OUT a new name."""

    name: str
    file: str
    write: Callable[[Path], None]
    command: tuple[str, ...]


def packed(begin: str, repeated: str, end: str = "", size: int = LARGE, kind: str = "gz") -> Callable[[Path], None]:
    """Return what writes a compressed file that begins with a text and then repeats another one."""
    compress = {
        "gz": lambda data: gzip.compress(data, 6),
        "bz2": bz2.compress,
        "xz": lambda data: lzma.compress(data, preset=0),
    }

    def write(path: Path) -> None:
        unit = repeated.encode() * max(_UNIT // len(repeated.encode()), 1)
        if kind == "zip":
            write_zip(path, begin.encode(), unit, max(size // len(unit), 1))
            return
        part = compress[kind](unit)
        with path.open("wb") as file:
            file.write(compress[kind](begin.encode()))
            for _ in range(max(size // len(unit), 1)):
                file.write(part)
            file.write(compress[kind](end.encode()))

    return write


def write_zip(path: Path, begin: bytes, unit: bytes, count: int) -> None:
    """Write an archive of one file; its blocks are compressed once, and its checksum is wrong."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(begin) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(unit) + deflate.flush(zlib.Z_FULL_FLUSH)
    body += block * count + deflate.flush()
    name, size = b"rows.csv", min(len(begin) + len(unit) * count, 0xFFFFFFFE)
    numbers = [*(0).to_bytes(4, "little"), *len(body).to_bytes(4, "little"), *size.to_bytes(4, "little")]
    fields = bytes([20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0x50, *numbers, len(name), 0, 0, 0])
    local = b"PK\x03\x04" + fields + name
    central = b"PK\x01\x02" + bytes([20, 0]) + fields + bytes(14) + name
    at = len(local) + len(body)
    end = b"PK\x05\x06" + bytes(4) + bytes([1, 0, 1, 0]) + len(central).to_bytes(4, "little") + at.to_bytes(4, "little")
    path.write_bytes(local + body + central + end + bytes(2))


def sparse(begin: str, size: int = LARGE) -> Callable[[Path], None]:
    """Return what writes a text and then zeros, which take no room on the disk."""

    def write(path: Path) -> None:
        path.write_text(begin)
        with path.open("rb+") as file:
            file.truncate(size)

    return write


def once(content: str | Callable[[], str]) -> Callable[[Path], None]:
    """Return what writes a text."""
    return lambda path: path.write_text(content if isinstance(content, str) else content()) and None


def parquet(name: str) -> Callable[[Path], None]:
    """Return what writes a Parquet file; pyarrow runs here without a limit."""

    def write(path: Path) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        million, label = "a" * 1_000_000, "b"
        options: dict = {"compression": "zstd"}
        if name == "equal texts":
            table = pa.table({"text": [million] * 3000, "label": [label] * 3000})
        elif name == "equal texts without a dictionary":
            table, options["use_dictionary"] = pa.table({"text": [million] * 1500, "label": [label] * 1500}), False
        elif name == "a huge text":
            table = pa.table({"text": ["b", "a" * ((1 << 30) + 5)], "label": [label] * 2})
        elif name == "large_string":
            table = pa.table({"text": pa.array([million] * 1500, pa.large_string()), "label": [label] * 1500})
        elif name == "binary":
            table = pa.table({"text": pa.array([million.encode()] * 1500, pa.binary()), "label": [label] * 1500})
        elif name == "string_view":
            table = pa.table({"text": pa.array([million] * 1500, pa.string_view()), "label": [label] * 1500})
        elif name == "lists of equal texts":
            table = pa.table({"text": ["a"] * 1000, "label": [[million] * 3] * 1000})
        elif name == "a list of numbers":
            lists = pa.ListArray.from_arrays(
                pa.array([0, 200_000_000], pa.int32()), pa.array(np.zeros(200_000_000, np.int8))
            )
            table = pa.table({"text": ["a"], "label": lists})
        elif name == "many lists of numbers":
            lists = pa.ListArray.from_arrays(
                pa.array(np.arange(1001, dtype=np.int32) * 200_000), pa.array(np.zeros(200_000_000, np.int8))
            )
            table = pa.table({"text": ["a"] * 1000, "label": lists})
        elif name == "a list of booleans":
            lists = pa.ListArray.from_arrays(
                pa.array([0, 1_000_000_000], pa.int32()), pa.array(np.zeros(1_000_000_000, np.bool_))
            )
            table = pa.table({"text": ["a"], "label": lists})
        elif name == "a list of structs":
            inner = pa.StructArray.from_arrays([pa.array(np.zeros(60_000_000, np.int8))], ["x"])
            table = pa.table(
                {"text": ["a"], "label": pa.ListArray.from_arrays(pa.array([0, 60_000_000], pa.int32()), inner)}
            )
        elif name == "lists in lists":
            inner = pa.ListArray.from_arrays(pa.array(np.zeros(60_000_001, np.int32)), pa.array(np.zeros(0, np.int8)))
            table = pa.table(
                {"text": ["a"], "label": pa.ListArray.from_arrays(pa.array([0, 60_000_000], pa.int32()), inner)}
            )
        elif name == "a map":
            keys, items = pa.array(["k"] * 20_000_000), pa.array(np.zeros(20_000_000, np.int8))
            table = pa.table(
                {"text": ["a"], "label": pa.MapArray.from_arrays(pa.array([0, 20_000_000], pa.int32()), keys, items)}
            )
        elif name == "columns":
            table = pa.table({f"c{number}": [1] for number in range(60_000)})
        elif name == "a name":
            table = pa.table({"a" * (90 << 20): [1], "text": ["a"], "label": ["b"]})
        elif name == "metadata":
            table = pa.table({"text": ["a"], "label": ["b"]}).replace_schema_metadata({"huggingface": "[" * (90 << 20)})
        elif name == "a dictionary":
            table = pa.table({"text": [f"{number:07d}" * 200 for number in range(500_000)], "label": [label] * 500_000})
            options["dictionary_pagesize_limit"] = 1 << 30
        elif name == "rows of megabytes":
            texts = [f"{number:04d}" * 250_000 for number in range(1500)]
            table = pa.table({"text": texts, "label": [label] * 1500})
        elif name == "rows without values":
            table = pa.table({"text": pa.nulls(200_000_000, pa.string()), "label": pa.nulls(200_000_000, pa.string())})
        else:
            raise KeyError(name)
        pq.write_table(table, path, row_group_size=len(table), **options)

    return write


PARQUET = (
    "equal texts",
    "equal texts without a dictionary",
    "a huge text",
    "large_string",
    "binary",
    "string_view",
    "lists of equal texts",
    "a list of numbers",
    "many lists of numbers",
    "a list of booleans",
    "a list of structs",
    "lists in lists",
    "a map",
    "columns",
    "a name",
    "metadata",
    "a dictionary",
    "rows of megabytes",
    "rows without values",
)
TRAIN = ("train", "FILE", "--epochs", "1", "-o", "OUT")
PREDICT = ("predict", "MODEL", "FILE")
EVALUATE, AUDIT = ("evaluate", "MODEL", "FILE"), ("audit", "FILE", "-o", "OUT.csv")
CSV = {
    "a field without an end": ('text,label\n"', "a", ""),
    "a line without an end": ("text,label\n", "a", ""),
    "a header without an end": ("", "name,", ""),
    "fields without an end": ("text,label\n", ",", ""),
    "a field of line feeds": ('text,label\n"', "\n", ""),
    "a field of quotes": ('text,label\n"', '""', ""),
    "blank lines": ("text,label\n", "\n", ""),
    "remarks": ("# ", "# remark\n", ""),
    "rows of 100 kB": ("text,label\n", "a" * 100_000 + ",b\n", ""),
    "rows of emoji": ("text,label\n", "😀" * 25_000 + ",b\n", ""),
    "quoted lines": ("text,label\n", '"' + "a\n" * 4_000_000 + '",b\n', ""),
    "NULs": ("text,label\n", "\0", ""),
}
# take time in proportion to their size, but no memory
SLOW = (
    "blank lines",
    "rows of emoji",
    "rows of 100 kB",
    "rows of 1 MB",
    "a quote without an end",
    "metadata of sentences",
)
JSONL = {
    "a string without an end": ('{"text": "', "a", ""),
    "nested lists": ('{"text": ', "[", ""),
    "nested objects": ("", '{"a":', ""),
    "a number without an end": ('{"text": ', "9", ""),
    "keys without an end": ('{"text": "a"', ', "kkkk": 1', ""),
    "lists of lists in rows": ("", '{"text": "a", "label": [' + "[]," * 5_000_000 + "[]]}\n", ""),
    "objects in rows": ("", '{"text": "a", "label": [' + "{}," * 5_000_000 + "{}]}\n", ""),
    "escapes": ('{"text": "', "\\ud83d\\ude00", ""),
    "rows of 1 MB": ("", json.dumps({"text": "a" * 1_000_000, "label": "b"}) + "\n", ""),
    "short lines": ("", "{}\n", ""),
}
JSON = {
    "an array of objects without an end": ("[", "{},", "{}]"),
    "an array of numbers": ("[", "1,", "1]"),
    "an array of arrays": ("[", "[],", "[]]"),
    "nested arrays": ("", "[", ""),
    "one object of an array": ('[{"text": "a", "label": [', "[],", "[]]}]"),
    "a string in an array": ('[{"text": "', "a", '"}]'),
    "a string of emoji": ('[{"text": "', "😀", '"}]'),
    "an emoji in an array": ('[{"text": "😀', "a", '"}]'),
    "columns of pandas": ('{"text": {', '"k":"v",', '"l":"w"}}'),
    "a table": ('{"data": [', "{},", "{}]}"),
    "SQuAD": ('{"data": [{"title": "t", "paragraphs": [', "{},", "{}]}]}"),
    "SQuAD's nested lists": ('{"data": [', "[", ""),
    "blanks": ("[", " ", "]"),
}
LINES = {
    "a sentence without an end": ("rows.conll.gz", "", "a O\n"),
    "a sentence of long words": ("rows.conll.gz", "", "a" * 1_000_000 + " O\n"),
    "a line of columns": ("rows.conll.gz", "", "aa "),
    "sentences of columns": ("rows.conll.gz", "", "aa " * 5_000_000 + "O\n\n"),
    "sentences of long words": ("rows.conll.gz", "", ("a" * 10_000_000 + " O\n\n")),
    "metadata of sentences": ("rows.conllu.gz", "# text = a\n", "# a\n"),
    "fastText's line": ("rows.ft.gz", "__label__a ", "a "),
    "fastText's labels": ("rows.ft.gz", "", "__label__a "),
    "a document of one line": ("rows.txt.gz", "", "a"),
    "Label Studio": ("rows.json.gz", '[{"id": 1, "annotations": [', '{"result": []},'),
    "doccano": ("rows.jsonl.gz", '{"text": "a", "entities": [', "[0,1,2],"),
}


def size_of(name: str) -> int:
    """Return how many bytes are decompressed."""
    return LARGE // 50 if name in SLOW else LARGE


def bombs() -> Iterator[Bomb]:
    """Yield all of them."""
    for number, (name, (begin, unit, end)) in enumerate(CSV.items()):
        for kind in ("gz", ("bz2", "xz", "zip")[number % 3]):
            command = (TRAIN, AUDIT, EVALUATE)[number % 3] if kind == "gz" else PREDICT
            write = packed(begin, unit, end, size_of(name), kind)
            yield Bomb(f"CSV, {kind}: {name}", f"rows.csv.{kind}", write, command)
    yield Bomb("CSV: NULs, not compressed", "rows.csv", sparse("text,label\n"), TRAIN)
    yield Bomb("TSV: NULs, not compressed", "rows.tsv", sparse("text\tlabel\n"), PREDICT)
    quoted = packed('text\tlabel\n"', "a\tb\n", "", size_of("a quote without an end"))
    yield Bomb("TSV: a quote without an end", "rows.tsv.gz", quoted, TRAIN)
    for number, (name, (begin, unit, end)) in enumerate(JSONL.items()):
        kind = ("gz", "bz2", "xz", "zip")[number % 4]
        write = packed(begin, unit, end, size_of(name), kind)
        yield Bomb(f"JSONL, {kind}: {name}", f"rows.jsonl.{kind}", write, (TRAIN, PREDICT)[number % 2])
    for number, (name, (begin, unit, end)) in enumerate(JSON.items()):
        for size in (LARGE, 500 << 20):  # beyond the limit, and just below it
            write = packed(begin, unit, end, size)
            yield Bomb(f"JSON, {size >> 20} MiB: {name}", "rows.json.gz", write, (TRAIN, PREDICT)[number % 2])
    for number, (name, (file, begin, unit)) in enumerate(LINES.items()):
        yield Bomb(f"lines: {name}", file, packed(begin, unit, "", size_of(name)), (TRAIN, PREDICT)[number % 2])
    for number, name in enumerate(PARQUET):
        yield Bomb(f"Parquet: {name}", "rows.parquet", parquet(name), (TRAIN, PREDICT)[number % 2])
    yield Bomb("Parquet, bulk: equal texts", "rows.parquet", parquet("equal texts"), (*PREDICT, "-o", "OUT/"))
    yield Bomb("Parquet, bulk: rows", "rows.parquet", parquet("rows of megabytes"), (*PREDICT, "-o", "OUT/"))
    yield Bomb("Parquet, bulk: lists", "rows.parquet", parquet("many lists of numbers"), (*PREDICT, "-o", "OUT/"))
    yield Bomb(
        "Parquet, bulk: plain", "rows.parquet", parquet("equal texts without a dictionary"), (*PREDICT, "-o", "OUT/")
    )
    yield Bomb("bulk: a line without an end", "rows.jsonl", sparse('{"text": "'), (*PREDICT, "-o", "OUT/"))
    yield Bomb(
        "bulk: a field without an end", "rows.csv.gz", packed(*CSV["a field without an end"]), (*PREDICT, "-o", "OUT/")
    )
    yield Bomb(
        "a TOML file of NULs", "run.toml", sparse("task = 'classification'\n"), (*TRAIN[:1], "--config", *TRAIN[1:])
    )
    yield Bomb(
        "a TOML file of brackets",
        "run.toml",
        once(lambda: "a = " + "[" * 2_000_000),
        ("train", "--config", "FILE", "-o", "OUT"),
    )
    yield Bomb(
        "a TOML file of dots",
        "run.toml",
        once(lambda: "a" + ".a" * 200_000 + " = 1"),
        ("train", "--config", "FILE", "-o", "OUT"),
    )
    yield Bomb("a model of NULs", "model.onnx", sparse("\x08", 3 << 30), ("predict", "FILE", "a text"))
    yield Bomb("a model below 2 GiB", "model.onnx", sparse("\x08", 2_000_000_000), ("predict", "FILE", "a text"))
    yield Bomb("a model to show", "model.onnx", sparse("\x08", 3 << 30), ("show", "FILE"))
    yield Bomb(
        "a folder's text of gigabytes",
        "texts/good/a.txt",
        packed("", "a b\n", kind="gz"),
        (TRAIN[0], "DIR", *TRAIN[2:]),
    )
    yield Bomb("a workbook", "rows.xlsx", packed("", "a", kind="zip"), TRAIN)
    yield Bomb("zstd", "rows.csv.zst", sparse("("), TRAIN)
    yield Bomb(
        "keys of a server", "keys.txt", sparse("key", 3 << 30), ("serve", "m=MODEL", "--port", "0", "--keys", "FILE")
    )
    yield Bomb(
        "a vocabulary",
        "vocab.txt",
        sparse("[UNK]\n", 3 << 30),
        ("train", "ROWS", "--set", "model.text.vocabulary=FILE", "-o", "OUT"),
    )
    yield from (Bomb(*values) for values in folder_bombs())


def main() -> int:
    """Write the files one after another, run the commands, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "bombs.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    if before.get("provenance", {}).get("commit") != made["commit"]:
        before = {}
    found = before.get("bombs", {})
    for bomb in bombs():
        if bomb.name in found or not any(part in bomb.name for part in options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            end, seconds, message = explode(bomb, Path(folder), options.model)
        print(f"{end:9} {seconds:5.1f} s  {bomb.name}: {message[-300:]!r}", flush=True)
        found[bomb.name] = {"end": end, "seconds": round(seconds, 1)}
        if end not in ("refused", "done"):
            found[bomb.name]["message"] = message[-2000:].replace(f"{folder}/", "")
        ends = collections.Counter(one["end"] for one in found.values())
        about = {"provenance": made, "address_space": ADDRESSES, "files": len(found), **ends}
        options.out.write_text(json.dumps({**about, "bombs": found}, indent=1) + "\n")
    return int(any("message" in one for one in found.values()))


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def explode(bomb: Bomb, folder: Path, model: Path) -> tuple[str, float, str]:
    """Return how a command ended, after how many seconds, and what it wrote to standard error."""
    path = folder / bomb.file
    path.parent.mkdir(parents=True, exist_ok=True)
    bomb.write(path)
    rows = folder / "small.csv"
    rows.write_text(ROWS)
    names = {"FILE": path, "DIR": folder / "texts", "ROWS": rows, "MODEL": model.resolve(), "OUT": folder / "out"}
    names["NEW"] = folder / "new"
    command = list(bomb.command)
    for name, value in names.items():
        command = [item.replace(name, str(value)) for item in command]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "mixling"), *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=10 * SECONDS,
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired as error:
        return "no end", 10 * SECONDS, (error.stderr or b"").decode()
    finally:
        shutil.rmtree(folder / "out", ignore_errors=True)
    seconds, lines = time.monotonic() - begin, done.stderr.strip().split("\n")
    errors = [line for line in lines if line.startswith("error: ")]
    if done.returncode == 0:
        return "done", seconds, lines[-1]
    if done.returncode == 2 and len(errors) == 1 and lines[-1] == errors[0]:
        return "refused", seconds, lines[-1]
    return f"fault {done.returncode}", seconds, done.stderr


if __name__ == "__main__":
    sys.exit(main())
