"""Files of model files, vocabularies and run folders whose content is large: for bombs.py.

Each takes the place of one file in the folder of a run, or of a prediction in bulk, that was finished or stopped.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mixling.runtime.onnx import seal

Write = Callable[[Path], None]
MIB = 1 << 20
ROWS = "text,label\n" + "".join(f"fine {number},good\ndull {number},bad\n" for number in range(30))
_JSON = {  # a beginning, what is repeated up to 60 MiB, and an end
    "lists": ('{"format_version": 1, "a": [', "[],", "[]]}"),
    "objects": ('{"format_version": 1, "a": [', "{},", "{}]}"),
    "nested lists in a list": ('{"format_version": 1, "a": [', "[" * 400 + "]" * 400 + ",", "[]]}"),
    "numbers": ('{"format_version": 1, "finished": false, "config": {"x": [', "1,", "1]}}"),
    "depth": ('{"format_version": 1, "a": ', "[", ""),
    "deep objects": ("", '{"a":', ""),
    "a text": ('{"format_version": 1, "a": "', "\\ud83d\\ude00", '"}'),
    "a number": ('{"format_version": 1, "a": ', "9", "}"),
}
_RUN = {  # files of a run's folder, and commands that read it
    "run.json": ("show", "OUT"),
    "config.json": ("train", "ROWS", "--from", "OUT", "--epochs", "1", "-o", "NEW"),
    "metrics.json": ("show", "OUT"),
    "checkpoint.json": ("train", "--resume", "-o", "OUT"),
    ".lock.json": ("evaluate", "OUT", "ROWS"),
}
_BINARY = {
    "model.safetensors": ("train", "ROWS", "--from", "OUT", "--epochs", "1", "-o", "NEW"),
    "checkpoint.safetensors": ("show", "OUT"),
    "seen_rows.bin": ("evaluate", "OUT", "ROWS"),
}
_TRAIN = ("--epochs", "1", "-o", "OUT")


def repeated(begin: str, unit: str, end: str, size: int = 60 * MIB) -> bytes:
    """Return a text that repeats another one up to a size."""
    return (begin + unit * (size // len(unit)) + end).encode()


def headed(header: bytes) -> bytes:
    """Return a safetensors file that has nothing but a header."""
    return len(header).to_bytes(8, "little") + header


def tensors() -> bytes:
    """Return a header of very many empty tensors."""
    one = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    return ("{" + ",".join(one % number for number in range(1_500_000)) + "}").encode()


def state() -> bytes:
    """Return a header whose state has very many values."""
    return json.dumps({"__metadata__": {"format_version": "2", "state": "[" + "[]," * 20_000_000 + "[]]"}}).encode()


_HEADERS: dict[str, Callable[[], bytes]] = {
    "tensors": tensors,
    "a state of lists": state,
    "depth": lambda: repeated('{"a":', "[", ""),
    "lists": lambda: repeated('{"a":[', "[],", "[]]}"),
    "a length of gigabytes": lambda: b"",
}
_HUGE = (1 << 40).to_bytes(8, "little")


@functools.cache
def finished_run() -> Path:
    """Return the folder of a run that was trained here."""
    folder = Path(tempfile.mkdtemp(prefix="mixling-bombs-"))
    (folder / "rows.csv").write_text(ROWS)
    command = ["train", "rows.csv", "--epochs", "1", "--test-fraction", "0", "-o", "run"]
    subprocess.run([sys.executable, "-m", "mixling", *command], cwd=folder, check=True, capture_output=True)
    return folder / "run"


def in_run(name: str, content: Callable[[], bytes], *, unfinished: bool = False) -> Write:
    """Return what writes a run's folder in which a file has another content; an unfinished run has a checkpoint."""

    def write(path: Path) -> None:
        folder = path.parent
        shutil.rmtree(folder)
        shutil.copytree(finished_run(), folder)
        if unfinished:
            record = json.loads((folder / "run.json").read_bytes())
            kept = {key: record[key] for key in record.keys() - {"sha256", "format_version"}}
            (folder / "run.json").write_text(json.dumps({**kept, "format_version": 1, "finished": False}))
        (folder / name).write_bytes(content())

    return write


def protobuf(number: int, content: bytes) -> bytes:
    """Return a field of a model file."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def entry(name: str, value: bytes) -> bytes:
    """Return an entry of a model file's metadata."""
    return protobuf(14, protobuf(1, name.encode()) + protobuf(2, value))


