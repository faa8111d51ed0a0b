"""SentencePiece's files: small ones are written here by the published message fields, a large one is T5's."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mixling import ModelFileError, UserError, Vocabulary
from mixling.text.sentencepiece import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    message_type,
    read_sentencepiece,
)

SCORES = {"▁": -3.0, "a": -2.0, "b": -2.5, "c": -4.0, "ab": -3.1, "▁a": -2.9, "▁ab": -6.0, "bc": -5.9, "▁b": -3.3}

Piece = tuple[str, float, int]
START: list[Piece] = [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)]
BYTES: list[Piece] = [(f"<0x{number:02X}>", 0.0, BYTE) for number in range(256)]


def model(pieces: Sequence[Piece] = (), kind: int = UNIGRAM, **rules: Any) -> bytes:
    message = message_type()()
    for piece, score, what in [*START, *((piece, score, NORMAL) for piece, score in SCORES.items()), *pieces]:
        message.pieces.add(piece=piece.encode(), score=score, type=what)
    message.trainer_spec.model_type = kind
    for name, value in rules.items():
        setattr(message.normalizer_spec, name, value)
    return message.SerializeToString()


def tokens(data: bytes, text: str) -> list[str]:
    return read_sentencepiece(data, "x.model").encode(text).tokens


def splittings(text: str) -> list[list[str]]:
    cuts = range(1, len(text))
    chosen = (cut for size in range(len(text)) for cut in itertools.combinations(cuts, size))
    return [[text[i:j] for i, j in itertools.pairwise([0, *cut, len(text)])] for cut in chosen]


WORDS = ["".join(word) for size in range(1, 5) for word in itertools.product("abc", repeat=size)]


@pytest.mark.parametrize("prefix", [True, False])
def test_unigram_finds_the_splitting_with_the_highest_sum_of_scores(prefix: bool) -> None:
    tokenizer = read_sentencepiece(model(add_dummy_prefix=prefix), "x.model")
    for word in WORDS:
        spelled = [s for s in splittings("▁" * prefix + word) if all(piece in SCORES for piece in s)]
        sums = sorted((sum(SCORES[piece] for piece in s) for s in spelled), reverse=True)
        found = tokenizer.encode(word).tokens
        assert "".join(found) == "▁" * prefix + word
        assert sum(SCORES[piece] for piece in found) == pytest.approx(sums[0])


def test_bpe_merges_the_best_pair_first() -> None:
    tokenizer = read_sentencepiece(model(kind=BPE), "x.model")
    for word in WORDS:
        expected = list("▁" + word)
        while True:
            pairs = [(SCORES.get(a + b, -99), -i) for i, (a, b) in enumerate(itertools.pairwise(expected))]
            score, place = max(pairs, default=(-99, 0))
            if score == -99:
                break
            expected[-place : 2 - place] = ["".join(expected[-place : 2 - place])]
        assert tokenizer.encode(word).tokens == expected, word


def test_spaces_are_collapsed_and_the_mark_is_one() -> None:
    assert tokens(model(), "  a  b▁ ") == ["▁a", "▁b"]
    assert tokens(model(), "   ") == []
    kept = model(remove_extra_whitespaces=False)
    assert tokens(kept, " a ") == ["▁", "▁a", "▁"]
    for text in ("a b", " a  b "):
        tokenizer = read_sentencepiece(kept, "x.model")
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_pieces_go_on_over_spaces_where_the_file_has_such() -> None:
    assert tokens(model([("a▁b", -1.0, NORMAL)]), "a b") == ["▁", "a▁b"]


@pytest.mark.parametrize("kind", [UNIGRAM, BPE])
def test_what_has_no_piece_is_one_unknown_piece_or_its_bytes(kind: int) -> None:
    tokenizer = read_sentencepiece(model(kind=kind), "x.model")
    assert tokenizer.encode("aéßb").ids == [
        START.index(START[2]) if p == "?" else 3 + list(SCORES).index(p) for p in ["▁a", "?", "b"]
    ]
    tokenizer = read_sentencepiece(model(BYTES, kind), "x.model")
    assert tokenizer.encode("aéb").tokens == ["▁a", "<0xC3>", "<0xA9>", "b"]
    assert tokenizer.decode(tokenizer.encode("aéb 京").ids) == "aéb 京"


def test_user_defined_pieces_win_and_unused_ones_never() -> None:
    assert tokens(model([("ca", -99.0, USER_DEFINED)]), "aca") == ["▁a", "ca"]
    assert tokens(model([("abc", 5.0, UNUSED)]), "abc") == tokens(model(), "abc")
    assert tokens(model([("<b>", 0.0, USER_DEFINED)], BPE, add_dummy_prefix=False), "a<b>b") == ["a", "<b>", "b"]


def test_a_model_is_a_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(model())
    for source in (tmp_path, tmp_path / "spiece.model"):
        vocabulary = Vocabulary.load(str(source))
        assert vocabulary.subwords(["ab", "", "xb"]) == [["▁a", "b"], [""], ["▁", "x", "b"]]
        assert [vocabulary.subword_id(subword) for subword in ("▁", "</s>", "x")] == [3, 1, 2]
    again = Vocabulary.parse(*vocabulary.serialize())
    assert again.serialize() == vocabulary.serialize()
    assert again.subwords(WORDS) == vocabulary.subwords(WORDS)


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"", "has no pieces"),
        (b"[UNK]\na\n", "is not a SentencePiece model"),
        (model()[:-3], "is not a SentencePiece model"),
        (model([("a", -1.0, NORMAL)]), "piece 12 is a duplicate: 'a'"),
        (model([("", 0.0, NORMAL)]), "piece 12 is empty"),
        (model([("q", 0.0, 9)]), "piece 12, 'q', is of type 9; allowed: 1 to 6"),
        (model([("q", float("nan"), NORMAL)]), "has the score nan"),
        (model([("q", 0.0, UNKNOWN)]), "has 2 unknown pieces"),
        (model().replace(b"bc", b"\xff\xfe"), "piece 10 is not UTF-8"),
        (model(kind=3), "the model type is word; allowed: unigram, BPE"),
        (model(escape_whitespaces=False), "marks spaces after words or not at all"),
        (model(precompiled_charsmap=b"abc"), "the character replacement table is damaged"),
        (model(precompiled_charsmap=b"\xff\xff\xff\x7fabcd"), "the character replacement table is damaged"),
        (model([("<b>", 0.0, USER_DEFINED)], BPE), "user-defined pieces ('<b>')"),
    ],
)
def test_what_is_no_model_is_refused(data: bytes, reported: str, tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        Vocabulary.load(str(tmp_path / "x.model"))
    assert str(caught.value).startswith(f"{tmp_path / 'x.model'}: ")
    assert reported in str(caught.value)


def test_a_model_cut_short_anywhere_is_refused_or_still_one() -> None:
    data = model()
    for end in range(len(data)):
        with contextlib.suppress(ModelFileError):  # at the end of a piece it is a model of fewer
            assert read_sentencepiece(data[:end], "x.model").encode("ab").tokens


# Numbers by sentencepiece 0.2.3 with T5's file: SentencePieceProcessor(model_file=...).encode(text).
T5_IDS = {
    "Studies have shown that owning a dog is good for you": [
        6536, 43, 2008, 24, 293, 53, 3, 9, 1782, 19, 207, 21, 25
    ],
    "Das Haus ist wunderbar.": [644, 4598, 229, 19250, 5],
    "  The  quick\tbrown fox, ﬁnally!  ": [37, 1704, 4216, 3, 20400, 6, 2031, 55],
    "Über 1,000 unaffable Mäuse…": [3333, 11668, 73, 4127, 179, 23475, 1074, 233],
    "": [],
}  # fmt: skip


def test_t5s_file_gives_the_numbers_of_sentencepiece(shared_data: Path) -> None:
    vocabulary = Vocabulary.load(str(shared_data / "vocab" / "t5-sentencepiece.model"))
    assert len(vocabulary) == 32_000
    for text, ids in T5_IDS.items():
        assert vocabulary.tokenizer.encode(text).ids == ids
    again = Vocabulary.parse(*vocabulary.serialize())
    assert [again.tokenizer.encode(text).ids for text in T5_IDS] == list(T5_IDS.values())
    assert vocabulary.subwords(["wunderbar", "京"]) == [["▁wunderbar"], ["▁", "京"]]
    assert vocabulary.subword_id("京") == 2


def test_without_protobuf_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocabulary.model"
    path.write_bytes(model())
    monkeypatch.delitem(sys.modules, "mixling.text.sentencepiece")
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(UserError, match=r"other than WordPiece's vocab\.txt need an extra: pip install .*\[subwords\]"):
        Vocabulary.load(str(path))
