"""Near-duplicates between validation and training rows, beside a comparison of all pairs."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from mixling import Dataset, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, near_duplicates, split_validation
from mixling.data.near_duplicates import NearDuplicates, count_near_duplicates
from mixling.tasks import Classification


def store_of(*texts: object) -> Dataset:
    return Dataset.from_examples(
        Example(text, "a", "rows.csv", line)  # type: ignore[arg-type]
        for line, text in enumerate(texts, 2)
    )


def by_all_pairs(train: list[str], validation: list[str]) -> tuple[int, int]:
    sets = [[set(re.findall(r"\w+", text.lower())) for text in texts] for texts in (train, validation)]
    looked_at = [words for words in sets[1] if len(words) >= 4]
    near = [words for words in looked_at if any(len(words & other) >= 0.6 * len(words | other) for other in sets[0])]
    return len(near), len(looked_at)


@pytest.mark.parametrize("seed", range(20))
def test_the_count_is_that_of_all_pairs(seed: int) -> None:
    chance = random.Random(seed)
    words = [f"w{i}" for i in range(chance.choice([8, 30, 200]))]

    def texts(count: int) -> list[str]:
        return [" ".join(chance.choices(words, k=chance.randint(1, 9))) for _ in range(count)]

    train, validation = texts(150), texts(60)
    count, looked_at = by_all_pairs(train, validation)
    assert count_near_duplicates(store_of(*train), store_of(*validation), seed=seed) == NearDuplicates(
        count, looked_at, True
    )


def test_what_is_alike() -> None:
    train = store_of(
        "The film, of course, was great!",
        "six words of which four stay",
        "one two three four five six",
        ["a", "list", "of", "words"],
        "\u4f60\u597d\u4e16\u754c\u670b",
    )

    def count(text: object) -> int:
        found = count_near_duplicates(train, store_of(text), seed=0)
        assert found.looked_at <= 1
        return found.count

    assert count("the film was of course great") == 1  # letter case, signs and order aside
    assert count("six words of which other five") == 0  # 4 of 8
    assert count("six words of which four go") == 1  # 5 of 7
    assert count(("one two three", "four five seven")) == 1  # pairs are read as one text
    assert count(["a", "list", "of", "words", "more"]) == 1
    assert count("\u4f60\u597d\u4e16\u754c\u53cb") == 1  # characters of Han are words
    assert count("the film was") == 0  # too short
    assert count("") == 0


def test_large_sets_are_sampled_and_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"what a lovely film about number {i}" for i in range(300)]
    train, validation = store_of(*texts), store_of(*texts[:50])
    assert count_near_duplicates(train, validation, seed=0) == NearDuplicates(50, 50, True)
    monkeypatch.setattr(near_duplicates, "MAX_TEXTS", 20)
    assert count_near_duplicates(train, validation, seed=0) == NearDuplicates(20, 20, True)
    distinct = store_of(*(f"one{i} two{i} three{i} four{i} lovely" for i in range(300)))
    monkeypatch.setattr(near_duplicates, "MAX_TRAINING_TEXTS", 100)
    assert count_near_duplicates(distinct, validation, seed=0) == NearDuplicates(0, 20, False)
    monkeypatch.setattr(near_duplicates, "MAX_TRAINING_TEXTS", 1000)
    assert count_near_duplicates(distinct, validation, seed=0) == NearDuplicates(0, 20, True)
    monkeypatch.setattr(near_duplicates, "MAX_TRAINING_BYTES", 1000)
    assert not count_near_duplicates(distinct, validation, seed=0).complete
    monkeypatch.setattr(near_duplicates, "MAX_TRAINING_BYTES", 1 << 20)
    chance = random.Random(0)
    mixed = store_of(*(" ".join(chance.sample("abcdefghijkl", 7)) for _ in range(100)))
    assert count_near_duplicates(mixed, mixed, seed=0) == NearDuplicates(20, 20, True)
    monkeypatch.setattr(near_duplicates, "MAX_WORK", 10)
    assert not count_near_duplicates(mixed, mixed, seed=0).complete


@pytest.mark.slow
def test_phrases_of_one_sentence_are_found(shared_data: Path) -> None:
    """SST-2's training rows are phrases: of a random tenth of 8,000 a quarter has a near-duplicate in the rest."""
    rows = read_examples(
        [shared_data / "sst2_glue" / "train.jsonl.gz"],
        reader=Classification.reader,
        columns=ColumnsConfig(),
        on_bad_row=OnBadRow(),
    )
    whole = Dataset.from_examples(rows)
    store = whole.subset(random.Random(0).sample(range(len(whole)), 8000))
    train, validation = split_validation(store, fraction=0.1, seed=0)
    found = count_near_duplicates(train, validation, seed=0)
    assert found.complete
    assert 0.2 < found.count / found.looked_at < 0.35
