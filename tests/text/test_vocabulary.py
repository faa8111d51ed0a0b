"""Subword subwords: trained the same in every process, read from public formats, written and read again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from tokenizers import Tokenizer, models

from mixling import ConfigError, ModelFileError, Vocabulary
from mixling.text.vocabulary import MAX_SUBWORDS, MIN_SUBWORDS, VocabularyKind

WORDS = ["the", "cat", "sat", "on", "mat", "the", "hat", "unhappiness", "unhappily", "happily", "größe", "हिन्दी", "京"]

TRAIN = """
import json, sys
from mixling import Vocabulary
print(json.dumps(Vocabulary.train(json.load(sys.stdin), size=150).serialize()))
"""


def many_words() -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyzäöüéñабвгд京東"
    return [
        letters[i % 7] + letters[i * 13 % 37] + letters[i * i % 31] + letters[i % 11] * (i % 3) for i in range(1, 900)
    ]


def test_two_processes_train_the_same_subwords() -> None:
    given = json.dumps(many_words())
    runs = [
        subprocess.run([sys.executable, "-c", TRAIN], input=given, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    name, content = json.loads(runs[0].stdout)
    assert name == "vocab.txt"
    assert len(content.split("\n")) - 1 == 150  # so that ties were broken, not only letters numbered
    assert (name, content) == Vocabulary.train(many_words(), size=150).serialize()


TRAIN_KINDS = """
import json, sys
from mixling import Vocabulary
words = json.load(sys.stdin)
specials = ("[SEP]", "[MASK]")
for size in (60, 120, 150, 400):
    for kind in ("unigram", "wordpiece"):
        print(json.dumps(Vocabulary.train(words, size=size, kind=kind, specials=specials).serialize()))
