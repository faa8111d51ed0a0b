"""Public files become the rows that experiments read, and checksums tell other rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOKENS = {"tokens": ["call", "Ann", "Lee", "now"], "tokenSpans": [[0, 4], [5, 3], [9, 3], [13, 3]]}
# For each set: the files of its public form, and the rows that they hold.
PUBLIC: dict[str, tuple[dict[str, str], dict[str, list[dict[str, Any]]]]] = {
    "sst2_glue": (
        {"train.tsv": 'sentence\tlabel\na "fine day \t1\n', "dev.tsv": "sentence\tlabel\ndull\t0\n"},
        {"train": [{"text": 'a "fine day ', "label": "1"}], "dev": [{"text": "dull", "label": "0"}]},
    ),
    "cola": (
        {"train.tsv": "gj04\t1\t\tIt ran.\n", "dev.tsv": "gj04\t0\t*\tRan it.\n"},
        {"train": [{"text": "It ran.", "label": "1"}], "dev": [{"text": "Ran it.", "label": "0"}]},
    ),
    "mrpc": (
        dict.fromkeys(("train.tsv", "dev.tsv"), "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta\tb\n"),
        {name: [{"text": "a", "text_pair": "b", "label": "1"}] for name in ("train", "dev")},
    ),
    "stsb": (
        dict.fromkeys(("train.tsv", "dev.tsv"), "index\tsentence1\tsentence2\tscore\n0\ta\tb\t4.25\n"),
        {name: [{"text": "a", "text_pair": "b", "label": 4.25}] for name in ("train", "dev")},
    ),
    "snips": (
        {f"{part}/{name}": line for part in ("train", "valid", "test") for name, line in (
            ("seq.in", "play it\n"), ("seq.out", "O B-what\n"), ("label", "PlayMusic\n"))},
        {part: [{"tokens": ["play", "it"], "slots": ["O", "B-what"], "intent": "PlayMusic", "lang": "en"}]
         for part in ("train", "dev", "test")},
    ),
    "clinc150": (
        {"data_full.json": json.dumps({"train": [["hi", "greeting"]], "oos_val": [["x", "oos"]]})},
        {"train": [{"text": "hi", "label": "greeting"}], "oos_val": [{"text": "x", "label": "oos"}]},
    ),
    "imdb": (
        {"train/pos/0_9.txt": "good", "train/neg/0_1.txt": "bad", "test/neg/3_2.txt": "worse"},
        {"train": [{"text": "bad", "label": "neg"}, {"text": "good", "label": "pos"}],
         "test": [{"text": "worse", "label": "neg"}]},
    ),
    "sick": (
        {"SICK.txt": "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
                     "1\ta\tb\tNEUTRAL\t3.6\tTRIAL\n"},
        {"train": [], "dev": [{"text": "a", "text_pair": "b", "label": "neutral", "relatedness": 3.6}], "test": []},
    ),
    "boolq": (
        {"val.jsonl": '{"question": "is it", "passage": "It is.", "idx": 0, "label": true}\n'},
        {"dev": [{"text": "is it", "text_pair": "It is.", "label": "true"}]},
    ),
    "cb": (
        dict.fromkeys(("train.jsonl", "val.jsonl"), '{"premise": "a", "hypothesis": "b", "label": "neutral"}\n'),
        {name: [{"text": "a", "text_pair": "b", "label": "neutral"}] for name in ("train", "dev")},
    ),
    "wsc": (
        dict.fromkeys(("train.jsonl", "val.jsonl"),
                      '{"text": "é", "target": {"span2_text": "He", "span1_index": 0}, "label": false}\n'),
        {name: [{"text": "é", "text_pair": '{"span2_text": "He", "span1_index": 0}', "label": "False"}]
         for name in ("train", "dev")},
    ),
    "conjnli": (
        {f"{name}.tsv": "Premise\tHypothesis\tLabel\na\tb \"c\"\tneutral\n"
         for name in ("adversarial_train_15k", "conj_dev")} | {"conj_test.tsv": "Premise\tHypothesis\na\tb\n"},
        {"train_adversarial": [{"text": "a", "text_pair": 'b "c"', "label": "neutral"}],
         "dev": [{"text": "a", "text_pair": 'b "c"', "label": "neutral"}],
         "test_unlabelled": [{"text": "a", "text_pair": "b"}]},
    ),
    "mtop_en_seq2seq": (
        {f"{part}.txt": "7\tIN:CREATE_CALL\t\tcall Ann\tcalling\ten_XX\t[IN:CREATE_CALL [SL:CONTACT Ann ] ]\t{}\n"
         for part in ("train", "eval", "test")},
        {part: [{"source": "call Ann", "target": "[IN:CREATE_CALL [SL:CONTACT Ann ] ]", "kind": kind}]
         for part, kind in (("train", "train"), ("dev", "calling"), ("test", "calling"))},
    ),
    "cogs": (
        {f"{part}.tsv": "A cat ran .\tcat ( x _ 1 )\tin_distribution\n" for part in ("train", "dev", "test", "gen")},
        {part: [{"source": "A cat ran .", "target": "cat ( x _ 1 )", "kind": "in_distribution"}]
         for part in ("train", "dev", "test", "gen")},
    ),
    "mtop_en": (
        {f"{part}.txt": "7\tIN:CREATE_CALL\t5:12:SL:CONTACT,13:16:SL:DATE_TIME\tcall Ann Lee now\tcalling\ten_XX\t[x]\t"
                        + json.dumps(TOKENS) + "\n" for part in ("train", "eval", "test")},
        {part: [{"tokens": TOKENS["tokens"], "slots": ["O", "B-CONTACT", "I-CONTACT", "B-DATE_TIME"],
                 "intent": "CREATE_CALL", "lang": "en"}] for part in ("train", "dev", "test")},
    ),
    "xquad": (
        {"xquad.de.json": json.dumps({"data": [{"paragraphs": [{"context": "Er kam.", "qas": [
            {"id": "q", "question": "Wer?", "answers": [{"text": "Er", "answer_start": 0}]}]}]}]})},
        {"de": [{"question": "Wer?", "context": "Er kam.", "answers": {"text": ["Er"], "start": [0]}}]},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def layout(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/layout.py")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_files_become_rows(layout: ModuleType, tmp_path: Path, name: str) -> None:
    files, rows = PUBLIC[name]
    for file, content in files.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    assert {split: list(found) for split, found in layout.READERS[name](tmp_path)} == rows


def test_a_set_is_written_and_compared_in_any_order(
    layout: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, data = tmp_path / "data_full.json", tmp_path / "data"
    source.write_text(json.dumps({"train": [["hi", "greeting"], ["pay", "bill"]]}), "utf-8")
    monkeypatch.setattr(layout, "RECORD", tmp_path / "layout.json")
    layout.RECORD.write_text("{}")
    layout.make("clinc150", source, data)
    assert capsys.readouterr().out == "clinc150/train: no checksum is recorded\n"
    monkeypatch.setattr("sys.argv", ["layout.py", "record", "--data", str(data)])
    layout.main()
    source.write_text(json.dumps({"train": [["pay", "bill"], ["hi", "greeting"]]}), "utf-8")
    layout.make("clinc150", source, data)
    assert capsys.readouterr().out == "clinc150/train: 2 rows, the same\n"
    source.write_text(json.dumps({"train": [["pay", "bill"]]}), "utf-8")
    layout.make("clinc150", source, data)
    assert capsys.readouterr().out == "clinc150/train: 1 rows, NOT the same: the experiments read 2\n"
    monkeypatch.setattr("sys.argv", ["layout.py", "check", "--data", str(data)])
    with pytest.raises(SystemExit, match="True"):
        layout.main()
    monkeypatch.setattr("sys.argv", ["layout.py", "make", "cogs", str(tmp_path), "--data", str(data)])
    with pytest.raises(SystemExit, match=r"train\.tsv: there is no such file; cogs is made of"):
        layout.main()


def test_keys_that_nothing_reads_do_not_count(layout: ModuleType, tmp_path: Path) -> None:
    sums = []
    for rating in (1, 2):
        path = tmp_path / f"{rating}.jsonl.gz"
        path.write_bytes(gzip.compress(json.dumps({"text": "a", "label": "neg", "rating": rating}).encode()))
        sums.append(layout.checksum(path))
    assert sums[0] == sums[1]
    assert sums[0]["rows"] == 1