MODELS: dict[str, Callable[[], bytes]] = {
    "nodes": lambda: protobuf(7, b"\x0a\x00" * (40 * MIB)),
    "tensors": lambda: protobuf(7, b"\x2a\x00" * (40 * MIB)),
    "inputs": lambda: protobuf(7, b"\x5a\x00" * (40 * MIB)),
    "fields of a graph": lambda: protobuf(7, b"\x08\x00" * (40 * MIB)),
    "entries": lambda: b"\x72\x00" * (40 * MIB),
    "numbers": lambda: b"\x08\x00" * (40 * MIB),
    "metadata of lists": lambda: entry("mixling", repeated('{"format_version": 1, "a": [', "[],", "[]]}")),
    "metadata of objects": lambda: entry("mixling", repeated('{"format_version": 1, "a": [', "{},", "{}]}")),
    "deep metadata": lambda: entry("mixling", repeated('{"a":', "[", "")),
    "a long entry": lambda: entry("vocabulary", b"a" * (500 * MIB)),
    "words of a vocabulary": lambda: entry("mixling", b"{}") + entry("vocabulary", b"[UNK]\n" + b"a\n" * (30 * MIB)),
    "depth": functools.partial(lambda: functools.reduce(lambda inner, _: protobuf(7, inner), range(5000), b"")),
}


def _record(path: Path, content: Callable[[], bytes]) -> None:
    path.write_text("a text\n")
    path.with_name(f"{path.name}.labels.jsonl").write_bytes(content() + b"\n")


def _vocabularies() -> Iterator[tuple[str, str, bytes]]:
    yield "WordPiece of empty lines", "vocab.txt", b"[UNK]\n" + b"\n" * (60 * MIB)
    yield "WordPiece of words", "vocab.txt", b"[UNK]\n" + b"\n".join(b"%d" % number for number in range(7_000_000))
    yield "WordPiece, one word", "vocab.txt", b"[UNK]\n" + b"a" * (60 * MIB)
    model = '{"model": {"type": "%s", "vocab": '
    yield "tokenizer.json of lists", "tokenizer.json", repeated(model % "Unigram" + "[", "[],", "[]]}}")
    yield "tokenizer.json of pairs", "tokenizer.json", repeated(model % "Unigram" + "[", '["a",0],', '["b",0]]}}')
    yield "tokenizer.json, deep", "tokenizer.json", repeated('{"model": ', "[", "")
    merges = model % "BPE" + '{"a": 0}, "merges": ['
    yield "tokenizer.json of merges", "tokenizer.json", repeated(merges, '"a a",', '"a a"]}}')
    pieces = ("{" + ",".join(f'"{number}":{number}' for number in range(3_500_000)) + "}").encode()
    yield "tokenizer.json of words", "tokenizer.json", (model % "WordPiece").encode() + pieces + b"}}"
    added = '{"model": {"type": "WordPiece", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}, "added_tokens": ['
    yield "tokenizer.json of added tokens", "tokenizer.json", repeated(added, '{"id":1,"content":"a"},', "{}]}")
    yield "SentencePiece, empty pieces", "pieces.model", b"\x0a\x00" * (30 * MIB)
    yield "SentencePiece, pieces", "pieces.model", protobuf(1, protobuf(1, b"ab") + b"\x15\0\0\0\0") * (5 * MIB)
    yield "SentencePiece, one piece", "pieces.model", protobuf(1, protobuf(1, b"a" * (60 * MIB)))
    yield "SentencePiece, fields", "pieces.model", b"\x08\x00" * (30 * MIB)


def folder_bombs() -> Iterator[tuple[str, str, Write, tuple[str, ...]]]:
    """Yield a name, a file, what writes it, and the command that reads it, of each."""
    for file, command in _RUN.items():
        for kind, (begin, unit, end) in _JSON.items():
            content = functools.partial(repeated, begin, unit, end)
            write = in_run(file, content, unfinished=file == "checkpoint.json")
            yield f"{file}: {kind}", f"out/{file}", write, command
    for file, command in _BINARY.items():
        for kind, header in _HEADERS.items():
            write = in_run(
                file,
                lambda header=header: headed(header()) if header() else _HUGE,  # type: ignore[misc]
                unfinished="checkpoint" in file,
            )
            yield f"{file}: {kind}", f"out/{file}", write, command
    for kind, make in MODELS.items():
        write = functools.partial(lambda path, make: path.write_bytes(seal(make())) and None, make=make)
        yield f"model: {kind}", "model.onnx", write, (("predict", "FILE", "a text"), ("show", "FILE"))[len(kind) % 2]
    for kind, file, content in _vocabularies():
        write = functools.partial(lambda path, content: path.write_bytes(content) and None, content=content)
        yield f"vocabulary: {kind}", file, write, ("train", "ROWS", "--set", "model.text.vocabulary=FILE", *_TRAIN)
    for kind, (begin, unit, end) in _JSON.items():
        write = functools.partial(_record, content=functools.partial(repeated, begin, unit, end))
        yield f"labels.jsonl: {kind}", "texts.txt", write, ("label", "FILE", "--task", "classification", "--no-open")
    for file in ("_manifest.json", "_progress/job.json", "_progress/part.json"):
        for kind in ("lists", "depth", "a text", "numbers"):
            begin, unit, end = _JSON[kind]

            def write(path: Path, content: bytes = repeated(begin, unit, end)) -> None:
                if path.name == "part.json":
                    (path.parent / "job.json").write_text('{"format": 1, "settings": {}, "inputs": {}, "parts": []}')
                path.write_bytes(content)

            yield f"bulk, {file}: {kind}", f"out/{file}", write, ("predict", "MODEL", "ROWS", "--resume", "-o", "OUT/")
