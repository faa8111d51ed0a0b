"""Training texts with changed words: where they change, that tags stay, and that nothing else depends on it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mixling import Dataset, Example, TextConfig, TextEncoder, TrainConfig
from mixling.answers import LabelSet
from mixling.data import TextSet
from mixling.errors import ConfigError
from mixling.research.pretraining import MASKED_LM
from mixling.runs.resolve import LABELS, resolve
from mixling.tasks import Classification, Tagging, Task
from mixling.text import MinHash, Text, train_vocabulary
from mixling.training import NO_AUGMENTATION, AugmentationConfig, Augmenter, BatchPart, LabeledData, augmentation
from mixling.training.augmentation import MILD_AUGMENTATION

TEXTS = ["please book a table for dinner", "play some modern music", "what is the weather tomorrow"] * 20
ALL_PSEUDO, ALL_TYPOS = AugmentationConfig(pseudo_words=1, typos=0), AugmentationConfig(pseudo_words=0, typos=1)
INDICES = np.arange(8)


def encoder(**options: object) -> TextEncoder:
    config = TextConfig(projection=MinHash(num_features=64, num_hashes=8), max_len=16, vocabulary_size=100, **options)
    return TextEncoder(config, train_vocabulary(TEXTS, config))


def augmenter(config: AugmentationConfig, **options: object) -> Augmenter:
    return Augmenter.of_texts(config, encoder(**options), TEXTS)


def words_of(made: Augmenter, texts: list[Text], *, step: int = 0) -> list[list[str]]:
    encoded = made.encode(texts, BatchPart(np.arange(len(texts)), len(texts), 0, step))
    words = ["[PAD]", "[SEP]", "[EMPTY]", *made.encoder.table_words()]
    return [[words[row] for row in item.words] for item in encoded]


def data(config: AugmentationConfig | None, *, tagged: bool = False, **options: object) -> LabeledData:
    kind: type[Task] = Tagging if tagged else Classification
    labels = LabelSet(("O", "B-thing", "I-thing"), "iob") if tagged else LabelSet(("no", "yes"), "single")

    def example(number: int, text: str) -> Example:
        words = text.split()
        tags = tuple("B-thing" if word in ("table", "music", "weather") else "O" for word in words)
        return Example(words if tagged else text, tags if tagged else ("no", "yes")[number % 2], "rows.jsonl", number)

    train, made, task = Dataset.from_examples(map(example, range(60), TEXTS)), encoder(**options), kind(labels)
    texts = TextSet(train, made)
    targets = task.targets(train.targets)
    return LabeledData(
        objective=task, train=texts, train_targets=targets, validation=texts,
        validation_task=task, validation_targets=targets,
        token_dropout=0.2, augmenter=None if config is None else Augmenter.of_texts(config, made, TEXTS),
    )  # fmt: skip


def test_all_words_become_what_the_configuration_asks_for() -> None:
    known = {word for text in TEXTS for word in text.split()}
    pseudo, typos = words_of(augmenter(ALL_PSEUDO), TEXTS), words_of(augmenter(ALL_TYPOS), TEXTS)
    assert [len(words) for words in pseudo] == [len(text.split()) for text in TEXTS]
    new = [word for words in pseudo for word in words if word not in known]
    assert len(new) > 0.8 * sum(map(len, pseudo))  # a blend of a word with itself may be the word
    assert len(set(new)) > 50
    assert words_of(augmenter(ALL_TYPOS), [text.split() for text in TEXTS]) == typos
    for before, after in zip(TEXTS, typos, strict=True):
        for word, other in zip(before.split(), after, strict=True):
            assert (word == other) == (len(word) < 3)
    assert words_of(augmenter(NO_AUGMENTATION), TEXTS) == [text.split() for text in TEXTS]


@pytest.mark.parametrize(("config", "rate"), [(AugmentationConfig(pseudo_words=0.3, typos=0), 0.3), (ALL_TYPOS, 1.0)])
def test_words_change_at_the_rate(config: AugmentationConfig, rate: float) -> None:
    texts = ["something wonderful"] * 2000
    changed = [word not in ("something", "wonderful") for words in words_of(augmenter(config), texts) for word in words]
    assert abs(np.mean(changed) - rate) < 0.03


@pytest.mark.parametrize("split", [False, True])
def test_texts_that_are_encoded_already_change_in_the_same_way(split: bool) -> None:
    texts = [text.split() if split else text for text in [*TEXTS, ""]]
    config, known = AugmentationConfig(pseudo_words=0.3, typos=0.3), encoder()
    rows, whole = [item.words for item in known.encode(texts)], np.arange(len(texts))
    expected = words_of(Augmenter.of_texts(config, encoder(), TEXTS), texts, step=5)
    made = Augmenter.of_texts(config, encoder(), TEXTS)
    for step in (4, 5):
        changed = made.change(rows, known, BatchPart(whole, len(texts), 0, step))
    words = ["[PAD]", "[SEP]", "[EMPTY]", *made.encoder.table_words()]
    assert [[words[row] for row in item] for item in changed] == expected
    again = made.change(rows[3:5], known, BatchPart(np.array([3, 4]), len(texts), 0, 5))
    assert [item.tolist() for item in again] == [item.tolist() for item in changed[3:5]]
    bags, own = made.encoder.bags(rows[0]).features, known.bags(rows[0]).features
    assert bags.tolist() == own.tolist()


@pytest.mark.parametrize("marks", [{}, {"segments": True, "overlap": True}])
@pytest.mark.parametrize("config", [AugmentationConfig(pseudo_words=0.3, typos=0.3), ALL_PSEUDO, NO_AUGMENTATION])
@pytest.mark.parametrize("kept", [True, False])
def test_pairs_change_together_as_they_do_one_by_one(
    marks: dict[str, bool], config: AugmentationConfig, kept: bool
) -> None:
    texts: list[Text] = [("", ""), ("Play it", ""), *zip(TEXTS, [*TEXTS[1:], "Play WHAT " * 12], strict=True)]
    known, whole = encoder(**marks), np.arange(len(texts))
    if kept:
        known.encode(texts)
    expected = Augmenter.of_texts(config, encoder(**marks), TEXTS)
    made = Augmenter.of_texts(config, encoder(**marks), TEXTS)
    for step in (4, 5):
        changed = made.change_several(texts, known, BatchPart(whole, len(texts), 0, step))
        wanted = expected.encode(texts, BatchPart(whole, len(texts), 0, step))
        keys = [[0, 1, 2, *one.encoder.table_keys()] for one in (made, expected)]
        for found, item in zip(changed, wanted, strict=True):
            assert [keys[0][row] for row in found] == [keys[1][row] for row in item.words]
    again = made.change_several(texts[3:5], known, BatchPart(np.array([3, 4]), len(texts), 0, 5))
    assert [item.tolist() for item in again] == [item.tolist() for item in changed[3:5]]


def test_pairs_without_words_are_separators() -> None:
    known = encoder(overlap=True)
    made = Augmenter.of_texts(AugmentationConfig(), known, TEXTS)
    changed = made.change_several([("", ""), (" ", "")], known, BatchPart(np.arange(2), 2, 0, 0))
    assert [[["[PAD]", "[SEP]"][row] for row in item] for item in changed] == [["[SEP]"], ["[SEP]"]]


def test_a_table_that_is_full_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "_TABLE_WORDS", 64)
    known, pairs, whole = encoder(overlap=True), list(itertools.pairwise(TEXTS)), np.arange(len(TEXTS) - 1)
    known.encode(pairs)
    made = Augmenter.of_texts(AugmentationConfig(), known, TEXTS)
    tables = set()
    for step in range(6):
        made.change_several(pairs, known, BatchPart(whole, len(pairs), 0, step))
        tables.add(id(made.encoder))
        bags = made.encoder.bags(np.arange(len(made.encoder)))
        assert len(bags.features) == len(made.encoder)
    assert len(tables) > 1


def test_each_step_draws_anew_and_a_step_always_the_same() -> None:
    made = augmenter(AugmentationConfig())
    first = words_of(made, TEXTS, step=1)
    assert words_of(made, TEXTS, step=2) != first
    assert words_of(made, TEXTS, step=1) == first
    assert words_of(augmenter(AugmentationConfig()), TEXTS, step=1) == first
    repeated = [first[i] for i in range(0, 60, 3)]
    assert len({tuple(words) for words in repeated}) > 5  # the same text, drawn for each place in the batch


@pytest.mark.parametrize("tokens", ["words", "subwords"])
def test_a_part_of_a_batch_is_what_the_whole_has_there(tokens: str) -> None:
    made = data(AugmentationConfig(pseudo_words=0.4, typos=0.4), tokens=tokens)
    indices, part = np.array([3, 1, 20, 0, 7]), np.array([1, 4])
    whole, _, _ = made.batch(indices, np.arange(5), seed=0, step=3)
    mine, targets, _ = made.batch(indices, part, seed=0, step=3)
    assert targets.tolist() == [made.train_targets[1], made.train_targets[7]]
    for row, location in enumerate(part):
        bags = [item.features[item.index[i][item.mask[i]] - 1] for item, i in ((mine, row), (whole, location))]
        dropped = [item.index[i][item.mask[i]] == 0 for item, i in ((mine, row), (whole, location))]
        assert (dropped[0] == dropped[1]).all()
        assert bags[0][~dropped[0]].tolist() == bags[1][~dropped[1]].tolist()


@pytest.mark.parametrize("tokens", ["words", "subwords"])
def test_tags_stay_with_their_words(tokens: str) -> None:
    plain, made = (data(config, tagged=True, tokens=tokens) for config in (None, ALL_PSEUDO))
    _, before, _ = plain.batch(INDICES, INDICES, seed=0, step=0)
    batch, after, _ = made.batch(INDICES, INDICES, seed=0, step=0)
    width = min(before.shape[1], after.shape[1])
    assert before[:, :width].tolist() == after[:, :width].tolist()
    assert (after[:, width:] == -100).all()
    assert batch.num_answers == after.shape[1]


def test_a_changed_word_is_no_longer_shared_by_a_pair() -> None:
    made = augmenter(ALL_TYPOS, overlap=True)
    pair = ("weather tomorrow", "weather tomorrow")
    bags = made.encoder.bags(made.encode([pair], BatchPart(np.arange(1), 1, 0, 0))[0].words)
    shared = made.encoder.config.num_rows - 1
    assert not (bags.features == shared).any()
    unchanged = augmenter(NO_AUGMENTATION, overlap=True)
    bags = unchanged.encoder.bags(unchanged.encode([pair], BatchPart(np.arange(1), 1, 0, 0))[0].words)
    assert (bags.features == shared).any(1).sum() == 4


def test_the_encoder_of_the_training_texts_learns_no_changed_word() -> None:
    made = data(ALL_PSEUDO)
    size = len(made.train.encoder)
    made.batch(INDICES, INDICES, seed=0, step=0)
    assert len(made.train.encoder) == size
    assert made.augmenter is not None
    assert len(made.augmenter.encoder) > 20


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (LABELS, {"train": {"augmentation": {"pseudo_words": 0.7, "typos": 0.5}}}, "1.2 of the words"),
        (LABELS, {"train": {"augmentation": {"typo_kinds": ["emoji"]}}}, "keyboard"),
        (LABELS, {"task": "question_answering", "train": {"augmentation": {"typos": 0.1}}}, "stay as they are"),
        (MASKED_LM, {"train": {"augmentation": {"typos": 0.1}}}, "applies to tasks with labels only"),
    ],
)
def test_what_cannot_be_used_is_refused(spec: object, options: dict[str, object], message: str) -> None:
    values = {"task": "classification"} if spec is LABELS else {}
    with pytest.raises(ConfigError, match=message):
        resolve(values, spec=spec, overrides=options)


def test_the_default_is_the_task_s() -> None:
    known = {"rows_per_label": None, "init": "random", "distilled": False}
    for init in ("random", "rows"):
        default = TrainConfig().resolved(100, **(known | {"init": init}))
        assert (default.augmentation, default.token_dropout) == (AugmentationConfig(), 0.05)
    nothing = TrainConfig().resolved(100, **known, augmented=False)
    assert (nothing.augmentation, nothing.token_dropout) == (NO_AUGMENTATION, 0.2)
    for change in ({"single": False}, {"distilled": True}, {"init": "text"}, {"init": "model"}):
        found = TrainConfig().resolved(100, **(known | change))
        assert (found.augmentation, found.token_dropout) == (MILD_AUGMENTATION, 0.2)
    assert TrainConfig(token_dropout=0.3).resolved(100, **known).token_dropout == 0.3
    assert TrainConfig(augmentation=ALL_TYPOS).resolved(100, **known).augmentation == ALL_TYPOS
