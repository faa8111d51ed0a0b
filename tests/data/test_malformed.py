"""Input that is wrong in one place: the message names place and remedy, and skipping loses that row and no other."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.tasks import task_type

SKIP = "pass --on-bad-row skip"


@dataclass(frozen=True)
class Case:
    """A file, what its message must hold, and the texts that skipping leaves (None: the file as a whole is refused)."""

    id: str
    name: str
    data: bytes | str
    says: tuple[str, ...]
    line: int | None = None
    left: tuple[Any, ...] | None = None
    task: str = "classification"
    pair: str | None = None


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def labeled(*labels: object) -> str:
    return jsonl(*({"text": f"t{i}", "label": label} for i, label in enumerate(labels)))


def tagged(*rows: tuple[object, object]) -> str:
    return jsonl({"tokens": ["a"], "slots": ["B-x"]}, *({"tokens": tokens, "slots": slots} for tokens, slots in rows))


GZIP = gzip.compress(labeled(*map(str, range(2000))).encode(), mtime=0)
# Stored, not packed, so that one flipped bit changes one character: `label` to `labem`, or to what is not UTF-8.
STORED = gzip.compress(labeled("x", "y", "z").encode(), compresslevel=0, mtime=0)
DAMAGED, NOT_UTF_8 = STORED.replace(b'"label": "y"', b'"labem": "y"'), STORED.replace(b'"y"', b'"\xff"')
REPEATED = labeled("x")
ROW = REPEATED.strip()
TAGGED = {"task": "tagging", "left": (["a"],)}

# fmt: off
ROW_PROBLEMS = [
    Case("csv: too many fields", "a.csv", "text,label\na,1\nb,c,2\nd,3\n",
         ("3 fields", "header has 2 (text, label)", "quote fields that contain ',': \"a,b\""), 3, ("a", "d")),
    Case("csv: too few fields", "a.csv", "text,label\na,1\nb\nd,3\n",
         ("1 field, but the header has 2", "write every field", "separated by ','"), 3,
         ("a", "d")),
    Case("csv: unclosed quote", "a.csv", 'text,label\na,1\n"b,2\nd,3\ne,4\nf,5',
         ("is opened here and never closed", "close it"), 3, ("a", "d", "e", "f")),
    Case("csv: unclosed quote after line breaks", "a.csv", 'text,label\n"a\n\na",1\n"b\nb","2\nd,3\n',
         ("never closed",), 6, ("a\n\na", "d")),
    Case("csv: text after a closing quote", "a.csv", 'text,label\na,1\n"b "x" c",2\nd,3\n',
         ("text follows a closing quote", "double each quote"), 3, ("a", "d")),
    Case("csv: lone carriage return", "a.csv", "text,label\na,1\nb,2\rc,3\nd,3\n",
         ("carriage return", "tr '\\r' '\\n'"), 3, ("a", "d")),
    Case("csv: NUL", "a.csv", "text,label\na,1\nb\0,2\nd,3\n", ("NUL byte", "tr -d '\\000'"), 3, ("a", "d")),
    Case("csv: empty label", "a.csv", "text,label\na,1\nb, \nd,3\n",
         ("column 'label' is empty; enter a label or " + SKIP,), 3, ("a", "d")),
    Case("csv: label of a zero width space", "a.csv", "text,label\na,1\nb,\u200b\u3164\nd,3\n",
         ("column 'label' is empty; enter a label or " + SKIP,), 3, ("a", "d")),
    Case("json: second text is null", "a.jsonl", jsonl({"text": "a", "b": "", "label": "x"},
         {"text": "a", "b": None, "label": "y"}), ("column 'b' is null; one without words is an empty string",), 2,
         (("a", ""),), pair="b"),
    Case("csv: empty name in a set of labels", "a.csv", "text,label\na,x\nb,x||y\n", ("column 'label' is empty",), 3,
         ("a",), task="multi_label"),
    Case("csv: slots and tokens differ", "a.csv", "tokens,slots\na,O\nb c,O\n",
         ("column 'slots': 2 tokens but 1 slots",), 3, (["a"],), task="tagging"),
    Case("json: cut", "a.jsonl", labeled("x") + '{"text": "b", "label": \n' + labeled("y"),
         ("column 24: bad JSON: Expecting value", "jq -c"), 2, ("t0", "t0")),
    Case("json: single quotes", "a.jsonl", REPEATED + "{'text': 1}\n", ("column 2: bad JSON", "double quotes"), 2,
         ("t0",)),
    Case("json: not an object", "a.jsonl", REPEATED + '["b", "x"]\n', ('got ["b", "x"]; allowed: an object',), 2,
         ("t0",)),
    Case("json: key twice", "a.jsonl", REPEATED + '{"text": "a", "label": "x", "text": "b"}\n',
         ("key 'text' occurs twice",), 2, ("t0",)),
    Case("json: NaN", "a.jsonl", REPEATED + '{"text": "a", "label": NaN}\n', ("NaN is not JSON",), 2, ("t0",)),
    Case("json: nested too deeply", "a.jsonl", REPEATED + '{"text": ' + "[" * 200_000 + "\n", ("bad JSON", "flat"), 2,
         ("t0",)),
    Case("json: number of 5,000 digits", "a.jsonl", REPEATED + '{"text": ' + "1" * 5000 + "}\n", ("bad JSON", "digits"),
         2, ("t0",)),
    Case("json: NUL", "a.jsonl", REPEATED + '{"text": "a\0"}\n', ("NUL byte",), 2, ("t0",)),
    Case("json: text is a number", "a.jsonl", REPEATED + jsonl({"text": 7, "label": "x"}),
         ("column 'text' is not text but a number (7)", "as a string"), 2, ("t0",)),
    Case("json: text is an object", "a.jsonl", REPEATED + jsonl({"text": {"a": 1}, "label": "x"}),
         ("column 'text' is not text but an object",), 2, ("t0",)),
    Case("json: text is null", "a.jsonl", REPEATED + jsonl({"text": None, "label": "x"}), ("column 'text' is null",),
         2, ("t0",)),
    Case("json: a token is a number", "a.jsonl", REPEATED + jsonl({"text": ["a", 1], "label": "x"}),
         ("column 'text': token 2 is not text but a number (1)",), 2, ("t0",)),
    Case("json: label left out", "a.jsonl", REPEATED + jsonl({"text": "b"}), ("no column 'label'", "allowed: text"), 2,
         ("t0",)),
    Case("json: label left out of the first row", "a.jsonl", jsonl({"text": "b", "lable": 1}) + REPEATED,
         ("no column 'label'; did you mean 'lable'?", "--label", SKIP), 1, ("t0",)),
    Case("json: an object without keys", "a.jsonl", REPEATED + "{}\n", ("no column 'text'; there are none",), 2,
         ("t0",)),
    Case("json: label is null", "a.jsonl", labeled("x", None), ("column 'label' is empty",), 2, ("t0",)),
    Case("json: label is a fraction", "a.jsonl", labeled("x", 4.5),
         ("is a number (4.5)", "allowed: a string, an integer or a boolean"), 2, ("t0",)),
    Case("json: label is a list", "a.jsonl", labeled("x", ["y", "z"]),
         ("column 'label' holds a list", "--task multi_label", SKIP), 2, ("t0",)),
    Case("json: label is half a character", "a.jsonl", labeled("x", "\ud800"), ("lone UTF-16 surrogate",), 2, ("t0",)),
    Case("json: set of labels is null", "a.jsonl", labeled([], None), ("column 'label' is empty", "[] for none"), 2,
         ("t0",), task="multi_label"),
    Case("json: set of labels is a number", "a.jsonl", labeled([], 3), ("column 'label' is a number (3)",), 2, ("t0",),
         task="multi_label"),
    Case("tagging: lengths differ", "a.jsonl", tagged((["b", "c"], ["O"])),
         ("column 'slots': 2 tokens but 1 slots", SKIP), 2, **TAGGED),
    Case("tagging: I after O", "a.jsonl", tagged((["in", "Rome"], ["O", "I-city"])),
         ("bad tag at token 2 ('Rome'): 'I-city' follows 'O'", "begins with B-city", SKIP), 2, **TAGGED),
    Case("tagging: I at the start", "a.jsonl", tagged((["Rome"], ["I-city"])), ("bad tag at token 1",), 2, **TAGGED),
    Case("tagging: I after another name", "a.jsonl", tagged((["b", "c"], ["B-x", "I-y"])), ("'I-y' follows 'B-x'",), 2,
         **TAGGED),
    Case("tagging: a mark of another scheme", "a.jsonl", tagged((["b", "c"], ["O", "S-x"])),
         ("token 2 ('c'): got 'S-x'; allowed: O, B-name and I-name (IOB2)",), 2, **TAGGED),
    Case("tagging: slot without a name", "a.jsonl", tagged((["b"], ["B-"])), ("got 'B-'",), 2, **TAGGED),
    Case("tagging: no tokens", "a.jsonl", tagged(([], [])), ("column 'tokens' is empty",), 2, **TAGGED),
    Case("tagging: empty token", "a.jsonl", tagged((["b", ""], ["O", "O"])), ("token 2 is empty",), 2, **TAGGED),
    Case("tagging: slot is null", "a.jsonl", tagged((["b"], [None])), ("slot 1 is empty",), 2, **TAGGED),
    Case("tagging: tokens are an object", "a.jsonl", tagged(({"b": 1}, ["O"])),
         ("'tokens' is an object", "a list of strings"), 2, **TAGGED),
    Case("conll: a column is missing", "a.conll", "a O\n\nb O\nc\n\nd O\n", ("1 columns, but earlier lines have 2",),
         4, (["a"], ["d"]), task="tagging"),
    Case("conll: NUL", "a.conll", "a O\n\nb\0 O\n", ("NUL byte",), 3, **TAGGED),
    Case("conll: bad tag", "a.iob", "a B-x\n\nb O\nc I-x\n", ("bad tag at token 2 ('c')",), 3, **TAGGED),
]

FILE_PROBLEMS = [
    Case("empty csv", "a.csv", "", ("is empty", "a header and at least one row")),
    Case("blank csv", "a.csv", "\n \n", ("is empty",)),
    Case("empty jsonl", "a.jsonl", "\n", ("is empty", "one JSON object per line")),
    Case("empty conll", "a.conll", "\n# text = a\n\n", ("has no tokens",), task="tagging"),
    Case("header only", "a.csv", "\ntext,label\n\n", ("has a header but no rows",), 2),
    Case("header with one name twice", "a.csv", "text,label,text\na,1,b\n", ("'text' occurs twice", "rename"), 1),
    Case("header without names", "a.csv", ",,\n0,a,1\n", ("no column of the header has a name", "text,label"), 1),
    Case("header with an unclosed quote", "a.csv", 'text,"label\na,1\n', ("never closed",), 1),
    Case("header with NUL (UTF-16 without its mark)", "a.csv", "text,label\na,1\n".encode("utf-16-le"),
         ("UTF-16 without a byte order mark", "iconv -f utf-16le"), 1),
    Case("header with NUL and line ends of two characters", "a.csv", "text,label\r\na,1\r\n".encode("utf-16-le"),
         ("UTF-16 without a byte order mark", "iconv -f utf-16le"), 1),
    Case("quoted header with NUL", "a.csv", '"text","label"\n"a","1"\n'.encode("utf-16-le"),
         ("UTF-16 without a byte order mark", "iconv -f utf-16le"), 1),
    Case("UTF-16 without its mark, big end first", "a.jsonl", '{"text": "é"}'.encode("utf-16-be"),
         ("UTF-16 without a byte order mark", "iconv -f utf-16be"), 1),
    Case("latin-1", "a.csv", "text,label\na,1\ncafé,2\n".encode("latin-1"),
         ("byte 0xe9 (byte 4 of the line) is not UTF-8", "iconv -f cp1252 -t utf-8"), 3),
    Case("latin-1 jsonl", "a.jsonl", REPEATED.encode() + '{"text": "é"}'.encode("latin-1"), ("byte 0xe9", "not UTF-8"),
         2),
    Case("utf-32", "a.csv", "text,label\na,1\n".encode("utf-32"), ("UTF-32", "iconv -f utf-32"), 1),
    Case("utf-16 of an odd length", "a.csv", "text,label\na,1\n".encode("utf-16")[:-1],
         ("ends inside a UTF-16 character",)),
    Case("utf-16 with half a pair", "a.csv", "text,label\na,1\n\ud800,2\n".encode("utf-16", "surrogatepass"),
         ("character 1 is a lone UTF-16 surrogate",), 3),
    Case("json array of lists", "a.json", '\n[["a", "x"]]\n', ("columns have no names", 'orient="records"'), 1),
    Case("json array without its end", "a.json", f"[{ROW},\n", ("column 1: bad JSON", "an array of objects"), 2),
    Case("json array without a comma", "a.json", f"[{ROW}\n{ROW}]", ("a comma or ] is missing",), 2),
    Case("json arrays", "a.json", f"[{ROW}]\n[{ROW}]", ("something follows the array",), 2),
    Case("empty json array", "a.json", "[\n]", ("is an empty array",)),
    Case("json with several tables", "a.json", '{"train": [{"text": "a"}], "test": [{"text": "a"}]}',
         ("has the tables train, test", "jq -c '.train[]'", "> train.jsonl")),
    Case("truncated gzip", "a.jsonl.gz", GZIP[: len(GZIP) // 2], ("gzip file is truncated", "download it again")),
    Case("gzip with damaged data", "a.jsonl.gz", GZIP[:-8] + bytes(8), ("gzip file is damaged",)),
    Case("gzip with a damaged byte in a row", "a.jsonl.gz", DAMAGED, ("gzip file is damaged", "download it again")),
    Case("gzip with a damaged byte that is not UTF-8", "a.jsonl.gz", NOT_UTF_8, ("gzip file is damaged",)),
    Case("truncated gzip with a bad row", "a.jsonl.gz", gzip.compress(labeled("x", None, "y").encode())[:-9],
         ("gzip file is truncated",)),
    Case("not gzip", "a.jsonl.gz", REPEATED, ("ends in .gz but is not gzip", "remove .gz")),
    Case("csv: no header", "a.csv", "play the newest album of the band that was here last night,music\nb,x\n",
         ("no column 'text'", "the first line must name the columns")),
    Case("csv: a name that nobody spelled", "a.csv", "request,intent\na,x\nb,y\n",
         ("no column 'text'; allowed: request, intent; choose a column with --text",)),
    Case("workbook", "a.xls", "x", ("is a workbook; save the sheet as CSV in UTF-8",)),
    Case("unknown extension", "a.cvs", "text,label\na,1\n",
         ("unknown extension '.cvs'", "did you mean '.csv'?")),
    Case("no extension", "a", "text,label\na,1\n", ("without an extension", ".jsonl")),
    Case("missing column", "a.csv", "txt,label\na,1\n",
         ("no column 'text'; did you mean 'txt'?", "txt, label", "--text")),
    Case("missing label column", "a.csv", "text,lable\na,1\n", ("no column 'label'; did you mean 'lable'?", "--label")),
    Case("missing label column of all JSON rows", "a.jsonl", jsonl({"text": "a", "lable": 1}, {"text": "b"}),
         ("no column 'label'; did you mean 'lable'?", "text, lable", "--label")),
    Case("missing second text", "a.csv", "text,label\na,1\n", ("no column 'textb'", "--text COLUMN"), pair="textb"),
    Case("missing slots", "a.conll", "a\nb\n", ("no column 'slots'", "--set data.columns.slots="), task="tagging"),
    Case("every row bad", "a.csv", "text,label\na,\nb,\n", ("column 'label' is empty",)),
]
# fmt: on


def read(path: Path, case: Case, on_bad_row: OnBadRow) -> list[Example]:
    columns = ColumnsConfig(text_pair=case.pair)
    return list(read_examples([path], reader=task_type(case.task).reader, columns=columns, on_bad_row=on_bad_row))


def write(folder: Path, case: Case) -> Path:
    path = folder / case.name
    path.write_bytes(case.data if isinstance(case.data, bytes) else case.data.encode())
    return path


def by_id(case: Case) -> str:
    return case.id


@pytest.mark.parametrize("case", [*ROW_PROBLEMS, *FILE_PROBLEMS], ids=by_id)
def test_the_message_names_location_and_remedy(tmp_path: Path, case: Case) -> None:
    path = write(tmp_path, case)
    with pytest.raises(DataError) as caught:
        read(path, case, OnBadRow())
    where = f"{path}: " if case.line is None else f"{path}:{case.line}: "
    message = str(caught.value)
    assert message.startswith(where if case.line is not None else str(path))
    assert [part for part in case.says if part not in message] == []
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("case", ROW_PROBLEMS, ids=by_id)
def test_skipping_loses_the_bad_row_and_no_other(tmp_path: Path, case: Case) -> None:
    path = write(tmp_path, case)
    on_bad_row = OnBadRow("skip")
    assert tuple(example.text for example in read(path, case, on_bad_row)) == case.left
    assert on_bad_row.skipped == 1
    assert on_bad_row.messages[0].startswith(f"{path}:{case.line}: ")


@pytest.mark.parametrize("case", FILE_PROBLEMS, ids=by_id)
def test_a_bad_file_is_never_skipped(tmp_path: Path, case: Case) -> None:
    path = write(tmp_path, case)
    with pytest.raises(DataError) as caught:
        read(path, case, OnBadRow("skip"))
    assert [part for part in case.says if part not in str(caught.value)] == []


def test_every_row_skipped_counts_them(tmp_path: Path) -> None:
    case = next(case for case in FILE_PROBLEMS if case.id == "every row bad")
    with pytest.raises(
        DataError, match=r"no rows are left, 2 were skipped; the first: .*a\.csv:2: column 'label' is empty"
    ):
        read(write(tmp_path, case), case, OnBadRow("skip"))


def test_a_bad_row_of_a_sound_gzip_file_is_a_bad_row(tmp_path: Path) -> None:
    case = Case("", "a.jsonl.gz", gzip.compress(labeled("x", None, "y").encode()), ())
    with pytest.raises(DataError, match=r"a\.jsonl\.gz:2: column 'label' is empty"):
        read(write(tmp_path, case), case, OnBadRow())


def test_missing_file_and_folder(tmp_path: Path) -> None:
    case = Case("", "train.csv", "text,label\na,1\n", ())
    write(tmp_path, case)
    with pytest.raises(DataError, match=r"trian\.csv: no such file; did you mean '.*train\.csv'\?"):
        read(tmp_path / "trian.csv", case, OnBadRow())
    with pytest.raises(DataError, match=r"no such file$"):
        read(tmp_path / "absent" / "x.csv", case, OnBadRow())
    with pytest.raises(DataError, match="is a folder; name the files in it, or keep the texts"):
        read(tmp_path, case, OnBadRow())
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        read(tmp_path / ("x" * 300 + ".csv"), case, OnBadRow())


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(
        pa.table({"text": [f"t{i}" for i in range(999)], "label": list(range(999))}), out, compression="gzip"
    )
    return out.getvalue()


@pytest.mark.parametrize("damage", ["not parquet", "cut", "footer", "page"])
def test_corrupt_parquet(tmp_path: Path, damage: str) -> None:
    whole = parquet()
    data = {
        "not parquet": b"text,label\na,1\n",
        "cut": whole[:-9],
        "footer": whole[:-60] + b"\xff" * 52 + whole[-8:],
        "page": whole[:60] + b"\xff" * 400 + whole[460:],
    }[damage]
    case = Case("", "a.parquet", data, ())
    path = write(tmp_path, case)
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet: .*write it again"):
        read(path, case, OnBadRow("skip"))


def test_parquet_without_rows_and_with_empty_labels(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    case = Case("", "a.parquet", b"", ())
    path = tmp_path / case.name
    pq.write_table(pa.table({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}), path)
    with pytest.raises(DataError, match="has columns but no rows"):
        read(path, case, OnBadRow())
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": [1, None, 3]}), path)
    with pytest.raises(DataError, match=r"a\.parquet:2: column 'label' is empty"):
        read(path, case, OnBadRow())
    assert [example.target for example in read(path, case, OnBadRow("skip"))] == ["1", "3"]