"""


@pytest.mark.slow
def test_two_processes_train_the_same_subwords_of_both_kinds() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", TRAIN_KINDS],
            input=json.dumps(many_words()),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": parallel},
        ).stdout
        for seed, parallel in (("1", "false"), ("2", "true"), ("3", "true"))
    ]
    assert runs[0] == runs[1] == runs[2]
    vocabulary = Vocabulary.train(many_words()[::-1], size=400, kind="unigram", specials=("[SEP]", "[MASK]"))
    assert list(vocabulary.serialize()) == json.loads(runs[0].split("\n")[-3])


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_specials_are_the_first_subwords_and_no_words(kind: VocabularyKind) -> None:
    vocabulary = Vocabulary.train(WORDS, size=60, kind=kind, specials=("[SEP]", "[MASK]"))
    assert [vocabulary.subword_id(subword) for subword in ("[UNK]", "[SEP]", "[MASK]")] == [0, 1, 2]
    again = Vocabulary.parse(*vocabulary.serialize())
    assert again.subword_id("[MASK]") == 2
    assert again.serialize() == vocabulary.serialize()
    plain = Vocabulary.train(WORDS, size=58, kind=kind)
    assert plain.subwords(WORDS) == vocabulary.subwords(WORDS)
    assert len(plain) == len(vocabulary) - 2


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
@pytest.mark.parametrize(
    ("specials", "reported"),
    [
        (("[SEP]", "[SEP]"), "'[SEP]' is listed twice"),
        (("[UNK]",), "'[UNK]' is listed twice"),
        (("mask",), "'mask' cannot be the name"),
        (("#",), "'#' cannot be the name"),
        (("##x",), "'##x' cannot be the name"),
        (("[A B]",), "'[A B]' cannot be the name"),
    ],
)
def test_specials_that_a_text_could_spell_are_refused(
    kind: VocabularyKind, specials: tuple[str, ...], reported: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Vocabulary.train(WORDS, kind=kind, specials=specials)
    assert reported in str(caught.value)


def test_unigram_subwords_spell_the_words_with_a_mark_before() -> None:
    vocabulary = Vocabulary.train(WORDS, size=60, kind="unigram")
    assert len(vocabulary) <= 60
    for word, subwords in zip(WORDS, vocabulary.subwords(WORDS), strict=True):
        assert "".join(subwords) == "▁" + word
        assert not any("▁" in subword[1:] for subword in subwords)
    assert vocabulary.subwords(["the"]) == [["▁the"]]
    assert vocabulary.subwords(["caж漢t", ""])[1] == [""]
    assert "ж漢" in vocabulary.subwords(["caж漢t"])[0]  # what cannot be spelled is one subword, the rest is split
    assert vocabulary.subword_id("ж漢") == 0


def test_a_frequent_word_is_a_subword_though_no_other_begins_with_it() -> None:
    words = ["because"] * 50 + ["x"] * 50 + [a + b + c for a in "bcaxs" for b in "eaubs" for c in "xyzes"]
    assert Vocabulary.train(words, size=40, kind="unigram").subwords(["because", "x"]) == [["▁because"], ["▁x"]]


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_no_words_train_the_specials_alone(kind: VocabularyKind) -> None:
    vocabulary = Vocabulary.train(["", ""], kind=kind, specials=("[MASK]",))
    assert len(vocabulary) == 2
    assert vocabulary.subwords(["a"]) == [["a"]] if kind == "wordpiece" else [["▁a"]]


def test_training_does_not_depend_on_the_order_of_words() -> None:
    words = many_words()
    assert Vocabulary.train(words, size=150).serialize() == Vocabulary.train(words[::-1], size=150).serialize()


def test_subwords_spell_the_words_they_were_trained_on() -> None:
    vocabulary = Vocabulary.train(WORDS)
    for word, subwords in zip(WORDS, vocabulary.subwords(WORDS), strict=True):
        assert subwords[0] + "".join(subword.removeprefix("##") for subword in subwords[1:]) == word
        assert all(subword.startswith("##") for subword in subwords[1:])
    assert vocabulary.subwords(["the"]) == [["the"]]


def test_a_frequent_pair_becomes_one_subword_before_a_rare_one() -> None:
    vocabulary = Vocabulary.train(["ab"] * 50 + ["cd"] * 2, size=8)  # [UNK] a b c d ##b ##d, and room for one
    assert vocabulary.subwords(["ab", "cd"]) == [["ab"], ["c", "##d"]]


@pytest.mark.parametrize(
    "word",
    ["zebra!", "théx", "漢", "hat漢", "x" * 2000],
)
def test_a_word_that_cannot_be_spelled_is_its_own_subword(word: str) -> None:
    assert Vocabulary.train(WORDS).subwords([word, "cat"]) == [[word], ["cat"]]


def test_the_empty_word_has_a_subword_too() -> None:
    assert Vocabulary.train(WORDS).subwords([""]) == [[""]]


def test_size_is_chosen_from_the_data_within_bounds() -> None:
    few = Vocabulary.train(f"w{i}" for i in range(50))
    assert len(few) <= MIN_SUBWORDS
    words = ["".join("abcdefghij"[int(d)] for d in str(i * 7919)) for i in range(5_000)]
    assert MIN_SUBWORDS < len(Vocabulary.train(words)) <= 2_500
    assert MAX_SUBWORDS == 8_000
    assert len(Vocabulary.train(WORDS, size=60)) == 60


def test_every_letter_has_a_subword_even_beyond_the_size() -> None:
    vocabulary = Vocabulary.train([chr(code) * 2 for code in range(0x4E00, 0x4E00 + 80)], size=100)
    assert len(vocabulary) == 161
    assert vocabulary.subwords(["\u4e00\u4e01"]) == [["\u4e00", "##\u4e01"]]


def test_no_words_train_the_unknown_subword_alone() -> None:
    assert Vocabulary.train([]).serialize() == ("vocab.txt", "[UNK]\n")


def test_vocab_txt_round_trips() -> None:
    vocabulary = Vocabulary.train(WORDS)
    name, content = vocabulary.serialize()
    again = Vocabulary.parse(name, content)
    assert again.serialize() == (name, content)
    assert again.subwords([*WORDS, "other"]) == vocabulary.subwords([*WORDS, "other"])
    assert [again.subword_id(subword) for subword in content.split("\n")[:-1]] == list(range(len(vocabulary)))
    assert again.subword_id("nothing like this") == again.subword_id("[UNK]") == 0
    assert Vocabulary.parse(name, content.rstrip("\n")).serialize() == (name, content)


def unigram() -> Tokenizer:
    return Tokenizer(models.Unigram([("<unk>", 0.0), ("ab", -1.0), ("a", -2.0), ("b", -3.0)], unk_id=0))


def test_tokenizer_json_round_trips() -> None:
    vocabulary = Vocabulary(unigram())
    name, content = vocabulary.serialize()
    assert name == "tokenizer.json"
    again = Vocabulary.parse(name, content)
    assert again.subwords(["ab", "aab", "q"]) == [["ab"], ["a", "ab"], ["q"]]
    assert again.serialize() == (name, content)
    assert again.subword_id("ab") == 1


def test_padding_and_truncation_of_a_tokenizer_do_not_reach_words() -> None:
    tokenizer = unigram()
    tokenizer.enable_padding(length=4, pad_token="[PAD]")
    tokenizer.enable_truncation(1)
    assert Vocabulary(tokenizer).subwords(["ab", "aab"]) == [["ab"], ["a", "ab"]]


def test_another_unknown_subword_is_not_taken_for_a_spelling() -> None:
    words = ["ab", "xyz", "axb"]
    bpe = Vocabulary(Tokenizer(models.BPE({"<unk>": 0, "a": 1, "b": 2}, [], unk_token="<unk>")))
    assert bpe.subwords(words) == [["a", "b"], ["xyz"], ["axb"]]
    wordpiece = Vocabulary(Tokenizer(models.WordPiece({"<unk>": 0, "a": 1, "##b": 2}, unk_token="<unk>")))
    again = Vocabulary.parse(*wordpiece.serialize())  # a vocab.txt could not say what its unknown subword is
    for vocabulary in (wordpiece, again):
        assert vocabulary.subwords(words) == [["a", "##b"], ["xyz"], ["axb"]]


def test_subword_numbers_with_gaps_survive() -> None:
    vocabulary = Vocabulary(Tokenizer(models.WordPiece({"[UNK]": 0, "a": 5, "##b": 9}, unk_token="[UNK]")))
    assert Vocabulary.parse(*vocabulary.serialize()).subword_id("##b") == vocabulary.subword_id("##b") == 9


def test_a_wordpiece_tokenizer_json_is_the_same_as_its_vocab_txt() -> None:
    ids = {"[UNK]": 0, "a": 1, "##a": 2}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    vocabulary = Vocabulary(tokenizer)
    name, content = vocabulary.serialize()
    assert (name, content) == ("vocab.txt", "[UNK]\na\n##a\n")
    long = "a" * 200
    assert vocabulary.subwords([long]) == Vocabulary.parse(name, content).subwords([long]) == [["a"] + ["##a"] * 199]


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        ("vocab.txt", "", "is empty"),
        ("vocab.txt", "[UNK]\na\nb\na\n", "the subword 'a' twice"),
        ("vocab.txt", "a\nb\n", "[UNK] is missing"),
        ("tokenizer.json", "", "is not a tokenizer"),
        ("tokenizer.json", "[1, 2", "is not a tokenizer"),
        ("tokenizer.json", '{"a": 1}', "is not a tokenizer"),
        ("tokenizer.json", Tokenizer(models.WordPiece({"a": 0}, unk_token="[UNK]")).to_str(), "[UNK] is missing"),
    ],
)
def test_what_is_no_vocabulary_is_refused(name: str, content: str, reported: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        Vocabulary.parse(name, content)
    assert str(caught.value).startswith(f"{name}: ")
    assert reported in str(caught.value)


def test_load_reads_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\r\na\r\n##b\r\n")
    assert Vocabulary.load(str(tmp_path)).subwords(["ab"]) == [["a", "##b"]]
    assert Vocabulary.load(str(tmp_path / "vocab.txt")).serialize()[1] == "[UNK]\na\n##b\n"
    (tmp_path / "json").mkdir()
    unigram().save(str(tmp_path / "json" / "tokenizer.json"))
    assert Vocabulary.load(str(tmp_path / "json")).subwords(["aab"]) == [["a", "ab"]]


def test_load_reports_what_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def offline(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise OSError(f"no route to {name}\nand more")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(ConfigError, match=r"neither vocab\.txt nor tokenizer\.json"):
        Vocabulary.load(str(tmp_path))
    (tmp_path / "t5.txt").write_bytes(b"\x0a\xff\xfe")
    with pytest.raises(ConfigError, match=r"t5\.txt: is not UTF-8 text"):
        Vocabulary.load(str(tmp_path / "t5.txt"))
    with pytest.raises(ConfigError, match=r"'org/name': no such file .* no route to org/name; try again$"):
        Vocabulary.load("org/name")
    assert len(asked) == 1
    with pytest.raises(ConfigError, match=r"File name too long|no such file"):  # the second from Python 3.14 on
        Vocabulary.load("a" * 5000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "size", "word", "subwords"),
    [
        ("bert-base-uncased", 30_522, "unaffable", ["una", "##ffa", "##ble"]),  # the example of BERT's own repository
        ("bert-base-multilingual-cased", 119_547, "Weltmeisterschaft", ["Weltmeisterschaft"]),
    ],
)
def test_the_papers_vocabularies(shared_data: Path, folder: str, size: int, word: str, subwords: list[str]) -> None:
    found = sorted((shared_data / "vocab").rglob(f"*{folder}*"))
    assert found, "the shared vocabulary is missing"
    vocabulary = Vocabulary.load(str(found[0]))
    assert len(vocabulary) == size
    assert vocabulary.subwords([word]) == [subwords]
    assert Vocabulary.parse(*vocabulary.serialize()).serialize() == vocabulary.serialize()
