"""What of a stranger's `tokenizer.json` is handed to the `tokenizers` library, and what is not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from mixling import DataError, ModelFileError, Vocabulary
from mixling.text import SubwordTokenizer
from mixling.text.tokenizer_file import read_tokenizer
from mixling.text.unigram import splitter, unigram_tokenizer

SUBWORDS = [("<unk>", 0.0), ("▁", -1.0), ("a", -2.0), ("▁ab", -2.5), ("x", -3.0)]


def written(**values: Any) -> str:
    """A sound tokenizer with other values."""
    tokenizer = unigram_tokenizer(SUBWORDS, unknown="<unk>", specials=["<unk>"])
    return json.dumps({**json.loads(tokenizer.to_str()), **values})


def model(**values: Any) -> dict[str, Any]:
    return {"model": {**json.loads(written())["model"], **values}}


def charsmap(data: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize(
    "steps",
    [
        {},
        {"normalizer": {"type": "NFKC"}},
        {"normalizer": {"type": "Prepend", "prepend": "▁"}},
        sequence({"type": "NFD"}, {"type": "StripAccents"}, replace({"String": " "}, "▁")),
        sequence({"type": "Nmt"}, replace({"Regex": " {2,}"}, "▁")),
        sequence(replace({"String": "``"}, '"'), {"type": "BertNormalizer", "clean_text": True, "lowercase": False,
                 "handle_chinese_chars": True, "strip_accents": None}),
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": None, "decoder": None},
    ],
)  # fmt: skip
def test_a_harmless_tokenizer_is_rebuilt_as_it_is(steps: dict[str, Any]) -> None:
    content = written(**steps)
    original, rebuilt = Tokenizer.from_str(content), read_tokenizer(content)
    for text in ("a ab xa", "Ää  `` x\n", "", "東 a"):
        assert rebuilt.encode(text).tokens == original.encode(text).tokens
    assert rebuilt.get_vocab() == original.get_vocab()


def test_what_mixling_writes_is_read() -> None:
    words = ["play", "music", "(", "x", "_", "1", ")"] * 9
    vocabulary = Vocabulary.train(words, size=100, kind="unigram")
    assert json.loads(read_tokenizer(vocabulary.tokenizer.to_str()).to_str()) == json.loads(
        vocabulary.tokenizer.to_str()
    )
    for join_symbols in (False, True):
        coder = SubwordTokenizer.train(["agent ( x _ 2 ) plays"] * 5, size=60, sentinels=3, join_symbols=join_symbols)
        again = SubwordTokenizer.parse(*coder.serialize())
        assert again.serialize() == coder.serialize()
        assert again.encode("plays ( x _ 2 )") == coder.encode("plays ( x _ 2 )")


def test_what_is_of_no_use_is_left_out() -> None:
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "x"}  # fmt: skip
    processor = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    rebuilt = read_tokenizer(written(padding=padding, post_processor=processor))
    assert rebuilt.padding is None
    assert rebuilt.post_processor is None
    assert len(rebuilt.encode("a")) < 5


HOSTILE: list[tuple[dict[str, Any], str]] = [
    (sequence(replace({"Regex": "(x+x+)+y"}, "")), "custom pattern"),
    (sequence(replace({"Regex": " {2,}"}, " " * 5000)), "custom pattern"),
    (sequence(replace({"String": "a"}, "a" * 3000), replace({"String": "a"}, "a" * 3000)), "custom pattern"),
    (sequence(replace({"String": ""}, "")), "custom pattern"),
    (sequence({"type": "Replace", "pattern": {"String": "a"}}), "custom pattern"),
    ({"normalizer": {"type": "Prepend", "prepend": "x" * 50_000}}, "Prepend has 'prepend'"),
    ({"normalizer": charsmap(b"AAA")}, "replacement table is damaged"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": 3}}, "Precompiled has"),
    ({"normalizer": charsmap(b"\4\0\0\0" + bytes(4) + b"y" * 5000 + b"\0")}, "replacement of 5000 bytes"),
    (sequence(charsmap(b"\4\0\0\0" + bytes(4) + b"y" * 60 + b"\0"), {"type": "NFKD"}), "660 times as long"),
    (sequence(*[{"type": "ByteLevel"}] * 9), "512 times as long"),
    (sequence(*[{"type": "NFC"}] * 17), "of more than 16"),
    (sequence(None), "without steps"),  # type: ignore[arg-type]
    ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]}}, "of sequences"),
    ({"normalizer": {"type": "Sequence", "normalizers": 3}}, "without steps"),
    ({"normalizer": {"type": "Other"}}, "normalizer is 'Other'"),
    ({"normalizer": "NFC"}, "normalizer is 'NFC'"),
    ({"normalizer": {"type": "NFC", "more": 1}}, "'more'"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a)*$"}, "behavior": "Isolated", "invert": False}},
     "custom pattern"),
    ({"pre_tokenizer": {"type": "Split"}}, "custom pattern"),
    ({"decoder": replace({"Regex": "(a*)*b"}, "")}, "custom pattern"),
    ({"decoder": replace({"String": "a"}, "b" * 9999)}, "custom pattern"),
    ({"decoder": {"type": "CTC"}}, "decoder is 'CTC'"),
    ({"model": None}, "no model"),
    ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}, "model is 'WordLevel'"),
    (model(vocab=[]), "no subwords"),
    (model(vocab=[["a", "b"]]), "'vocab'"),
    (model(vocab=[["a", float("nan")]]), "'vocab'"),
    (model(vocab=[["a" * 5000, 0.0]]), "'vocab'"),
    (model(unk_id=99), "has the id 99"),
    (model(unk_id=-1), "'unk_id'"),
    ({"model": {"type": "BPE", "dropout": 0.9, "vocab": {"a": 0}, "merges": []}}, "'dropout'"),
    ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}, "is not a tokenizer"),
    ({"model": {"type": "BPE", "vocab": {"a": 2**40}, "merges": []}}, "'vocab'"),
    ({"added_tokens": [{"id": 0, "content": ""}]}, "added token"),
    ({"added_tokens": [{"id": 0, "content": "a", "special": "yes"}]}, "added token"),
    ({"added_tokens": {"a": 1}}, "not a list"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "reason"), HOSTILE)
def test_what_could_harm_is_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelFileError, match=r"^tokenizer\.json: ") as caught:
        Vocabulary.parse("tokenizer.json", written(**values))
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 600
    with pytest.raises(ModelFileError):
        SubwordTokenizer.parse("tokenizer.json", written(**values))


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", "[" * 100_000, '{"model": ' * 100_000, "\ud800"])
def test_what_is_no_tokenizer_is_refused(content: str) -> None:
    with pytest.raises(ModelFileError, match="is not a tokenizer"):
        Vocabulary.parse("tokenizer.json", content)


def test_a_panic_of_the_library_is_an_error_like_any_other(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer(models.Unigram(SUBWORDS, unk_id=0))
    tokenizer.normalizer = normalizers.Replace(Regex("(x+x+)+y"), "")  # given in Python, which nobody checks
    with pytest.raises(ModelFileError, match="cannot split a word into subwords"):
        Vocabulary(tokenizer).subwords(["x" * 28])
    coder = SubwordTokenizer.parse("tokenizer.json", written())
    coder._tokenizer.normalizer = tokenizer.normalizer
    for ask in (coder.encode, coder.normal):
        with pytest.raises(DataError, match="cannot be split into subwords"):
            ask("x" * 28)
    assert "panicked" in capfd.readouterr().err, "the library no longer panics: find another way to make it"


def test_many_special_subwords_are_refused() -> None:
    added = [{"id": 5 + i, "content": f"<s{i}>", "special": True} for i in range(10_001)]
    with pytest.raises(ModelFileError, match="special subwords; allowed: 10,000"):
        SubwordTokenizer.parse("tokenizer.json", written(added_tokens=added))


def test_a_coder_of_a_tokenizer_that_could_not_be_read_back_is_refused_at_once() -> None:
    tokenizer = unigram_tokenizer(SUBWORDS, unknown="<unk>", specials=["<unk>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([splitter(), pre_tokenizers.Split(Regex("[ab]"), "isolated")])
    with pytest.raises(ModelFileError, match="custom pattern"):
        SubwordTokenizer(tokenizer)
