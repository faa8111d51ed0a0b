"""Noise in words and texts: what each kind may change, at which rate, and that all else stays."""

from __future__ import annotations

import unicodedata
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling.errors import ConfigError
from mixling.text import NOISES, NoiseLevel, WordNumbers, blend, blendable, mixed_noise, noise, noisy_texts, split_words
from mixling.text.noise import noisy

WORDS = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyzÄéßAMZ1'"), min_size=1, max_size=12)
SEEDS = st.integers(0, 1 << 40)
TYPOS = ("swap", "delete", "insert", "keyboard", "ocr")
LONG = " ".join(f"{word} {word}ing, Über-{word}!" for word in ["search", "booking", "weather", "modern"] * 100)
# Keys that touch on a keyboard of the layout QWERTY, by looking at one.
TOUCHING = {"g": set("ftyhbv"), "q": set("wa"), "m": set("njk"), "l": set("kop"), "a": set("qwsz")}


@given(WORDS, SEEDS)
def test_a_typo_is_one_slip(word: str, seed: int) -> None:
    kept = len(word) < 3 or any(letter.isdigit() for letter in word)
    made = {kind: NOISES[kind](word, Random(seed)) for kind in TYPOS}
    if kept:
        assert set(made.values()) == {word}
        return
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)} - {word}
    assert made["swap"] in (swapped or {word})
    assert made["delete"] in {word[:i] + word[i + 1 :] for i in range(len(word))}
    assert made["insert"] in {word[:i] + word[i] + word[i:] for i in range(len(word))}
    differing = [(a, b) for a, b in zip(word, made["keyboard"], strict=True) if a != b]
    assert len(differing) == any(letter.isascii() and letter.isalpha() for letter in word)
    assert all(a.isupper() == b.isupper() for a, b in differing)


@pytest.mark.parametrize("key", TOUCHING)
def test_a_wrong_key_is_one_beside_the_right_one(key: str) -> None:
    word = f"-{key}-"
    assert {NOISES["keyboard"](word, Random(seed))[1] for seed in range(200)} == TOUCHING[key]


def test_characters_are_taken_for_others_that_look_alike() -> None:
    found = {NOISES["ocr"]("modern", Random(seed)) for seed in range(200)}
    assert {"modem", "rnodern", "m0dern"} <= found
    assert "modern" not in found
    assert NOISES["ocr"]("ççç", Random(0)) == "ççç"


def test_typos_of_many_words_are_those_of_each() -> None:
    """In C as in Python, which computes those of words that are not in ASCII, or very long."""
    random = Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzABCVWRNLI" + "rnvwcli" * 3 + "-'5"
    words = ["".join(random.choice(letters) for _ in range(random.randrange(9))) for _ in range(5000)]
    words += ["aaa", "zzz", "aa", "", "ab1c", "Über", "京都の人", "x" * 999, "ab" * 900]
    kinds = [random.choice(TYPOS) for _ in words]
    numbers = np.array([random.randrange(1 << 20) for _ in words])
    expected = [
        NOISES[kind](word, WordNumbers(word, int(n))) for kind, word, n in zip(kinds, words, numbers, strict=True)
    ]
    assert sum(made != word for made, word in zip(expected, words, strict=True)) > 3000
    assert noise.misspell(words, kinds, numbers) == expected


def test_accents_are_those_of_latin_letters() -> None:
    for word, bare in [("naïve", "naive"), ("Čeština", "Cestina"), ("plain", "plain"), ("हिन्दी", "हिन्दी"), ("ё", "ё")]:
        assert NOISES["accents"](word, Random(0)) == unicodedata.normalize("NFC", bare)


@given(WORDS, SEEDS)
def test_case_and_emoji_leave_the_letters(word: str, seed: int) -> None:
    assert NOISES["case"](word, Random(seed)).casefold() == word.casefold()
    emoji = NOISES["emoji"](word, Random(seed))
    assert emoji.startswith(word)
    assert unicodedata.category(emoji[len(word)]) == "So"


