"""Tables as programs and people write them: every row is read, or the message names the line and what is in the way."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from mixling.data import OnBadRow, read_rows
from mixling.errors import DataError

JOIN = "mixling train a.csv b.csv"


def rows_of(folder: Path, content: str | bytes, name: str = "a.csv", mode: Any = "error") -> tuple[list[Any], OnBadRow]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    bad = OnBadRow(mode, keep=100)
    return [tuple(row.values.values()) for row in read_rows(path, on_bad_row=bad)], bad


def error_of(folder: Path, content: str | bytes, name: str = "a.csv") -> DataError:
    with pytest.raises(DataError) as caught:
        rows_of(folder, content, name)
    return caught.value


def written(rows: list[tuple[str, ...]], **options: Any) -> str:
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


def with_stray_quotes(count: int, sign: str, end: str, first: int, last: int) -> tuple[str, list[tuple[str, str]]]:
    """A table in which a text begins with a quote, and a later one ends with one."""
    rows = [(f"text {number}", "pos" if number % 2 else "neg") for number in range(count)]
    rows[first] = (f'"{rows[first][0]}', rows[first][1])
    rows[last] = (f'{rows[last][0]}"', rows[last][1])
    return end.join([f"text{sign}label", *(sign.join(row) for row in rows)]) + end, rows


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("count", "first", "last"), [(5, 1, 3), (30, 4, 5), (6000, 10, 5990)])
def test_quotes_that_are_no_quotes_are_text_in_tsv(tmp_path: Path, count: int, first: int, last: int, end: str) -> None:
    content, rows = with_stray_quotes(count, "\t", end, first, last)
    for name in ("a.tsv", "a.csv"):
        found, bad = rows_of(tmp_path, content, name)
        assert found == rows
        assert bad.lines() == [
            f"{tmp_path / name}: {count + 1:,} lines, {count:,} rows, 0 skipped",
            f"{tmp_path / name}: quotes are read as characters of the texts, so that each line is a row",
        ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sign", [",", ";", "|"])
@pytest.mark.parametrize(("count", "first", "last"), [(5, 1, 3), (30, 4, 5), (6000, 10, 5990)])
def test_quotes_that_are_no_quotes_are_refused_elsewhere(
    tmp_path: Path, count: int, first: int, last: int, sign: str, end: str
) -> None:
    content, rows = with_stray_quotes(count, sign, end, first, last)
    error = error_of(tmp_path, content)
    assert error.line == first + 2
    message = str(error)
    assert f"ends on line {last + 2}: one row, or, read as text, {last - first + 1} rows" in message
    found, bad = rows_of(tmp_path, content, mode="skip")
    assert found == rows[:first] + rows[first + 1 :]
    assert bad.skipped == 1
    # The command of the message helps.
    command = message[message.index("sed " if end == "\n" else "tr ") :].partition(" > NEW")[0]
    (tmp_path / "OLD").write_text(content, newline="")
    fixed = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True).stdout
    assert rows_of(tmp_path, fixed)[0] == rows


def test_a_lone_quote_in_the_last_row(tmp_path: Path) -> None:
    table = 'text,label\na,x\n"b,y\n'
    error = error_of(tmp_path, table)
    assert error.line == 3
    assert "never closed" in str(error)
    assert rows_of(tmp_path, table.replace(",", "\t"), "a.tsv")[0] == [("a", "x"), ('"b', "y")]


def test_a_pipe_is_read_once_and_its_head_shows_that_quotes_are_text(tmp_path: Path) -> None:
    content, rows = with_stray_quotes(3000, "\t", "\n", 4, 9)
    path = tmp_path / "a.tsv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[content])
    writer.start()
    assert [tuple(row.values.values()) for row in read_rows(path, on_bad_row=OnBadRow())] == rows
    writer.join()


REVIEWS = [
    ("Great, really\nBad", "pos"), ("Dear Sir,\n\nI saw it", "neg"), ("one\n\n\ntwo, three, four\n", "pos"),
    ('she said: "no", and\nleft', "neg"), ("\n", "pos"), ("a, b\nc, d\ne, f\ng, h\ni, j", "neg"), (' "x" ', "pos"),
]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_fields_of_several_lines_stay_right(
    tmp_path: Path, sign: str, end: str, order: tuple[int, int], quoting: Any
) -> None:
    rows = [tuple(row[i] for i in order) for row in [("text", "label"), *REVIEWS, *REVIEWS]]
    content = written(rows, delimiter=sign, lineterminator=end, quoting=quoting)
    found, bad = rows_of(tmp_path, content, "a.tsv" if sign == "\t" else "a.csv")
    assert found == rows[1:]
    assert f"{content.count(chr(10))} lines, {2 * len(REVIEWS)} rows, 0 skipped" in bad.lines()[0]


@pytest.mark.parametrize("last", ["", " x", "pos"])
def test_rows_that_end_like_prose_or_have_a_new_label_are_not_lost(tmp_path: Path, last: str) -> None:
    rows = ["text,label", *(f"t {i},{last if last != 'pos' else 'neg'}" for i in range(30)), f'"a,{last}', f'b",{last}']
    error = error_of(tmp_path, "\n".join(rows) + "\n")
    assert error.line == 32
    assert "one row, or, read as text, 2 rows" in str(error)


@pytest.mark.parametrize(
    "again",
    [
        "text,label",
        " TEXT , Label",
        '"text","label"',
        "label,text",
        "\ufefftext,label",
        '\ufeff"text","label"',
        "sep=,",
    ],
)
def test_a_repeated_header_is_a_bad_row(tmp_path: Path, again: str) -> None:
    content = f"sep=,\ntext,label\na,x\n{again}\nb,y\n"
    error = error_of(tmp_path, content)
    assert error.line == 4
    if "sep=" not in again:
        assert f"repeats the header; write files one after another: {JOIN}" in str(error)
    assert rows_of(tmp_path, content, mode="skip")[0] == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(
    "joined", ["b,ytext,label", 'b,y"text","label"', '"b","y""text","label"', "b,y\ufefftext,label"]
)
def test_a_header_without_a_line_end_before_it(tmp_path: Path, joined: str) -> None:
    header = '"text","label"' if joined.endswith('"') else "text,label"
    error = error_of(tmp_path, f"{header}\na,x\n{joined}\nc,z\n")
    assert error.line == 3
    assert (
        f"the header of another file begins here without a line end before it; write files one after another: {JOIN}"
        in str(error)
    )


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (",text,label\n0,a,x\n1,b,y\n", [("a", "x"), ("b", "y")]),
        (",,text,label,\n0,0,a,x,\n", [("a", "x")]),
        ('"",text,label," "\n0,a,x,\n', [("a", "x")]),
        (",text,label\n0,a,x\n,text,label\n", [("a", "x")]),
    ],
)
def test_columns_without_a_name_are_ignored(tmp_path: Path, content: str, rows: list[tuple[str, ...]]) -> None:
    assert rows_of(tmp_path, content, mode="skip")[0] == rows


@pytest.mark.parametrize("mark", ["sep=;", '"sep=;"', "SEP=;", "\ufeffsep=;", "\nsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_of_excel_sets_the_delimiter(tmp_path: Path, mark: str, end: str) -> None:
    content = f"{mark}\ntext, label;label\na, b;x\n".replace("\n", end)
    assert rows_of(tmp_path, content)[0] == [("a, b", "x")]
    assert rows_of(tmp_path, content.encode("utf-16"))[0] == [("a, b", "x")]
    assert rows_of(tmp_path, content.replace(";", ":"))[0] == [("a, b", "x")]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("text,pros;cons\na;b,x\nc,y;z\nd,t;\n", [("a;b", "x"), ("c", "y;z"), ("d", "t;")]),
        ("text, or so;label\na, b;x\nc;y\nd, e, f;x\n", [("a, b", "x"), ("c", "y"), ("d, e, f", "x")]),
        ("text\tlabel\na, b; c\tx\n", [("a, b; c", "x")]),
        ("a,b|text|label\n1|x, y, z|p\n2|x|n\n", [("1", "x, y, z", "p"), ("2", "x", "n")]),
        ('"text, long"|label\n"a|b"|x\n', [("a|b", "x")]),
        ("text^label\na^x\n", [("a", "x")]),
        ("text~label\na, b~x\n", [("a, b", "x")]),
        ("text\x01label\na, b\x01x\n", [("a, b", "x")]),
        ("text;label\na, b;x\n", [("a, b", "x")]),
        ("text,label\ngood; fine,x\n", [("good; fine", "x")]),
        ("text label\na b\n", [("a b",)]),
    ],
)
def test_the_first_rows_tell_the_delimiter(tmp_path: Path, content: str, rows: list[tuple[str, ...]]) -> None:
    for name in ("a.csv", "a.tsv"):
        found, bad = rows_of(tmp_path, content, name)
        assert found == rows
        signs = {"|": "'|'", "^": "'^'", "~": "'~'", "\x01": "Ctrl-A", ";": "';'"}
        told = [line for line in bad.lines() if "separates the fields" in line]
        if name == "a.csv":
            sign = next((sign for sign in "|^~\x01" if sign in content), "")
            assert [line.partition(": ")[2] for line in told] == (
                [f"{signs[sign]} separates the fields"] if sign else []
            )


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('text,label\n"he said \\"hi\\" you",x\n"b, c",y\n"C:\\dir \\"x\\"",y\n',
         [('he said "hi" you', "x"), ("b, c", "y"), ('C:\\dir "x"', "y")]),
        ('text,label\nsay \\"hi\\",x\n"a\\\\b",y\n', [('say "hi"', "x"), ("a\\b", "y")]),
        ('text,label\n"C:\\dir\\",x\na,y\n', [("C:\\dir\\", "x"), ("a", "y")]),
        ('text,label\n"he wrote \\""x\\""",x\n', [('he wrote \\"x\\"', "x")]),
        ("'text','label'\n'Good, really','x'\n'it''s','y'\n", [("Good, really", "x"), ("it's", "y")]),
        ("text,label\n'Good, really',x\nfine,y\n", [("Good, really", "x"), ("fine", "y")]),
        ("id,text\n1,'it\\'s, no'\n2,'b'\n", [("1", "it's, no"), ("2", "b")]),
        ("text,label\n'twas good,x\nit's,y\n'a' b,y\n", [("'twas good", "x"), ("it's", "y"), ("'a' b", "y")]),
        ('text,label\na "b" c,x\n"x ""y"" z",y\n', [('a "b" c', "x"), ('x "y" z', "y")]),
    ],
)  # fmt: skip
def test_quotes_inside_quotes(tmp_path: Path, content: str, rows: list[tuple[str, ...]]) -> None:
    assert rows_of(tmp_path, content)[0] == rows


