"""The layout that experiments read, made from the files that a person downloads, and checked by checksums of the rows.

    python experiments/layout.py make sst2_glue Downloads/SST-2 --data data     # writes data/sst2_glue/*.jsonl.gz
    python experiments/layout.py check --data data                              # which sets have the experiments' rows
    python experiments/layout.py record --data data                             # writes layout.json, when sets change

A set is a folder of `SPLIT.jsonl.gz`, one row a line. `make` names the files that it reads of the public
distribution: GLUE's folders (SST-2, CoLA, MRPC, RTE, QNLI, STS-B, WNLI), SuperGLUE's (BoolQ, CB, WSC), Goo et al.'s
snips, CLINC150's data_full.json, Maas et al.'s aclImdb, SICK.txt, ConjNLI's folder data/NLI, COGS's folder data, MTOP's
folder en (for mtop_en and mtop_en_seq2seq), and XQuAD's xquad.LANGUAGE.json. A checksum is of the rows in any order;
keys that no experiment reads are left out of it. Rows that differ are reported, not refused: distributions change.
There is no reader of Hyperpartisan (XML), of XSemPLR's MTOP, and of plain text (imdb_unsup_lm, wikitext2, vocab).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Splits = Iterator[tuple[str, Iterator[Row]]]
RECORD = Path(__file__).parent / "layout.json"
UNREAD = {"rating", "id", "domain", "utterance"}  # keys that differ between distributions, and that nothing reads


def _tsv(path: Path, names: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
    """The rows of a file whose quotes are text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader((line.rstrip("\r\n") for line in file), delimiter="\t", quoting=csv.QUOTE_NONE)
        header = names or tuple(next(lines))
        yield from (dict(zip(header, line, strict=False)) for line in lines if line)


def _glue(text: str, pair: str = "", label: str = "label", names: tuple[str, ...] = ()) -> Callable[[Path], Splits]:
    """Read train.tsv and dev.tsv of a folder of GLUE, from columns of these names."""

    def rows(path: Path) -> Iterator[Row]:
        for line in _tsv(path, names):
            texts = {"text": line[text], **({"text_pair": line[pair]} if pair else {})}
            yield {**texts, "label": float(line[label]) if label == "score" else line[label]}

    def read(folder: Path) -> Splits:
        for split in ("train", "dev"):
            yield split, rows(folder / f"{split}.tsv")

    return read


def _super_glue(text: str, pair: str, *, lower: bool = False) -> Callable[[Path], Splits]:
    """Read train.jsonl and val.jsonl of a folder of SuperGLUE, where they are, from these keys."""

    def rows(path: Path) -> Iterator[Row]:
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            other = row[pair] if isinstance(row[pair], str) else json.dumps(row[pair], ensure_ascii=False)
            label = str(row["label"])
            yield {"text": row[text], "text_pair": other, "label": label.lower() if lower else label}

    def read(folder: Path) -> Splits:
        for split, name in (("train", "train"), ("dev", "val")):
            if split == "dev" or (folder / f"{name}.jsonl").exists():
                yield split, rows(folder / f"{name}.jsonl")

    return read


def _conjnli(folder: Path) -> Splits:
    names = (("train_adversarial", "adversarial_train_15k"), ("dev", "conj_dev"), ("test_unlabelled", "conj_test"))
    columns = {"Premise": "text", "Hypothesis": "text_pair", "Label": "label"}
    for split, name in names:
        lines = _tsv(folder / f"{name}.tsv")
        yield split, ({columns[key]: value for key, value in line.items() if key in columns} for line in lines)


def _snips(folder: Path) -> Splits:
    def rows(part: Path) -> Iterator[Row]:
        parts = [(part / name).read_text("utf-8").splitlines() for name in ("seq.in", "seq.out", "label")]
        for words, tags, intent in zip(*parts, strict=True):
            yield {"tokens": words.split(), "slots": tags.split(), "intent": intent.strip(), "lang": "en"}

    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        yield split, rows(folder / name)


def _clinc150(path: Path) -> Splits:
    path = path / "data_full.json" if path.is_dir() else path
    for split, rows in json.loads(path.read_text("utf-8")).items():
        yield split, ({"text": text, "label": label} for text, label in rows)


def _imdb(folder: Path) -> Splits:
    for split in ("train", "test"):
        files = ((path, label) for label in ("neg", "pos") for path in sorted((folder / split / label).glob("*.txt")))
        yield split, ({"text": path.read_text("utf-8"), "label": label} for path, label in files)


def _sick(path: Path) -> Splits:
    lines = list(_tsv(path / "SICK.txt" if path.is_dir() else path))
    for split, name in (("train", "TRAIN"), ("dev", "TRIAL"), ("test", "TEST")):
        yield (
            split,
            (
                {
                    "text": line["sentence_A"],
                    "text_pair": line["sentence_B"],
                    "label": line["entailment_label"].lower(),
                    "relatedness": float(line["relatedness_score"]),
                }
                for line in lines
                if line["SemEval_set"] == name
            ),
        )


def _cogs(folder: Path) -> Splits:
    for split in ("train", "dev", "test", "gen"):
        yield split, iter(_tsv(folder / f"{split}.tsv", ("source", "target", "kind")))


