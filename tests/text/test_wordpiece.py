"""WordPiece: the subwords of the `tokenizers` library, which is the oracle, and of the loops of the definition."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, trainers

from mixling.text.wordpiece import split_word, train_wordpiece

WORDS = st.lists(st.text("abcß東", max_size=7), max_size=40)


def loops(counts: Counter[str], size: int) -> list[str]:
    """Merge the most frequent pair, counted anew at each step; of several, the one of the lowest ids."""
    chars = sorted({char for word in counts for char in word})
    names = ["[UNK]", *chars, *sorted({"##" + char for word in counts for char in word[1:]})]
    spelled = {word: [word[:1], *("##" + char for char in word[1:])] for word in counts if word}
    while len(names) < size:
        pairs: Counter[tuple[int, int]] = Counter()
        for word, parts in spelled.items():
            for a, b in pairwise(parts):
                pairs[names.index(a), names.index(b)] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        a, b = names[best[0]], names[best[1]]
        if a + b.removeprefix("##") not in names:
            names.append(a + b.removeprefix("##"))
        for word, parts in spelled.items():
            merged: list[str] = []
            for part in parts:
                if merged and (merged[-1], part) == (a, b):
                    merged[-1:] = [a + b.removeprefix("##"), ""]  # the empty one keeps it from being merged again
                else:
                    merged.append(part)
            spelled[word] = [part for part in merged if part]
    return names


@given(WORDS, st.integers(1, 60))
def test_training_merges_the_most_frequent_pair(words: list[str], size: int) -> None:
    assert train_wordpiece(Counter(words), size, ["[UNK]"]) == loops(Counter(words), size)


def test_training_gives_the_subwords_of_the_library() -> None:
    letters = "abcdefghijklmnopqrstuvwxyzäöüéñабвгд京東"
    words = Counter(letters[i % 7] + letters[i * 13 % 37] * (i % 4) + letters[i * i % 31] for i in range(1, 3_000))
    ours = train_wordpiece(words, 600, ["[UNK]"])
    chars = sorted({char for word in words for char in word})
    # Characters that the library does not know before it starts get ids in the order of a hash map.
    fixed = ["[UNK]", *chars, *sorted({"##" + char for word in words for char in word[1:]})]
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=fixed, show_progress=False)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.train_from_iterator((word for word in sorted(words) for _ in range(words[word])), trainer)
    ids = json.loads(tokenizer.to_str())["model"]["vocab"]
    assert ours == sorted(ids, key=ids.__getitem__)
    assert len(ours) == 600


@given(st.text("abcß東x", min_size=1, max_size=30), WORDS)
def test_words_are_split_as_the_library_splits_them(word: str, words: list[str]) -> None:
    ids = {name: number for number, name in enumerate(train_wordpiece(Counter(words), 30, ["[UNK]"]))}
    model = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=1_000)
    assert (split_word(word, ids) or ["[UNK]"]) == [token.value for token in model.tokenize(word)]
