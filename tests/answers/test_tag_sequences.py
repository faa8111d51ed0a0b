"""The best sequence of tags, and the probabilities of tags, are those of all IOB2 sequences."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from mixling import ModelFileError
from mixling.answers import TagSequences

from ..references import tag_sequences as reference

NAMES = ("O", "B-city", "B-time", "I-city", "I-time", "I-of no begin")
IDS = range(len(NAMES))


def is_iob2(ids: tuple[int, ...]) -> bool:
    """Whether I-x follows B-x or I-x; a type without B-x may begin with I-x."""
    tags = [NAMES[i] for i in ids]
    for i, tag in enumerate(tags):
        begin = f"B-{tag[2:]}"
        if tag.startswith("I-") and begin in NAMES and (i == 0 or tags[i - 1] not in (begin, tag)):
            return False
    return True


def scores(sequences: list[tuple[int, ...]], logits: np.ndarray, transitions: np.ndarray | None) -> np.ndarray:
    """The sum of the logits and transitions of each sequence."""
    out = []
    for ids in sequences:
        total = sum(float(logits[word, tag]) for word, tag in enumerate(ids))
        if transitions is not None:
            total += sum(float(transitions[a, b]) for a, b in itertools.pairwise(ids))
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("sequences_of", [TagSequences, reference.TagSequences])
def test_both_are_those_of_brute_force(words: int, learned: bool, sequences_of: type) -> None:
    chance = np.random.default_rng(words)
    sequences = [ids for ids in itertools.product(IDS, repeat=words) if is_iob2(ids)]
    changed = 0
    for _ in range(40):
        transitions = chance.normal(scale=2, size=(6, 6)).astype(np.float32) if learned else None
        made = sequences_of(NAMES, transitions)
        logits = chance.normal(size=(words, 6)).astype(np.float32)
        logits[:, 3:] += 1  # tags within spans are likely
        totals = scores(sequences, logits, transitions)
        best = sequences[totals.argmax()]
        assert tuple(made.best(logits)) == best
        changed += tuple(logits.argmax(-1)) != best
        expected = np.zeros((words, 6))
        for ids, chance_of in zip(sequences, np.exp(totals - totals.max()), strict=True):
            expected[np.arange(words), ids] += chance_of
        if learned:
            found = made.probabilities(logits.astype(np.float64))
            np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), rtol=1e-6, atol=1e-9)
    assert changed > 10


@pytest.mark.parametrize("learned", [False, True])
def test_tags_with_their_probabilities_are_those_of_the_reference(learned: bool) -> None:
    chance = np.random.default_rng(4)
    for number in range(20):
        transitions = chance.normal(scale=2, size=(6, 6)).astype(np.float32) if learned else None
        made, expected = TagSequences(NAMES, transitions), reference.TagSequences(NAMES, transitions)
        texts = [chance.normal(scale=3, size=(words, 6)).astype(np.float32) for words in (0, 3, 1, 0, 8 + number, 2, 0)]
        found = made.best_with_probabilities(texts)
        for one, two, logits in zip(found, expected.best_with_probabilities(texts), texts, strict=True):
            assert one[0].tolist() == two[0].tolist() == made.best(logits).tolist()
            np.testing.assert_allclose(one[1], two[1], rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(made.probabilities(logits), expected.probabilities(logits), rtol=1e-6, atol=1e-9)
    assert list(made.best_with_probabilities([])) == []
    again = pickle.loads(pickle.dumps(made))  # as workers get it
    assert again.best(texts[1]).tolist() == made.best(texts[1]).tolist()


def test_names_that_are_no_tags_are_refused() -> None:
    for names in (("B-a", "O", "I-a"), ("O", "B-a", "B-a")):
        with pytest.raises(ModelFileError, match="labels: "):
            TagSequences(names).best(np.eye(3, dtype=np.float32))


def test_a_tagger_refuses_logits_of_another_size() -> None:
    from mixling.native import _core as native

    tagger = native.Tagger(("O", "B-a", "I-a"), None)
    logits, lengths = np.zeros((4, 3), np.float32).tobytes(), np.array([1, 3], np.int32)
    assert len(tagger.best(logits, lengths.tobytes())[0]) == 16
    for wrong in ([1, 2], [5, -1], [1, 3, 1], [-1, 5]):
        with pytest.raises(ValueError, match="a logit for each tag"):
            tagger.best(logits, np.array(wrong, np.int32).tobytes())
    with pytest.raises(ValueError, match="a logit for each tag"):
        tagger.best(logits[:-4], lengths.tobytes())
    with pytest.raises(ValueError, match="score for each pair"):
        native.Tagger(("O", "B-a"), bytes(12))
    with pytest.raises(ValueError, match="finite number"):
        native.Tagger(("O", "B-a"), np.full(4, np.nan, np.float32).tobytes())
    with pytest.raises(TypeError):
        native.Tagger(("O", 1), None)


@pytest.mark.parametrize("learned", [False, True])
def test_texts_together_have_the_sequences_that_each_has(learned: bool) -> None:
    """Also where one ends with a tag that the first of the next could follow, and where one has no words."""
    chance = np.random.default_rng(3)
    made = TagSequences(NAMES, chance.normal(size=(6, 6)).astype(np.float32) if learned else None)
    texts = [chance.normal(size=(words, 6)) for words in (0, 3, 1, 0, 4, 2, 0)]
    texts += [np.eye(6)[[0, 1, 3]], np.eye(6)[[3, 3, 0]], np.eye(6)[[4]], np.eye(6)[[5, 5]], np.zeros((0, 6))]
    for (found, _), logits in zip(made.best_with_probabilities(texts), texts, strict=True):
        assert found.tolist() == made.best(logits).tolist()
        assert is_iob2(tuple(found))


def test_without_transitions_each_word_has_a_softmax_of_its_own() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 6))
    exponentials = np.exp(logits)
    found = TagSequences(NAMES).probabilities(logits)
    np.testing.assert_allclose(found, exponentials / exponentials.sum(1, keepdims=True))


@pytest.mark.parametrize("transitions", [None, np.zeros((6, 6), np.float32)])
def test_no_words(transitions: np.ndarray | None) -> None:
    made, none = TagSequences(NAMES, transitions), np.zeros((0, 6))
    assert made.best(none).shape == (0,)
    assert made.probabilities(none).shape == (0, 6)


def test_transitions_of_zero_change_no_best_sequence_and_extreme_logits_have_probabilities() -> None:
    logits = np.random.default_rng(1).normal(scale=200, size=(30, 6))
    made = TagSequences(NAMES, np.zeros((6, 6), np.float32))
    assert made.best(logits).tolist() == TagSequences(NAMES).best(logits).tolist()
    np.testing.assert_allclose(made.probabilities(logits).sum(1), 1)
