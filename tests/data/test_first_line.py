"""Files whose first line is a row, in the layouts of well-known data sets; and headers that look like rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from mixling.cli import main
from mixling.data import OnBadRow, guess_columns, read_rows

WORDS = ("quiet", "river", "film", "long", "rather", "good", "sister", "left", "early", "because", "rain", "my", "of")


def text(number: int) -> str:
    words = " ".join(WORDS[(number * step + 3) % len(WORDS)] for step in range(1, 8))
    return (
        f"{words}{', well' if number % 3 else ''}, said I in take {number}!" if number % 4 else f"{words} no {number}?"
    )


def table(rows: list[list[Any]], delimiter: str = ",", *, quoted: bool = False) -> str:
    file = io.StringIO()
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
    return file.getvalue()


N = range(60)
TWEETS = [["0" if n < 30 else "4", 1467810369 + 37 * n, f"Mon Apr 06 22:19:{n} PDT 2009", "NO_QUERY", f"u{n}", text(n)]
          for n in N]  # fmt: skip
ROWS = [(text(n), ["positive", "negative"][n % 2]) for n in N]
LAYOUTS = {  # the content, the columns of text and label; several: the rows do not say which
    "class, title, description": (
        "a.csv", table([[n % 4 + 1, f"{text(n)[:9]} {n}", text(n)] for n in N], quoted=True), "3", "1",
    ),
    "sorted by label": ("a.csv", table(TWEETS, quoted=True), "6", "1"),
    "source, label, mark, sentence": (
        "a.tsv", "".join(f"{['gj04', 'bc01'][n // 30]}\t{n % 2}\t{'*' * (n % 2)}\t{text(n)}\n" for n in N), "4", "12",
    ),
    "stars, text": ("a.csv", table([[n % 5 + 1, text(n)] for n in N], quoted=True), "2", "1"),
    "label, text": ("a.csv", table([[label, value] for value, label in ROWS]), "2", "1"),
    "text; label": ("a.csv", table([[*row] for row in ROWS], ";"), "1", "2"),
    "text|label": ("a.csv", table([[*row] for row in ROWS], "|"), "1", "2"),
    "text and 0 or 1 in a .txt": ("a.txt", "".join(f"{text(n)}\t{n % 2}\n" for n in N), "1", "2"),
    "no extension": ("SMSSpam", "".join(f"{['ham', 'spam'][n % 2]}\t{text(n)}\n" for n in N), "2", "1"),
    "another extension": ("a.data", "".join(f"{9000 + n}\t{'ab'[n % 2]}\t{text(n)}\n" for n in N), "3", "2"),
    "long texts": ("a.csv", table([[n % 2, text(n) * 40] for n in N], quoted=True), "2", "1"),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_are_numbered_and_no_row_is_lost(layout: str, tmp_path: Path) -> None:
    name, content, of_text, of_label = LAYOUTS[layout]
    path = tmp_path / name
    path.write_text(content)
    said = OnBadRow("error")
    rows = list(read_rows(path, on_bad_row=said))
    assert len(rows) == len(N)
    assert (rows[0].line, [*rows[0].values][:2]) == (1, ["1", "2"])
    assert rows[7].values[of_text] == (text(7) * 40 if layout == "long texts" else text(7))
    assert any("the first line is a row" in note for note in said.notes)
    guess = guess_columns(str(path))
    assert guess is not None
    assert [column.name for column in guess.text] == [of_text]
    assert "".join(column.name for column in guess.label) == of_label
    assert guess.has_header


HEADERS = {
    "known names": [["text", "1"], *([text(n), n % 2] for n in N)],
    "numbers of pandas": [["0", "1"], *([text(n), n % 2] for n in N)],
    "numbers of pandas beside its index": [["", "0", "1"], *([n, text(n), n % 2] for n in N)],
    "questions of a form": [["How satisfied are you with us?", "What could we do better, in your own words?"],
                            *([["good", "bad"][n % 2], text(n)] for n in N)],
    "years": [["bemerkung", "2019", "2020", "art"], *([text(n), 3, 4, "ab"[n % 2]] for n in N)],
    "a date": [["Zeitpunkt der Meldung", "Was ist passiert?"], *([f"2024-01-{n % 28 + 1:02}", text(n)] for n in N)],
    "a label as name": [["msg", "spam"], *([text(n), ["spam", "ham"][n % 2]] for n in N)],
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_stays_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(table(HEADERS[name]))
    rows = list(read_rows(tmp_path / "a.csv", on_bad_row=OnBadRow("error")))
    assert len(rows) == len(N)
    assert [*rows[0].values] == [one for one in HEADERS[name][0] if one]


def refusal(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.argv", ["mixling", str(path)])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", table(HEADERS["a label as name"]), "--text msg --label spam"),
        ("a.csv", table(HEADERS["a label as name"]), "(printf 'text,label\\n'; cat "),
        ("a.txt", "".join(f"{n % 2} {text(n)}\n" for n in N), "sed 's/  */\\t/' "),
        ("a.csv", "".join(f"{text(n).replace(',', '')}\n" for n in N), "has one column"),
        ("a.tsv", "".join(f"{n % 3}\t{text(n)}\t{text(n + 1)}\n" for n in N), "--text 2 --text 3"),
        ("a.tsv", LAYOUTS["source, label, mark, sentence"][1], "'1' (2 different values: gj04, bc01)"),
    ],
)
def test_what_the_first_line_does_not_say_is_asked(
    name: str,
    content: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_text(content)
    assert message in refusal(tmp_path / name, capsys, monkeypatch)


def test_rows_of_a_sorted_file_are_looked_at_everywhere(tmp_path: Path) -> None:
    rows = [["bericht", "urteil"], *([text(n), "gut" if n < 3000 else "schlecht"] for n in range(5000))]
    (tmp_path / "a.csv").write_text(table(rows))
    guess = guess_columns(str(tmp_path / "a.csv"))
    assert guess is not None
    assert [(column.name, column.values) for column in guess.label] == [("urteil", 2)]
    assert guess.rows == 1000
