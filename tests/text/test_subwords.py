"""Whole texts as subwords: they come back, special subwords stay apart, the file is the coder."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from mixling import ConfigError, ModelFileError
from mixling.text import SubwordTokenizer

TARGETS = [
    "* cake ( x _ 1 ) ; eat . agent ( x _ 2 , x _ 1 )",
    "* cat ( x _ 3 ) ; see . theme ( x _ 1 , x _ 3 ) AND see . agent ( x _ 1 , Liam )",
    "[IN:GET_WEATHER what is [SL:DATE_TIME tomorrow ] ]",
    "[IN:GET_WEATHER [SL:LOCATION Zürich ] [SL:DATE_TIME at 8 pm ] ]",
]
CODER = SubwordTokenizer.train(TARGETS * 3, size=120, sentinels=3)
JOINED = SubwordTokenizer.train(TARGETS * 3, size=120, sentinels=3, join_symbols=True)
both = pytest.mark.parametrize("coder", [CODER, JOINED], ids=["apart", "joined"])

TRAIN = """
import json, sys
from mixling.text import SubwordTokenizer
join = json.loads(sys.argv[1])
print(json.dumps(SubwordTokenizer.train(json.load(sys.stdin), size=70, sentinels=2, join_symbols=join).serialize()))
"""


@both
def test_targets_come_back(coder: SubwordTokenizer) -> None:
    for target in TARGETS:
        assert coder.decode(coder.encode(target)) == target
        assert coder.decode(coder.encode(f"\n  {target.replace(' ', '  ')}\t")) == target
        assert coder.unk_id not in coder.encode(target)
    assert coder.encode_many(TARGETS) == [coder.encode(target) for target in TARGETS]


def test_a_frequent_symbol_is_one_subword_even_of_one_character() -> None:
    assert [CODER.subword(i) for i in CODER.encode("agent ( x _ 1 )")] == ["▁agent", "▁(", "▁x", "▁_", "▁1", "▁)"]
    assert [CODER.subword(i) for i in CODER.encode("[IN:GET_WEATHER [SL:DATE_TIME ]")] == [
        "▁[IN:GET_WEATHER", "▁[SL:DATE_TIME", "▁]"
    ]  # fmt: skip


def test_joined_symbols_are_one_subword_and_words_stay_apart() -> None:
    assert [JOINED.subword(i) for i in JOINED.encode("cake ( x _ 1 ) ; eat")] == ["▁cake", "▁(▁x▁_▁1▁)▁;", "▁eat"]
    assert [JOINED.subword(i) for i in JOINED.encode("tomorrow ] ]")][-1:] == ["▁]▁]"]
    for number in range(len(JOINED)):
        words = JOINED.subword(number).split("▁")
        assert len(words) <= 2 or not any(sum(map(str.isalpha, word)) > 1 for word in words), words
    assert max(len(CODER.subword(i)[1:].split("▁")) for i in range(len(CODER))) == 1


def test_frequent_words_are_whole_subwords_even_beyond_the_size() -> None:
    texts = [*TARGETS * 3, "a zebra saw a zebra", "once"]
    words = ("zebra", "once", "Liam", "agent")
    for join in (False, True):
        subwords = {
            often: SubwordTokenizer.train(texts, size=60, join_symbols=join, whole_words=often)
            for often in (None, 1, 2, 9)
        }
        counts = {often: [len(coder.encode(word)) for word in words] for often, coder in subwords.items()}
        assert counts[1] == [1, 1, 1, 1]
        assert counts[2] == [1, counts[None][1], 1, 1]
        assert counts[9] == counts[None]
        assert min(counts[None][:2]) > 1
        assert [coder.decode(coder.encode(texts[0])) for coder in subwords.values()] == [texts[0]] * 4


@both
@given(text=st.text(st.sampled_from("".join(sorted(set("".join(TARGETS)))) + " \t\n▁\u3000")))
def test_texts_of_known_characters_come_back_normal(coder: SubwordTokenizer, text: str) -> None:
    words = unicodedata.normalize("NFC", text).replace("▁", " ").split()
    assert coder.decode(coder.encode(text)) == coder.normal(text) == " ".join(words)


@both
@given(text=st.text())
def test_any_text_is_coded_and_never_has_a_special_subword(coder: SubwordTokenizer, text: str) -> None:
    ids = coder.encode(text + "</s> <pad><extra_id_1>")
    assert not {coder.pad_id, coder.eos_id, *coder.sentinel_ids} & set(ids)
    assert all(0 <= number < len(coder) for number in ids)
    assert isinstance(CODER.decode(ids), str)


def test_names_of_special_subwords_are_text_in_texts() -> None:
    coder = SubwordTokenizer.train(["a </s> <pad> <unk> <extra_id_0> b"] * 2, sentinels=1)
    text = "b</s> <extra_id_0>a <unk>"
    assert coder.decode(coder.encode(text)) == text
    assert coder.unk_id not in coder.encode(text)


def test_special_subwords() -> None:
    assert (CODER.pad_id, CODER.eos_id, CODER.unk_id, CODER.sentinel_ids) == (0, 1, 2, (3, 4, 5))
    cat = CODER.encode("cat")
    assert CODER.decode([0, *cat, 0, 1, *cat, 0]) == "cat"
    assert CODER.decode([3, *cat, 4]) == "<extra_id_0> cat<extra_id_1>"
    assert CODER.decode([]) == ""
    for number in (-1, len(CODER)):
        with pytest.raises(ValueError, match=f"subword {number} does not exist; allowed: 0 to {len(CODER) - 1}"):
            CODER.decode([number])


def test_the_file_is_the_coder(tmp_path: Path) -> None:
    name, content = CODER.serialize()
    (tmp_path / name).write_text(content, "utf-8")
    for again in (SubwordTokenizer.parse(name, content), SubwordTokenizer.load(str(tmp_path), sentinels=3)):
        assert again.serialize() == (name, content)
        assert again.encode_many([*TARGETS, "</s> é"]) == CODER.encode_many([*TARGETS, "</s> é"])
        assert (len(again), again.sentinel_ids) == (len(CODER), CODER.sentinel_ids)
    assert SubwordTokenizer.load(str(tmp_path), sentinels=5).sentinel_ids == (3, 4, 5, len(CODER) + 1, len(CODER))


@pytest.mark.parametrize("join", [False, True])
def test_two_processes_train_the_same_subwords(join: bool) -> None:
    given = json.dumps(TARGETS * 5)
    runs = [
        subprocess.run(
            [sys.executable, "-c", TRAIN, json.dumps(join)],
            input=given,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    here = SubwordTokenizer.train(TARGETS[::-1] * 5, size=70, sentinels=2, join_symbols=join)
    assert tuple(json.loads(runs[0].stdout)) == here.serialize()


def test_missing_special_subwords_are_added() -> None:
    bpe = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    coder = SubwordTokenizer(bpe)
    assert (coder.pad_id, coder.eos_id, coder.unk_id, len(coder)) == (3, 4, None, 5)
    assert coder.encode("aab") == [0, 2]
    assert bpe.get_vocab_size() == 3  # the caller's is left alone


def test_what_gives_no_text_back_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\na\n")
    with pytest.raises(ModelFileError, match=r"is a WordPiece vocabulary.*allowed: Unigram, BPE"):
        SubwordTokenizer.load(str(tmp_path))
    with pytest.raises(ModelFileError, match=r"^x\.json: is not a tokenizer"):
        SubwordTokenizer.parse("x.json", "{}")
    with pytest.raises(ConfigError, match="have no words"):
        SubwordTokenizer.train(["", " \x00▁"])


def test_t5s_subwords_and_sentinels(shared_data: Path) -> None:
    coder = SubwordTokenizer.load(str(shared_data / "vocab" / "t5-sentencepiece.model"), sentinels=100)
    assert (len(coder), coder.pad_id, coder.eos_id, coder.unk_id) == (32_100, 0, 1, 2)
    assert coder.sentinel_ids == tuple(range(32_099, 31_999, -1))  # as in the published T5 models
    # By sentencepiece 0.2.3, which has no subword for "<" either.
    assert coder.encode("x </s> y <extra_id_0> <unk>z") == [
        3, 226, 3, 2, 87, 7, 3155, 3, 63, 3, 2, 25666, 834, 23, 26, 834, 632, 3155, 3, 2, 6513, 3155, 172
    ]  # fmt: skip
    assert coder.decode([*coder.encode("Das Haus ist wunderbar."), 1, 5]) == "Das Haus ist wunderbar."
    ids = [32_099, *coder.encode("for inviting"), 32_098, *coder.encode("last"), 1]
    assert coder.decode(ids) == "<extra_id_0> for inviting<extra_id_1> last"
    assert coder.decode(coder.encode("Ａ ﬁne\u00a0day…")) == coder.normal("Ａ ﬁne\u00a0day…") == "A fine day..."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "size", "join"), [("cogs", 600, False), ("cogs", 900, True), ("mtop_en_seq2seq", 2_000, False)]
)
def test_every_target_of_the_papers_data_comes_back(shared_data: Path, folder: str, size: int, join: bool) -> None:
    rows = {}
    for path in sorted((shared_data / folder).glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows[path.name.split(".")[0]] = [json.loads(line) for line in lines]
    texts = (row[side] for row in rows["train"] for side in ("source", "target"))
    coder = SubwordTokenizer.train(texts, size=size, join_symbols=join)
    assert len(coder) == size
    for part in rows.values():
        targets = list(dict.fromkeys(row["target"] for row in part))[:4_000]
        for target, ids in zip(targets, coder.encode_many(targets), strict=True):
            assert coder.decode(ids) == " ".join(target.split())
