"""Which columns of CoNLL files are read: numbers are skipped, tags found, and other columns can be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixling import DataError, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, read_rows
from mixling.tasks import Tagging

COUNTED = "counts the tokens of each sentence and is not read"


def rows_of(path: Path, content: str) -> tuple[list[tuple[list[str], list[str] | None]], list[str]]:
    """Return the tokens and slots of each sentence, and what is noted."""
    path.write_text(content)
    bad = OnBadRow()
    found = [(row.values["tokens"], row.values.get("slots")) for row in read_rows(path, on_bad_row=bad)]
    return found, [line.removeprefix(f"{path}: ") for line in bad.notes]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("continued", [False, True])
def test_a_column_that_counts_is_skipped(tmp_path: Path, first: int, continued: bool) -> None:
    second = first + 3 if continued else first
    content = f"{first} Mia B-PER\n{first + 1} 7 O\n{first + 2} . O\n\n{second} Rome B-LOC\n"
    found, notes = rows_of(tmp_path / "a.conll", content)
    assert found == [(["Mia", "7", "."], ["B-PER", "O", "O"]), (["Rome"], ["B-LOC"])]
    assert notes == [f"column 1 {COUNTED}"]


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("1 O\n2 O\n3 B-N\n\n1 O\n", [["1", "2", "3"], ["1"]]),  # tokens that count, and their tags
        ("1 CD O\n2 CD B-N\n\n7 CD O\n", [["1", "2"], ["7"]]),
        ("1 NN O\n\n1 NN O\n", [["1"], ["1"]]),
        ("12\n13\n", [["12", "13"]]),
    ],
)
def test_integers_that_are_data_stay(tmp_path: Path, content: str, tokens: list[list[str]]) -> None:
    found, notes = rows_of(tmp_path / "a.conll", content)
    assert [words for words, _ in found] == tokens
    assert notes == []


def test_ranges_and_empty_nodes_of_conllu_are_no_tokens(tmp_path: Path) -> None:
    content = "# text = zum Haus\n1-2\tzum\t_\t_\n1\tzu\tADP\tO\n2\tdem\tDET\tO\n2.1\tist\tV\t_\n3\tHaus\tN\tB-X\n"
    found, notes = rows_of(tmp_path / "a.conllu", content)
    assert found == [(["zu", "dem", "Haus"], ["O", "O", "B-X"])]
    assert notes == [f"column 1 {COUNTED}"]


GERMEVAL = (
    "#\thttp://de.wikipedia.org/wiki/Berlin [2009-10-17]\n1\tIn\tO\tO\n2\tBerlin\tB-LOC\tO\n3\tAG\tI-LOC\tB-ORG\n\n"
)


def test_the_outer_tags_are_read_and_the_inner_ones_named(tmp_path: Path) -> None:
    found, notes = rows_of(tmp_path / "a.conll", GERMEVAL)
    assert found == [(["In", "Berlin", "AG"], ["O", "B-LOC", "I-LOC"])]
    nested = "column 4 is for spans inside of them, and is read with --set data.columns.slots=4"
    assert notes[1] == f"column 3 is read as the tags; {nested}"
    found, notes = rows_of(tmp_path / "b.conll", "a B-x O\nb I-x B-x\nc B-y O\n")  # without numbers, by the types
    assert found[0][1] == ["B-x", "I-x", "B-y"]
    assert "--set data.columns.slots=3" in notes[0]


@pytest.mark.parametrize(
    ("content", "slots", "notes"),
    [
        ("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nx V B-VP O\nat IN O O\n", ["B-ORG", "O", "O"],
         ["column 4 is read as the tags; column 3 has tags, too: --set data.columns.slots=3"]),
        ("EU -X- _ B-ORG\nx -X- _ O\n", ["B-ORG", "O"], []),
        ("# id 1\n1\tMia\tB-PER\t-\tann\n2\tx\tO\t-\tann\n", ["B-PER", "O"],
         [f"column 1 {COUNTED}", "column 3 is read as the tags"]),
        ("EU NNP\nx V\n", ["NNP", "V"], []),
        ("d 0 0 EU NNP (ORG)\nd 0 1 x V *\n\ne 1 0 EU NNP (ORG)\ne 1 1 y V *\n", ["(ORG)", "*"],
         ["the first 2 columns have one value in each sentence, and are not read", f"column 3 {COUNTED}"]),
        ("d EU B-ORG\nd x O\n\ne EU B-ORG\ne y O\n", ["B-ORG", "O"],
         ["column 1 has one value in each sentence, and is not read"]),
    ],
)  # fmt: skip
def test_which_column_has_the_tags(tmp_path: Path, content: str, slots: list[str], notes: list[str]) -> None:
    assert (lambda found, said: (found[0][1], said))(*rows_of(tmp_path / "a.conll", content)) == (slots, notes)


def test_columns_can_be_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(GERMEVAL)

    def read(**columns: str) -> list[Example]:
        kind = ColumnsConfig(**columns)
        return list(read_examples([path], reader=Tagging.reader, columns=kind, on_bad_row=OnBadRow()))

    assert read(tokens="2", slots="4")[0].target == ("O", "O", "B-ORG")
    assert read(slots="4")[0].text == ["In", "Berlin", "AG"]
    with pytest.raises(
        DataError, match=r"no column '5'; allowed: tokens, slots, 1, 2, 3, 4; .*data.columns.slots=COLUMN"
    ):
        read(slots="5")


def test_a_sentence_that_is_not_counted_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("1 a O\n2 b O\n\n" * 200 + "1 a O\n3 b O\n\n1 c O\n")
    with pytest.raises(DataError, match=r"a\.conll:601: the first column does not count the tokens of this sentence"):
        list(read_rows(path, on_bad_row=OnBadRow()))
    assert len(list(read_rows(path, on_bad_row=OnBadRow("skip")))) == 201