def test_what_python_writes_with_a_backslash_is_read(tmp_path: Path) -> None:
    rows = [
        ("text", "label"),
        ('say "hi", you', "x"),
        ("C:\\new\\dir", "y"),
        ('"', "x"),
        ('\\"', "y"),
        ('a\nb "c"', "x"),
    ]
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        content = written(rows, escapechar="\\", doublequote=False, quoting=quoting)
        found, bad = rows_of(tmp_path, content)
        assert found == rows[1:]
        assert bad.notes == [f'{tmp_path / "a.csv"}: \\" is read as a quote, and \\\\ as a backslash']


def test_a_late_backslash_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path, "text,label\n" + "a,x\n" * 300 + '"say \\"hi\\" to",x\n')
    assert error.line == 302
    assert 'sed \'s/\\\\"/""/g\' OLD > NEW' in str(error)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("export.csv", '#TYPE System.Object\n"text","label"\n"a b","pos"\n"c d","neg"\n'),
        ("remarks.csv", "# exported\n# by hand\ntext,label\na b,pos\nc d,neg\n"),
        ("spaced.csv", 'text,label\n"a b", "pos"\n"c d", "neg"\n'),
        ("spaced_header.csv", '"text", "label"\n"a b", "pos"\n"c d", "neg"\n'),
        ("r.tsv", '"text"\t"label"\n"1"\t"a b"\t"pos"\n"2"\t"c d"\t"neg"\n'),
        ("r_blanks.csv", '"text" "label"\n"1" "a b" "pos"\n"2" "c d" "neg"\n'),
        ("trailing.csv", "text,label\na b,pos,\nc d,neg,\n"),
        ("lists.json", '{"text": ["a b", "c d"], "label": ["pos", "neg"]}'),
        (
            "rows.json",
            '{"rows": [{"row_idx": 0, "row": {"a": "a b", "b": "pos"}}, {"row": {"a": "c d", "b": "neg"}}]}',
        ),
    ],
)
def test_what_stands_around_the_rows_is_no_row(tmp_path: Path, name: str, content: str) -> None:
    assert rows_of(tmp_path, content, name)[0] == [("a b", "pos"), ("c d", "neg")]


