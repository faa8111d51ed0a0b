"""Tags of every scheme and notation become the IOB2 of the same spans; what is impossible is told with its word."""

from __future__ import annotations

import csv
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling import ConfigError, DataError, Example, TokenClassifier, read_examples
from mixling.data import ColumnsConfig, OnBadRow, read_rows, tagged_rows
from mixling.data.tag_schemes import recognize
from mixling.tasks import Tagging

Spans = list[tuple[int, int, str]]  # first word, word after the last, type


def written(spans: Spans, size: int, marks: Callable[[int, bool], str]) -> list[str]:
    """Write spans as tags; `marks` gives the marks of a span's words, and knows whether it touches one of its type."""
    tags = ["O"] * size
    for number, (first, end, kind) in enumerate(spans):
        touches = number > 0 and spans[number - 1][1:] == (first, kind)
        for index, mark in zip(range(first, end), marks(end - first, touches), strict=True):
            tags[index] = f"{mark}-{kind}"
    return tags


def ioe1(sentence: Spans, size: int) -> list[str]:
    tags = written(sentence, size, lambda n, _: "I" * n)
    for (_, end, kind), following in itertools.pairwise(sentence):
        if following[0] == end and following[2] == kind:
            tags[end - 1] = f"E-{kind}"
    return tags


def closed(begin: str, inside: str, end: str, single: str) -> Callable[[Spans, int], list[str]]:
    return lambda spans, size: written(spans, size, lambda n, _: single if n == 1 else begin + inside * (n - 2) + end)


WRITERS: dict[str, Callable[[Spans, int], list[str]]] = {
    "iob2": lambda spans, size: written(spans, size, lambda n, _: "B" + "I" * (n - 1)),
    "iob1": lambda spans, size: written(spans, size, lambda n, touches: "IB"[touches] + "I" * (n - 1)),
    "bioes": closed("B", "I", "E", "S"),
    "bilou": closed("B", "I", "L", "U"),
    "bmes": closed("B", "M", "E", "S"),
    "bmewo": closed("B", "M", "E", "W"),
    "ioe2": lambda spans, size: written(spans, size, lambda n, _: "I" * (n - 1) + "E"),
    "ioe1": ioe1,
}
NOTATIONS: dict[str, Callable[[str], str]] = {
    "B-PER": lambda tag: tag,
    "B_PER": lambda tag: tag.replace("-", "_", 1),
    "B/PER": lambda tag: tag.replace("-", "/", 1),
    "PER-B": lambda tag: tag if tag == "O" else f"{tag[2:]}-{tag[0]}",
    "per_b": lambda tag: tag.lower() if tag == "O" else f"{tag[2:]}_{tag[0].lower()}",
    "b-PER": lambda tag: tag[0].lower() + tag[1:],
}


def sentences(seed: int) -> list[tuple[Spans, int]]:
    """Random spans of up to four words, some of which touch."""
    draw = random.Random(seed)
    out = []
    for _ in range(30):
        spans: Spans = []
        at = 0
        while at < 12:
            at += draw.choice((0, 0, 1, 3))
            end = at + draw.randint(1, 4)
            spans.append((at, end, draw.choice(("PER", "LOC", "Org-X"))))
            at = end
        out.append((spans, at + draw.randint(0, 2)))
    return out


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("scheme", WRITERS)
def test_every_scheme_in_every_notation_gives_the_same_spans(scheme: str, notation: str) -> None:
    wanted = [WRITERS["iob2"](*item) for item in sentences(7)]
    tags = [[NOTATIONS[notation](tag) for tag in WRITERS[scheme](*item)] for item in sentences(7)]
    found = recognize(tags)
    assert [found.convert(item) for item in tags] == wanted
    assert found.failures == 0
    assert bool(found.remark) == ((scheme, notation) != ("iob2", "B-PER"))


@pytest.mark.parametrize(
    ("tags", "wanted", "says"),
    [
        ("I-a I-a O I-b", "B-a I-a O B-b", "IO: neighbors of one type are one span"),
        ("O per per loc o", "O B-per I-per B-loc O", "types without marks (IO)"),
        ("B I O B B", "B-span I-span O B-span B-span", "no type and are called span"),
        ("(PER* * *) * (LOC) (X* *)", "B-PER I-PER I-PER O B-LOC B-X I-X", "in brackets"),
        ("B-B I-B O", "B-B I-B O", ""),
        ("B-LOC-B O", "B-LOC-B O", ""),
    ],
)
def test_notations_without_a_mark_or_a_type(tags: str, wanted: str, says: str) -> None:
    found = recognize([tags.split()])
    assert found.convert(tags.split()) == wanted.split()
    assert says in found.remark
    assert bool(says) == bool(found.remark)


def test_types_alone_are_recognized_by_an_o_anywhere_in_the_file() -> None:
    found = recognize([["per", "per"], ["O"]])
    assert found.convert(["per", "per"]) == ["B-per", "I-per"]
    assert recognize([["NN", "VB"]]).failures == 1  # parts of speech


BIOES = [(["Mia", "Vik", "flew"], "B-PER E-PER O"), (["Rome", "is", "it"], "S-LOC O O"), (["a"], "O")]
AS_IOB2 = [("B-PER", "I-PER", "O"), ("B-LOC", "O", "O"), ("O",)]


