"""Span corruption as a task: the text's subwords, each block whole, validation always the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mixling import ConfigError
from mixling.research.pretraining import CorpusConfig, Prepared, SubwordReader, Tokens, encode_documents, prepare
from mixling.research.seq2seq import MixingConfig, PairData, SpanConfig, TextToText
from mixling.research.seq2seq.span_training import SpanPart
from mixling.text import SubwordTokenizer

DOCUMENTS = [f"document {n} has wordiness{n % 7} and unseenness" + " more" * (n % 5) for n in range(200)]
CODER = SubwordTokenizer.train(DOCUMENTS, size=80, sentinels=5)
TRAIN, VALIDATION = (encode_documents(part, SubwordReader(CODER)) for part in (DOCUMENTS[:150], DOCUMENTS[150:]))
SPANS = SpanConfig(fraction=0.2, mean_length=2)


def part(
    train: Tokens = TRAIN, validation: Tokens = VALIDATION, coder: SubwordTokenizer = CODER, limit: int = 30
) -> SpanPart:
    return SpanPart(Prepared(train, validation, ""), SPANS, coder, max_source_len=limit, max_target_len=limit)


def restored(source: np.ndarray, target: np.ndarray) -> list[int]:
    """The text of a pair: each sentinel of the source gives way to what stands behind it in the target."""
    assert source[-1] == target[-1] == CODER.eos_id
    spans: dict[int, list[int]] = {}
    for subword in target[:-1].tolist():
        if subword in CODER.sentinel_ids:
            last = spans[subword] = []
        else:
            last.append(subword)
    return [own for subword in source[:-1].tolist() for own in spans.get(subword, [subword])]


def test_pairs_are_the_blocks_of_the_text() -> None:
    made = part()
    # 31 subwords: 6 in 3 spans, 25 + 3 + 1 = 29; of 32 26 are kept, 30 with sentinels and end; of 33 it would be 31.
    assert made.length == 32
    assert len(made) == len(TRAIN.rows) // 32 == len(made.lengths)
    for index in range(len(made)):
        source, target = made.pair(index, np.random.default_rng(index))
        assert restored(source, target) == TRAIN.rows[32 * index : 32 * (index + 1)].tolist()
        assert len(source) + len(target) == made.lengths[index] == 40
    assert [subword for pair in made.validation for subword in restored(*pair)] == VALIDATION.rows[
        : len(made.validation) * 32
    ].tolist()
    assert len(made.validation) == len(VALIDATION.rows) // 32
    assert made.where(0) is None
    assert made.name == "spans"


def test_what_is_taken_out_changes_but_not_on_validation() -> None:
    made = part()
    seen = {tuple(made.pair(0, np.random.default_rng(seed))[0].tolist()) for seed in range(20)}
    assert len(seen) > 15
    assert np.array_equal(made.pair(3, np.random.default_rng(8))[1], made.pair(3, np.random.default_rng(8))[1])
    for one, other in zip(made.validation, part().validation, strict=True):
        assert all(np.array_equal(mine, its) for mine, its in zip(one, other, strict=True))
    locations = {tuple(np.isin(source, CODER.sentinel_ids)) for source, _ in made.validation}
    assert len(locations) > len(made.validation) / 2, "blocks are corrupted each in its own way"


def test_an_epoch_is_every_block_corrupted_anew() -> None:
    made = part()
    data = PairData(objective=TextToText("perplexity"), parts=[made], mixing=MixingConfig(), pad=CODER.pad_id)
    seen, sources = [], []
    for epoch in range(2):
        batches = data.epoch(epoch, 8, seed=1)
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(made)))
        for number, indices in enumerate(batches):
            batch, targets, _ = data.batch(indices, np.arange(len(indices)), seed=1, step=epoch * len(batches) + number)
            assert batch.source_mask.all()
            assert (targets >= 0).all()
            texts = [restored(*pair) for pair in zip(batch.source.numpy(), targets.numpy(), strict=True)]
            assert texts == [TRAIN.rows[32 * index : 32 * (index + 1)].tolist() for index in indices]
            seen += indices.tolist()
            sources += batch.source.tolist()
    by_block = {(index, *source) for index, source in zip(seen, sources, strict=True)}
    assert len(by_block) > 1.9 * len(made)


def test_from_files(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(DOCUMENTS))
    config = CorpusConfig(files=(str(tmp_path / "text.txt"),), validation_fraction=0.2)
    prepared = prepare(config, SubwordReader(CODER), tmp_path / "out", print)
    made = SpanPart(prepared, SPANS, CODER, max_source_len=40, max_target_len=40, name="text")
    text = restored(*made.pair(0, np.random.default_rng(0)))
    assert CODER.decode(text[: text.index(CODER.eos_id)]) in DOCUMENTS
    assert made.name == "text"


def test_what_cannot_be_corrupted_is_reported() -> None:
    short = dataclasses.replace(TRAIN, rows=TRAIN.rows[:31])
    with pytest.raises(
        ConfigError, match="the text has 31 subwords to train on, but span corruption needs at least 32"
    ):
        part(train=short)
    assert restored(*part(validation=short).validation[0]) == short.rows.tolist()
    with pytest.raises(ConfigError, match="the text has 1 subwords held out, but span corruption needs at least 2"):
        part(validation=dataclasses.replace(TRAIN, rows=TRAIN.rows[:1]))
    with pytest.raises(ConfigError, match=r"a text of 54 subwords has 6 spans, but there are 5 sentinels"):
        part(validation=short, limit=50)  # before any text has as many
    with pytest.raises(ConfigError, match="sources of at most 2 and targets of at most 2 subwords"):
        part(limit=2)