@pytest.mark.parametrize("noise", TYPOS)
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_words_change_at_the_rate_and_what_is_between_them_stays(noise: str, rate: float) -> None:
    made = noisy(LONG, NoiseLevel(noise, rate), Random(1))
    assert isinstance(made, str)
    before, after = split_words(LONG), split_words(made)
    assert len(before) == len(after)
    eligible = [(a, b) for a, b in zip(before, after, strict=True) if len(a) > 1]
    fraction = sum(a != b for a, b in eligible) / len(eligible)
    assert abs(fraction - rate) < 0.05
    assert [word for word in after if len(word) == 1] == [word for word in before if len(word) == 1]
    assert made.count(" ") == LONG.count(" ")


def test_pairs_and_sentences_of_words_keep_their_form() -> None:
    pair, words = ("book a table", "reserve seats"), ["book", "a", "table", "now"]
    made = noisy_texts([pair, words], NoiseLevel("swap", 1.0))
    assert isinstance(made[0], tuple)
    assert isinstance(made[1], list)
    assert [sorted(part) for part in made[0]] == [sorted(part) for part in pair]
    assert made[0] != pair
    assert [sorted(word) for word in made[1]] == [sorted(word) for word in words]
    assert len(noisy_texts([words], NoiseLevel("emoji", 1.0))[0]) == len(words)


def test_what_becomes_of_a_text_depends_on_its_index_and_the_seed_alone() -> None:
    texts = ["book a table for the evening", "play something by a famous singer", "book a table for the evening"]
    level = NoiseLevel("delete", 0.5)
    made = noisy_texts(texts, level, seed=3)
    assert noisy_texts(["other", *texts[1:]], level, seed=3)[1:] == made[1:]
    assert noisy_texts(texts[1:], level, seed=3, first=1) == made[1:]
    assert made[0] != made[2]
    assert made != noisy_texts(texts, level, seed=4)
    assert noisy_texts(texts, NoiseLevel("delete", 0.0)) == texts


def test_mixed_noise_makes_each_kind_of_slip_at_the_rate() -> None:
    (made,) = mixed_noise([LONG.split()], ("swap", "delete", "insert"), 0.3, seed=1)
    assert isinstance(made, list)
    slips = [(a, b) for a, b in zip(LONG.split(), made, strict=True) if a != b]
    assert abs(len(slips) / len(made) - 0.3) < 0.05
    lengths = [len(b) - len(a) for a, b in slips]
    assert set(lengths) == {-1, 0, 1}
    assert all(abs(lengths.count(length) / len(slips) - 1 / 3) < 0.08 for length in (-1, 0, 1))
    texts = ["book a table for the evening", ("play something", "by a famous singer"), "book a table for the evening"]
    found = mixed_noise(texts, ("keyboard",), 1.0)
    assert mixed_noise(["other", *texts[1:]], ("keyboard",), 1.0)[1:] == found[1:]
    assert isinstance(found[1], tuple)
    assert found[0] != found[2]
    assert found != mixed_noise(texts, ("keyboard",), 1.0, seed=1)


def test_unknown_noises_and_rates_are_refused() -> None:
    with pytest.raises(ConfigError, match="swap"):
        NoiseLevel("swaps", 0.1)
    with pytest.raises(ConfigError, match=r"1\.5.*0 to 1"):
        NoiseLevel("swap", 1.5)


@given(st.lists(WORDS, min_size=1, max_size=8), SEEDS)
def test_a_blend_begins_as_one_word_and_ends_as_another(words: list[str], seed: int) -> None:
    pool = blendable([*words, "weather", "it's", "cat", "weather"])
    assert pool.count("weather") == 1
    assert all(len(word) >= 4 and word.isalpha() for word in pool)
    made = blend(pool, Random(seed))
    assert any(
        made == first[:i] + second[j:]
        for first in pool
        for second in pool
        for i in range(2, len(first) - 1)
        for j in range(2, len(second) - 1)
    )


def test_the_random_numbers_of_a_word_are_splitmix64() -> None:
    numbers = WordNumbers("", 1234567)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [numbers.random() for _ in published] == [(value >> 11) * 2.0**-53 for value in published]
    assert len({WordNumbers(word, number).random() for word in ("a", "b", "ab") for number in range(5)}) == 15