def test_a_line_of_dashes_below_the_header_is_no_row(tmp_path: Path) -> None:
    rows, bad = rows_of(tmp_path, "| text | label |\n|------|:-----:|\n| a b | pos |\n| c d | neg |\n")
    assert rows == [(" a b ", " pos "), (" c d ", " neg ")]
    assert any("dashes" in line for line in bad.lines())
    assert len(rows_of(tmp_path, "text|label\na|b\n---|---\n")[0]) == 2  # elsewhere, dashes are values


def test_a_missing_value_of_a_database_is_missing(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "text\tlabel\na b\t\\N\nc d\tneg\n", "a.tsv")[0] == [("a b", None), ("c d", "neg")]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("id,text,label\n1,a,pos\nid,sentence,label\n", 3, JOIN),
        ("text,label\na,pos\nid,text,label\n", 3, JOIN),
        ("text::label\na::pos\n", 1, "'::' separates the fields"),
        ('"text,label"\n"a b,pos"\n', 1, "quoted as a whole"),
        ("text,label\na\\, b,pos\n", 2, "a backslash before ',' is read as a backslash"),
    ],
)
def test_what_is_in_the_way_is_named(tmp_path: Path, content: str, line: int, message: str) -> None:
    error = error_of(tmp_path, content)
    assert error.line == line
    assert message in str(error)


def test_rows_with_one_field_more_are_no_rows_with_names(tmp_path: Path) -> None:
    assert "3 fields, but the header has 2" in str(error_of(tmp_path, "text,label\na, b,pos\nc, d,neg\n"))


def test_columns_named_like_their_values_repeat_no_header(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "text,0,1\na b,0,1\nc d,1,0\n")[0] == [("a b", "0", "1"), ("c d", "1", "0")]
