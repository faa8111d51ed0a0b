"""Every format gives the same rows; encodings, delimiters, line numbers; nothing but rows or a DataError comes out."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixling import ConfigError, DataError, UserError
from mixling.data import MAX_LINE, OnBadRow, Row, read_rows

ROWS = [
    {"text": "a film, long", "label": "good"},
    {"text": 'says "no"\ntwice', "label": "bad"},
    {"text": "é😀", "label": ""},
]


def rows_of(path: Path | str, mode: str = "error", **options: str) -> list[Row]:
    return list(read_rows(path, on_bad_row=OnBadRow(mode), **options))  # type: ignore[arg-type]


def as_csv(delimiter: str = ",", end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["text", "label"], delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(ROWS)
    return out.getvalue()


def as_jsonl() -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-bom"], ids=["utf8", "utf8-bom", "utf16le", "utf16be"]
)
@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.csv", as_csv(), [2, 3, 5]),
        ("a.csv", as_csv(end="\r\n"), [2, 3, 5]),
        ("semicolon.csv", as_csv(";"), [2, 3, 5]),
        ("tab.CSV", as_csv("\t"), [2, 3, 5]),
        ("a.tsv", as_csv("\t"), [2, 3, 5]),
        ("a.jsonl", as_jsonl(), [1, 2, 3]),
        ("a.ndjson", as_jsonl(), [1, 2, 3]),
        ("a.json", as_jsonl().rstrip("\n"), [1, 2, 3]),
    ],
)
def test_text_formats_give_the_same_rows(
    tmp_path: Path, name: str, content: str, lines: list[int], encoding: str, zipped: bool
) -> None:
    data = (
        content.encode(encoding) if encoding != "utf-16-be-bom" else codecs.BOM_UTF16_BE + content.encode("utf-16-be")
    )
    path = tmp_path / (name + ".gz" if zipped else name)
    path.write_bytes(gzip.compress(data) if zipped else data)
    got = rows_of(path)
    assert [row.values for row in got] == ROWS
    assert [row.line for row in got] == lines
    assert {row.path for row in got} == {str(path)}


def test_gzip_is_known_by_its_bytes_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(as_jsonl().encode()))
    assert [row.values for row in rows_of(path)] == ROWS


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_parquet_rows_are_numbered_across_batches(tmp_path: Path, zipped: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    values = [{"text": f"t{i}", "label": i % 3, "tags": ["x"] * (i % 2)} for i in range(2500)]
    pq.write_table(pa.Table.from_pylist(values), path, row_group_size=700)
    if zipped:
        path = Path(f"{path}.gz")
        path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    got = rows_of(path)
    assert [row.values for row in got] == values
    assert [row.line for row in got] == list(range(1, 2501))


@pytest.mark.parametrize("separator", ["\t", " ", "  "])
@pytest.mark.parametrize("extension", ["conll", "iob", "bio"])
def test_conll(tmp_path: Path, separator: str, extension: str) -> None:
    lines = [
        "-DOCSTART- x O",
        "",
        "# sent_id = 1",
        "# text = to Rome",
        "to P O",
        "Rome N B-city",
        "",
        "",
        "#rome N B-tag",
    ]
    lines += ["# N O", "wow\u00a0! I O", "", "# a comment"]
    path = tmp_path / f"a.{extension}"
    columns = [line.replace(" ", separator) if not line.startswith("# ") or line == "# N O" else line for line in lines]
    path.write_text("\n".join(columns), "utf-8")
    assert [(row.line, row.values) for row in rows_of(path)] == [
        (5, {"tokens": ["to", "Rome"], "slots": ["O", "B-city"]}),
        (9, {"tokens": ["#rome", "#", "wow\u00a0!"], "slots": ["B-tag", "O", "O"]}),
    ]


def test_conll_with_tokens_only_has_no_slots(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("#one\ntwo\n\nthree\n")
    assert [row.values for row in rows_of(path)] == [{"tokens": ["#one", "two"]}, {"tokens": ["three"]}]


def test_blank_lines_are_no_rows_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n\n text , label \n\nx,1\n\r\ny,2\n\n")
    assert rows_of(path) == [
        Row({"text": "x", "label": "1"}, str(path), 5),
        Row({"text": "y", "label": "2"}, str(path), 7),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"a": 1}\n \n{"a": 2}')
    assert [(row.line, row.values["a"]) for row in rows_of(path)] == [(2, 1), (4, 2)]


def test_a_quoted_delimiter_in_the_header_does_not_choose_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"text, raw";label\nx,y;1\n')
    assert [row.values for row in rows_of(path)] == [{"text, raw": "x,y", "label": "1"}]


def test_an_unclosed_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\na,1\n"b,2\n"c",3\n"d\nd",4\n"e\n')
    on_bad_row = OnBadRow("skip", keep=1)
    rows = list(read_rows(path, on_bad_row=on_bad_row))
    assert [(row.values["text"], row.line) for row in rows] == [("a", 2), ("c", 4), ("d\nd", 5)]
    assert on_bad_row.skipped == 2
    [message] = on_bad_row.messages
    assert message.startswith(f"{path}:3: text follows a closing quote on line 4; double each quote")


def test_format_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(as_jsonl(), "utf-8")
    assert [row.values for row in rows_of(path, file_format="jsonl")] == ROWS
    with pytest.raises(ConfigError, match="unknown file format 'jsnl'; did you mean 'jsonl'"):
        rows_of(path, file_format="jsnl")


def test_on_bad_row_refuses_other_modes() -> None:
    with pytest.raises(ConfigError, match="got 'skp'; did you mean 'skip'"):
        OnBadRow("skp")  # type: ignore[arg-type]


def test_streaming_holds_few_rows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + f"{'x' * 500},1\n" * 10_000)  # 5 MB
    tracemalloc.start()
    count = sum(1 for _ in read_rows(path, on_bad_row=OnBadRow()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 3_000_000


def test_ten_million_characters_are_a_row_and_more_than_the_limit_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "' + "x" * 10_000_000 + '"}\n')
    assert len(rows_of(path)[0].values["text"]) == 10_000_000
    path.write_bytes(b'{"text": "ok"}\n' + b"x" * (MAX_LINE + 1))
    with pytest.raises(DataError, match=r"a\.jsonl:2: the line is longer than 16 MiB"):
        rows_of(path, "skip")


@pytest.mark.parametrize(
    ("module", "source", "extra"), [("pyarrow", "a.parquet", "parquet"), ("datasets", "hf:x", "hf")]
)
def test_a_missing_library_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, extra: str
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf'pip install .*\[{extra}\]"'):
        rows_of(source if source.startswith("hf:") else tmp_path / source)


def test_hub_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra [hf] is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "test.jsonl").write_text(as_jsonl(), "utf-8")
    assert [row.values for row in rows_of(f"hf:{tmp_path / 'plain'}:test")] == ROWS
    names = datasets.ClassLabel(names=["O", "B-x"])
    features = datasets.Features({"slots": datasets.Sequence(names), "label": names, "none": names})
    saved = datasets.Dataset.from_dict({"slots": [[0, 1]], "label": [1], "none": [-1]}, features=features)
    saved.save_to_disk(str(tmp_path / "saved"))
    [row] = rows_of(f"hf:{tmp_path / 'saved'}")
    assert (row.values, row.line) == ({"slots": ["O", "B-x"], "label": "B-x", "none": None}, 1)
    with pytest.raises(DataError, match="Bad split"):
        rows_of(f"hf:{tmp_path / 'plain'}:validation")


class SavedTable(list[dict[str, object]]):
    """What `load_from_disk` returns, without the library."""

    features = None

    def __init__(self, split: str | None) -> None:
        super().__init__([{"text": split}])
        self.split = split


def test_a_split_that_was_not_saved_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state.json").touch()
    saved: object = SavedTable("train")
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_from_disk=lambda name: saved))
    for source in (f"hf:{tmp_path}", f"hf:{tmp_path}:train"):
        assert [row.values for row in rows_of(source)] == [{"text": "train"}]
    with pytest.raises(DataError, match="is a single table without splits; leave out :test"):
        rows_of(f"hf:{tmp_path}:test")
    saved = {name: SavedTable(name) for name in ("train", "test")}
    assert [row.values for row in rows_of(f"hf:{tmp_path}:test")] == [{"text": "test"}]
    with pytest.raises(DataError, match=r"has no split 'tets'; did you mean 'test'\?"):
        rows_of(f"hf:{tmp_path}:tets")


# What the readers treat in a way of its own, and the bytes of marks, zips and other encodings.
FRAGMENTS = st.sampled_from(
    [b'"', b",", b"\t", b" ", b"\n", b"\n\n", b"\r", b"\0", b"\x1c", b"\\ud800", b"[", b"{", b"# ", b"NaN", b"PAR1"]
) | st.sampled_from(
    [
        b"text",
        b"a,b\n",
        b'{"text": 1}\n',
        b"x O\n",
        b"-DOCSTART-",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
        b"\xe9",
    ]
)


@settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    data=st.one_of(st.binary(max_size=80), st.lists(FRAGMENTS, max_size=14).map(b"".join)),
    extension=st.sampled_from(["csv", "tsv", "jsonl", "conll", "csv.gz"]),
    zipped=st.booleans(),
    mode=st.sampled_from(["error", "skip"]),
)
def test_any_bytes_end_in_rows_or_a_data_error(
    tmp_path: Path, data: bytes, extension: str, zipped: bool, mode: str
) -> None:
    path = tmp_path / f"a.{extension}"
    path.write_bytes(gzip.compress(data) if zipped else data)
    try:
        rows = rows_of(path, mode)
    except DataError as error:
        named = str(path) in str(error)
        assert named
    else:
        lines = [row.line for row in rows]
        assert lines == sorted(set(lines))
        assert all(1 <= line <= data.count(b"\n") + 1 for line in lines)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), max_size=3))
def test_damaged_gzip_ends_in_rows_or_a_data_error(tmp_path: Path, cut: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(gzip.compress("".join(f'{{"text": "{i * i}"}}\n' for i in range(300)).encode(), mtime=0))
    for position, change in flips:
        data[position % len(data)] ^= change
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bytes(data[: max(1, len(data) - cut)]))
    try:
        rows_of(path)
    except DataError as error:
        named = str(path) in str(error)
        assert named


@pytest.mark.parametrize(
    ("folder", "file", "count"),
    [
        ("snips", "train", 13_084),
        ("snips", "test", 700),
        ("mtop_en", "dev", 2_235),
        ("mtop_en", "test", 4_386),
        ("sst2_glue", "dev", 872),
        ("sst2_glue", "train", 67_349),
    ],
)
def test_real_files_have_the_published_number_of_rows(shared_data: Path, folder: str, file: str, count: int) -> None:
    assert sum(1 for _ in read_rows(shared_data / folder / f"{file}.jsonl.gz", on_bad_row=OnBadRow())) == count