def write(folder: Path, form: str) -> Path:
    path = folder / f"a.{form}"
    rows = [{"tokens": words, "slots": tags.split()} for words, tags in BIOES]
    if form == "conll":
        path.write_text(
            "\n".join("".join(f"{w} {t}\n" for w, t in zip(words, tags.split(), strict=True)) for words, tags in BIOES)
        )
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["tokens", "slots"], *((" ".join(words), tags) for words, tags in BIOES)])
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def read(path: Path, *, mode: str = "error", **columns: str) -> tuple[list[Example], OnBadRow]:
    bad = OnBadRow(mode)  # type: ignore[arg-type]
    found = read_examples([path], reader=Tagging.reader, columns=ColumnsConfig(**columns), on_bad_row=bad)
    return list(found), bad


@pytest.mark.parametrize("form", ["conll", "jsonl", "csv", "parquet"])
def test_files_of_every_format_are_converted_with_one_line(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form)
    found, bad = read(path)
    assert [example.target for example in found] == AS_IOB2
    assert bad.notes == [f"{path}: the tags are BIOES; they are converted to IOB2"]


def test_python_converts_too() -> None:
    words, tags = [list(item) for item, _ in BIOES], [tags.split() for _, tags in BIOES]
    with pytest.warns(UserWarning, match="the tags are BIOES; they are converted to IOB2"):
        assert tagged_rows(words, tags, "<fit>") == (words, AS_IOB2)
    with pytest.raises(DataError, match=r"<fit>:0: its tags are numbers .*names\[i\]"):
        TokenClassifier().fit([["a", "b"]], [[0, 1]])  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"<fit>:1: bad tag at token 2 \('d'\): 'I-y' follows 'B-x'"):
        TokenClassifier().fit([["a"], ["c", "d"]], [["B-x"], ["B-x", "I-y"]])


def test_the_scheme_is_that_of_the_file_not_of_a_row(tmp_path: Path) -> None:
    """The second sentence alone would be IOB2 with an error, and the first one IOB2."""
    path = tmp_path / "a.conll"
    path.write_text("a I-x\n\nb I-x\nc B-x\nd O\n\n" + "e I-x\nf I-y\n\n")
    assert [example.target for example in read(path)[0]] == [("B-x",), ("B-x", "B-x", "O"), ("B-x", "B-y")]
    path.write_text("a O\n\n" * 600 + "b S-x\n")
    assert read(path)[0][-1].target == ("B-x",)


def test_an_impossible_tag_is_an_error_with_file_line_and_token(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B-x\nb E-x\n\n" * 3 + "c O\nd B-y\ne O\n")
    with pytest.raises(
        DataError, match=r"a\.conll:10: .*token 3 \('e'\): 'O' follows 'B-y', but a span of y is not ended"
    ):
        read(path)
    assert len(read(path, mode="skip")[0]) == 3


def test_where_no_scheme_fits_no_advice_drops_the_sentences_with_spans(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a O\nb X-x\n\nc Y-y\n\nd O\n")
    with pytest.raises(
        DataError, match=r"a\.conll:1: .*token 2 \('b'\): got 'X-x'; .*data.columns.tags=bioes"
    ) as caught:
        read(path)
    assert "--on-bad-row" not in str(caught.value)
    path.write_text("a B-x\nb 0\n\nc B-x\nd 0\n")
    with pytest.raises(DataError, match=r"got '0'; .*; words outside of spans have O; tags of single words") as caught:
        read(path)
    assert "columns.tags" not in str(caught.value)


def test_a_scheme_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a B-x\nb I-x\n")
    assert read(path)[0][0].target == ("B-x", "I-x")
    with pytest.raises(DataError, match="the sentence ends after 'I-x', but a span of x is not ended"):
        read(path, tags="BILOU")
    with pytest.raises(ConfigError, match="tags: got 'biose2'; did you mean 'biose'"):
        read(path, tags="biose2")


def test_tags_that_are_numbers_need_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", "b"], "ner_tags": [0, 1]}\n{"tokens": ["c"], "ner_tags": [3]}\n')
    with pytest.raises(
        DataError, match=r"a\.jsonl:1: column 'ner_tags' has numbers \(0, 1\); .*data.columns.tags=O,B-x,I-x"
    ):
        read(path)
    assert [example.target for example in read(path, tags="O,B-x,I-x,B-y")[0]] == [("O", "B-x"), ("B-y",)]
    with pytest.raises(DataError, match=r"a\.jsonl:2: .*has the number 3, but data.columns.tags names 3 tags"):
        read(path, tags="O,B-x,I-x")


def test_numbers_have_the_names_that_a_parquet_file_declares(tmp_path: Path) -> None:
    """As the library datasets writes them, in the older and the newer form of lists."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = {"names": ["O", "B-x", "I-x"], "_type": "ClassLabel"}
    features = {
        "tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"},
        "ner_tags": {"feature": names, "_type": "Sequence"},
        "tags": [names],
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    }
    rows = [{"tokens": ["a", "b"], "ner_tags": [1, 2], "tags": [0, 1], "label": 1, "text": "t"}, {"label": -1}]
    table = pa.Table.from_pylist(rows)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    first, second = read_rows(tmp_path / "a.parquet", on_bad_row=OnBadRow())
    assert (first.values["ner_tags"], first.values["tags"]) == (["B-x", "I-x"], ["O", "B-x"])
    assert (first.values["label"], second.values["label"]) == ("pos", None)
    pq.write_table(table.slice(0, 1).replace_schema_metadata(metadata), tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet")[0][0].target == ("B-x", "I-x")
