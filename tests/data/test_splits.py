"""Dev splits: shares, determinism, no text on both sides; duplicates and unknown labels."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling import ConfigError, DataError, Dataset, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, check_labels, few_per_label, split_validation
from mixling.data.splits import describe_unseen, report_duplicates, unseen
from mixling.tasks import Classification


def store_of(*rows: tuple[object, object], path: str = "train.csv") -> Dataset:
    return Dataset.from_examples(
        Example(text, target, path, line)  # type: ignore[arg-type]
        for line, (text, target) in enumerate(rows, 2)
    )


def texts(store: Dataset) -> list[str]:
    return list(map(str, store.texts))


def test_classes_keep_their_fractions() -> None:
    sizes = {"a": 1000, "b": 500, "c": 33, "d": 2, "e": 1}
    store = store_of(*((f"{label}{i}", label) for label, size in sizes.items() for i in range(size)))
    train, validation = split_validation(store, fraction=0.1, seed=1)
    counts = validation.label_counts()
    assert (counts["a"], counts["b"]) == (100, 50)
    assert counts["c"] in (3, 4)
    assert "e" not in counts
    assert len(validation) == 154  # a tenth of 1,536, rounded
    assert set(train.label_counts()) == set(sizes)
    everything = texts(store)
    kept = set(texts(train))
    assert texts(train) == [text for text in everything if text in kept]
    assert Counter(texts(train)) + Counter(texts(validation)) == Counter(everything)


def test_classes_of_one_row_stay_out_of_validation() -> None:
    store = store_of(*((f"s{i}", f"single{i}") for i in range(40)), *((f"t{i}", "many") for i in range(41)))
    assert split_validation(store, fraction=0.5, seed=1)[1].label_counts() == {"many": 21}


@pytest.mark.parametrize("seed", range(5))
def test_tuples_with_a_label_of_their_own_stay_in_train(seed: int) -> None:
    rows = [(f"r{i}", ("B-rare", f"B-rare{i}")) for i in range(20)]  # each has a slot that no other has
    store = store_of(*((f"t{i}", ("O", "B-a")) for i in range(80)), *rows)
    train, validation = split_validation(store, fraction=0.3, seed=seed)
    assert len(train.label_counts()) == 23
    assert set(validation.label_counts()) == {"O", "B-a"}
    assert len(validation) > 10
    check_labels(train, validation)


def test_seeds_decide() -> None:
    store = store_of(*((f"t{i}", "ab"[i % 2]) for i in range(400)))
    picks = [frozenset(texts(split_validation(store, fraction=0.25, seed=seed)[1])) for seed in (1, 1, 2, 3)]
    assert picks[0] == picks[1]
    assert len(set(picks)) == 3
    assert 10 < len(picks[0] & picks[2]) < 45  # 25 by chance
    order = np.random.default_rng(0).permutation(400)
    shuffled = split_validation(store.subset(order), fraction=0.25, seed=1)[1]
    assert frozenset(texts(shuffled)) == picks[0]  # the text decides, not its place


def test_each_text_is_as_likely_as_another() -> None:
    store = store_of(*((f"t{i}", "x") for i in range(50)))
    drawn = Counter(text for seed in range(400) for text in texts(split_validation(store, fraction=0.2, seed=seed)[1]))
    expected, deviation = 400 * 0.2, (400 * 0.2 * 0.8) ** 0.5
    assert len(drawn) == 50
    assert max(abs(count - expected) for count in drawn.values()) < 4.5 * deviation


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.tuples(st.integers(0, 12), st.sampled_from("abc")), max_size=40),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**63),
    tuples=st.booleans(),
)
def test_no_text_stands_on_both_sides(rows: list[tuple[int, str]], fraction: float, seed: int, tuples: bool) -> None:
    store = store_of(*((str(text), (label,) if tuples else label) for text, label in rows))
    try:
        train, validation = split_validation(store, fraction=fraction, seed=seed)
    except DataError as error:
        refused = "too few" in str(error) or len({label for _, label in rows}) < 2
        assert refused
        return
    assert len(train) + len(validation) == len(store)
    assert not set(texts(train)) & set(texts(validation))
    assert len(train)
    assert len(validation)
    assert report_duplicates(train, validation) == 0
    assert tuples or set(train.label_counts()) == set(store.label_counts())


def test_many_copies_do_not_fill_validation() -> None:
    store = store_of(*[("copy", "a")] * 60, *((f"t{i}", "a") for i in range(40)), *((f"u{i}", "b") for i in range(100)))
    for seed in range(20):
        train, validation = split_validation(store, fraction=0.1, seed=seed)
        assert len(validation) <= 20
        assert texts(train).count("copy") == 60


def test_too_few_rows_and_bad_fractions() -> None:
    with pytest.raises(DataError, match=r"train\.csv: 2 rows with 2 distinct texts are too few .*--validation"):
        split_validation(store_of(("a", "x"), ("b", "y")), fraction=0.5, seed=1)
    with pytest.raises(DataError, match="50 rows with 1 distinct texts are too few"):
        split_validation(store_of(*[("same", "x"), ("same", "y")] * 25), fraction=0.1, seed=1)
    for target in ("x", ("O", "O")):  # other texts would not help
        with pytest.raises(DataError, match=r"train\.csv: only the label '[xO]' in 50 training rows"):
            split_validation(store_of(*[("same", target)] * 50), fraction=0.1, seed=1)
    for fraction in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="a number between 0 and 1"):
            split_validation(store_of(("a", "x")), fraction=fraction, seed=1)


def grouped(*rows: tuple[str, str], path: str = "train.csv") -> Dataset:
    """Rows of (group, label) with texts of their own."""
    return Dataset.from_examples(
        Example(f"text {line}", label, path, line, group=group) for line, (group, label) in enumerate(rows, 2)
    )


def groups_of(store: Dataset) -> set[int]:
    return set(store.group_hashes().tolist())


@pytest.mark.parametrize("seed", range(5))
def test_groups_stay_whole_and_classes_keep_about_their_fractions(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(1, 20) for _ in range(100)]
    rows = [(f"g{g}", chance.choices("abc", [6, 3, 1])[0]) for g, size in enumerate(sizes) for _ in range(size)]
    store = grouped(*rows)
    train, validation = split_validation(store, fraction=0.2, seed=seed)
    assert groups_of(train).isdisjoint(groups_of(validation))
    assert len(train) + len(validation) == len(store)
    assert len(validation) / len(store) == pytest.approx(0.2, abs=0.04)
    counts, whole = validation.label_counts(), store.label_counts()
    for label in "abc":
        assert counts[label] / whole[label] == pytest.approx(0.2, abs=0.1)
    again = split_validation(store, fraction=0.2, seed=seed)[1]
    assert again.indices().tolist() == validation.indices().tolist()
    assert split_validation(store, fraction=0.2, seed=seed + 1)[1].indices().tolist() != validation.indices().tolist()


def test_no_class_is_set_aside_as_a_whole() -> None:
    rows = [(f"g{i}", "common") for i in range(40)] + [("rare group", "rare")] * 4
    for seed in range(10):
        train, validation = split_validation(grouped(*rows), fraction=0.3, seed=seed)
        assert train.label_counts()["rare"] == 4
        assert len(validation) == 12


def test_of_few_large_groups_the_smallest_is_set_aside() -> None:
    rows = [("a", "x"), ("a", "y")] * 20 + [("b", "x"), ("b", "y")] * 15 + [("c", "x"), ("c", "y")] * 14
    train, validation = split_validation(grouped(*rows), fraction=0.05, seed=0)
    assert (len(train), len(validation)) == (70, 28)
    with pytest.raises(DataError, match="100 rows with 1 distinct groups are too few to set some aside"):
        split_validation(grouped(*[("a", "x"), ("a", "y")] * 50), fraction=0.1, seed=0)


def test_tagged_groups_stay_whole() -> None:
    rows = [Example(["a", "b"], ("O", "B-x"), "slots.jsonl", i + 1, group=f"g{i // 3}") for i in range(60)]
    train, validation = split_validation(Dataset.from_examples(rows), fraction=0.2, seed=0)
    assert groups_of(train).isdisjoint(groups_of(validation))
    assert len(validation) == 12


def numbered(labels: list[str], path: str = "train.csv") -> Dataset:
    return store_of(*((f"text {i}", label) for i, label in enumerate(labels)), path=path)


@pytest.mark.parametrize(
    "labels",
    [
        [f"{i / 300:.4f}" for i in range(1500)],  # ratings, all of them unique
        [f"{i % 26 / 5}" for i in range(1500)],  # from 0.0 to 5.0, many times each
        [f"-{i}e-3" for i in range(100)],
        [str(i * i) for i in range(100)],
        [f"{i},5" for i in range(100)],
    ],
    ids=["unique", "steps", "exponents", "whole", "comma"],
)
def test_a_numeric_target_is_named_as_such(labels: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        split_validation(numbered(labels), fraction=0.1, seed=1)
    message = str(caught.value)
    different, rows = len(set(labels)), len(labels)
    assert message.startswith(f"train.csv: {different:,} distinct labels in {rows:,} rows, all of them numbers")
    assert "regression" in message


def test_a_numeric_target_is_named_beside_validation_rows_too() -> None:
    with pytest.raises(DataError, match="regression"):
        check_labels(numbered([f"{i / 7:.3f}" for i in range(100)]), numbered(["0.5"]))


def test_too_many_labels_for_the_rows() -> None:
    with pytest.raises(DataError, match=r"80 distinct labels in 100 rows are too many; .* --label"):
        split_validation(numbered([f"id{i % 80}" for i in range(100)]), fraction=0.1, seed=1)
    # One row of each is no error where there are others to measure on.
    check_labels(numbered([f"id{i}" for i in range(100)]), numbered(["id3"]))


@pytest.mark.parametrize(
    "labels",
    [
        ["0.5", "1.0", "1.5", "2.0"],
        [str(year) for year in range(1950, 1990)],
        [f"1.{part}" for part in range(1, 31)],
        [f"{137 * i % 900 + i % 7 / 10}" for i in range(1, 31)],
    ],
    ids=["few", "years", "versions", "catalogue"],
)
def test_numbers_may_be_classes(labels: list[str]) -> None:
    train, validation = split_validation(numbered(labels * 10), fraction=0.1, seed=1)
    assert train.label_counts().keys() == set(labels)
    assert len(validation) == len(labels)


def test_duplicates_are_validation_rows() -> None:
    train = store_of(("a", "x"), ("a", "x"), ("b", "y"))
    validation = store_of(("a", "y"), ("c", "x"), ("b", "y"), ("b", "x"))
    assert report_duplicates(train, validation) == 3
    assert report_duplicates(validation, train) == 3
    assert report_duplicates(train, validation.subset([1])) == 0


@pytest.mark.slow
def test_real_duplicates_are_those_that_the_origin_has(shared_data: Path) -> None:
    train, test = (
        Dataset.from_examples(
            read_examples(
                [shared_data / "imdb" / f"{part}.jsonl.gz"],
                reader=Classification.reader,
                columns=ColumnsConfig(),
                on_bad_row=OnBadRow(),
            )
        )
        for part in ("train", "test")
    )
    assert report_duplicates(train, test) == 123  # as the data's README says


def test_unseen() -> None:
    store = store_of(("a", "x"), ("b", "new"), ("c", None), ("d", "x"), ("e", "newer"))
    assert unseen(store, ["x"]).tolist() == [1, 4]
    assert unseen(store.subset([4, 3]), ["x"]).tolist() == [0]
    assert unseen(store, ["x", "new", "newer"]).tolist() == []
    tagged = store_of((["a", "b"], ("O", "B-x")), (["c"], ("O",)))
    assert unseen(tagged, ["O"]).tolist() == [0]


def test_labels_that_training_never_saw_are_counted_and_named() -> None:
    assert describe_unseen(["a", None, ("a", "b"), ()], ["a", "b"]) == ""
    one = describe_unseen(["a", "new"], ["a"])
    assert one == "1 example has a label that training never saw and counts as an error: 'new' (1)"
    several = describe_unseen([("a", "x", "y"), ("x",), ("a",)], ["a"])
    assert several == "2 examples have labels that training never saw and count as errors: 'x' (2), 'y' (1)"
    many = describe_unseen([f"label{i}" for i in range(500)], ["a"])
    assert many.endswith(" and 490 more")


def test_labels_that_cannot_be_learnt_or_evaluated() -> None:
    train = store_of(("a", "good"), ("b", "bad"))
    check_labels(train, None)
    check_labels(train, store_of(("c", "bad")))
    check_labels(train, store_of(("c", "bad"), ("d", "godo")))
    with pytest.raises(DataError) as caught:
        check_labels(train, store_of(("c", "godo"), ("d", "bda"), path="dev.csv"))
    where, _, message = str(caught.value).partition(": ")
    assert where == "dev.csv:2"
    assert message.startswith(
        "label 'godo' does not occur in training, nor does any other label of these rows; did you mean 'good'?"
    )
    with pytest.raises(DataError, match=r"train\.csv: only the label 'good' in 2 training rows; at least two"):
        check_labels(store_of(("a", "good"), ("b", "good")), None)
    with pytest.raises(DataError, match="no labels in 0 training rows"):
        check_labels(store_of(), None)
    labels = store_of(*((str(i), f"label{i}") for i in range(500)))
    with pytest.raises(DataError, match="did you mean 'label77'") as caught:
        check_labels(labels, store_of(("x", "lable77")))
    assert len(str(caught.value)) < 600


def test_slots_know_both_their_forms() -> None:
    train = store_of((["a", "b"], ("O", "B-x")))
    check_labels(train, store_of((["a", "b"], ("B-x", "I-x"))))
    check_labels(train, store_of((["a", "b"], ("B-y", "O"))))
    with pytest.raises(DataError, match=r"dev\.csv:2: label 'B-y' does not occur in training"):
        check_labels(train, store_of((["a"], ("B-y",)), path="dev.csv"))
    with pytest.raises(DataError, match="only the label 'O'"):
        check_labels(store_of((["a"], ("O",))), None)
    check_labels(store_of(("a", ("toxic",)), ("b", ())), None)  # one label of a set is a question with two answers


def test_numbers_are_no_classes() -> None:
    """They are set aside at random, and nothing about them has to occur twice."""
    examples = (Example(f"text {i}", i / 7, "a.csv", i) for i in range(40))
    store = Dataset.from_examples(examples)
    train, validation = split_validation(store, fraction=0.25, seed=0)
    check_labels(train, validation)
    assert len(validation) == 10
    assert sorted([*train.targets, *validation.targets]) == list(store.targets)  # type: ignore[type-var]
    assert store.class_ids() is None


def test_few_per_label_are_nested_and_of_different_texts() -> None:
    texts = [(f"text {i // 2}", "ab"[i % 3 == 0]) for i in range(60)]
    store = Dataset.from_examples(Example(text, label, "memory", i) for i, (text, label) in enumerate(texts))
    previous: set[str] = set()
    for count in (1, 3, 8):
        found = few_per_label(store, count, seed=3)
        assert dict(found.label_counts()) == {"a": count, "b": count}
        chosen = list(found.texts)
        assert len(set(chosen)) == len(chosen)
        assert previous <= set(chosen)
        previous = set(chosen)
    assert few_per_label(store, 10_000, seed=3).label_counts().keys() == {"a", "b"}
    assert set(few_per_label(store, 8, seed=4).texts) != previous