_MTOP = ("id", "intent", "slots", "utterance", "domain", "locale", "decoupled", "tokens")
_MTOP_SPLITS = (("train", "train"), ("dev", "eval"), ("test", "test"))


def _mtop(folder: Path) -> Splits:
    def rows(path: Path) -> Iterator[Row]:
        for line in _tsv(path, _MTOP):
            parsed = json.loads(line["tokens"])
            tags = ["O"] * len(parsed["tokens"])
            for span in filter(None, line["slots"].split(",")):
                first, end, _, label = span.split(":")
                inside = False
                for index, (start, stop) in enumerate(parsed["tokenSpans"]):
                    if int(first) <= start and start + stop <= int(end):
                        tags[index] = f"{'I' if inside else 'B'}-{label}"
                        inside = True
            intent = line["intent"].removeprefix("IN:")
            yield {"tokens": parsed["tokens"], "slots": tags, "intent": intent, "lang": line["locale"][:2]}

    for split, name in _MTOP_SPLITS:
        yield split, rows(folder / f"{name}.txt")


def _mtop_parses(folder: Path) -> Splits:
    def rows(path: Path, kind: str | None) -> Iterator[Row]:
        for line in _tsv(path, _MTOP):
            yield {"source": line["utterance"], "target": line["decoupled"], "kind": kind or line["domain"]}

    for split, name in _MTOP_SPLITS:
        yield split, rows(folder / f"{name}.txt", "train" if split == "train" else None)


def _xquad(folder: Path) -> Splits:
    def rows(path: Path) -> Iterator[Row]:
        for document in json.loads(path.read_text("utf-8"))["data"]:
            for paragraph in document["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = question["answers"]
                    places = {"text": [a["text"] for a in answers], "start": [a["answer_start"] for a in answers]}
                    yield {"question": question["question"], "context": paragraph["context"], "answers": places}

    for path in sorted(folder.glob("xquad.*.json")):
        yield path.name.split(".")[1], rows(path)


READERS: dict[str, Callable[[Path], Splits]] = {
    "sst2_glue": _glue("sentence"),
    "cola": _glue("text", names=("source", "label", "mark", "text")),
    "mrpc": _glue("#1 String", "#2 String", "Quality"),
    "rte": _glue("sentence1", "sentence2"),
    "qnli": _glue("question", "sentence"),
    "stsb": _glue("sentence1", "sentence2", "score"),
    "wnli": _glue("sentence1", "sentence2"),
    "snips": _snips,
    "clinc150": _clinc150,
    "imdb": _imdb,
    "sick": _sick,
    "boolq": _super_glue("question", "passage", lower=True),
    "cb": _super_glue("premise", "hypothesis"),
    "wsc": _super_glue("text", "target"),
    "conjnli": _conjnli,
    "cogs": _cogs,
    "mtop_en": _mtop,
    "mtop_en_seq2seq": _mtop_parses,
    "xquad": _xquad,
}


def checksum(path: Path) -> dict[str, Any]:
    """The number of rows, and the SHA-256 of the sorted SHA-256 of each."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        digests = sorted(_digest(json.loads(line)) for line in lines if line.strip())
    return {"rows": len(digests), "sha256": hashlib.sha256("".join(digests).encode()).hexdigest()}


def _digest(row: Mapping[str, Any]) -> str:
    read = {key: value for key, value in row.items() if key not in UNREAD}
    return hashlib.sha256(json.dumps(read, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def make(name: str, source: Path, data: Path) -> None:
    """Write a set's splits, and say whether they have the rows of the experiments."""
    for split, rows in READERS[name](source):
        path = data / name / f"{split}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        path.write_bytes(gzip.compress(content.encode(), mtime=0))
        print(compared(path, data), flush=True)


def compared(path: Path, data: Path) -> str:
    """A line on a split: whether its rows are those that the experiments read."""
    name = f"{path.parent.name}/{path.name.partition('.')[0]}"
    recorded = json.loads(RECORD.read_text("utf-8"))
    if name not in recorded:
        return f"{name}: no checksum is recorded"
    rows = checksum(path)
    if rows == recorded[name]:
        return f"{name}: {rows['rows']:,} rows, the same"
    return f"{name}: {rows['rows']:,} rows, NOT the same: the experiments read {recorded[name]['rows']:,}"


def main() -> None:
    """Make, check or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write one set from its public files")
    making.add_argument("set", choices=READERS)
    making.add_argument("source", type=Path, help="the folder or file that was downloaded")
    for command in (making, *(commands.add_parser(name) for name in ("check", "record"))):
        command.add_argument("--data", type=Path, required=True, help="the folder of the sets' folders")
    options = parser.parse_args()
    if options.command == "make":
        try:
            make(options.set, options.source, options.data)
        except FileNotFoundError as error:
            sys.exit(f"error: {error.filename}: there is no such file; {options.set} is made of the files named above")
        return
    paths = sorted(options.data.glob("*/*.jsonl.gz"))
    if options.command == "record":
        record = {f"{path.parent.name}/{path.name.partition('.')[0]}": checksum(path) for path in paths}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        return
    lines = [compared(path, options.data) for path in paths]
    print("\n".join(lines))
    sys.exit(any("NOT the same" in line for line in lines))


if __name__ == "__main__":
    main()
