"""Unigram subwords: trained the same in every process, with "▁" at the start of every word."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

MARK = "▁"  # U+2581, as in SentencePiece
# A word of two letters; what is between such words are symbols.
WORD_PATTERN = rf"{MARK}[^{MARK}]*\p{{L}}[^{MARK}]*\p{{L}}[^{MARK}]*"
MAX_SUBWORD_CHARS = 32  # the names of labels and relations are longer than SentencePiece's 16

Subword = tuple[str, float]

_STEP = 1e-4  # between the scores that the trainer gives characters it has no estimate for
_DECIMALS = 6


def splitter(*, join_symbols: bool = False) -> pre_tokenizers.PreTokenizer:
    """Splits at spaces and marks the start of every word, also the first.

    Args:
        join_symbols: neighbouring words without two letters, as in `( x _ 1 ,` or `] ]`, stay together.
    """
    marked = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always", split=not join_symbols)
    if not join_symbols:
        return marked
    return pre_tokenizers.Sequence([marked, pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated")])


def unigram_tokenizer(
    subwords: Sequence[Subword], *, unknown: str, specials: Sequence[str], join_symbols: bool = False
) -> Tokenizer:
    """Pieces of what `splitter` gives; `specials` are subwords that no text spells."""
    names = [subword for subword, _ in subwords]
    tokenizer = Tokenizer(models.Unigram(list(subwords), unk_id=names.index(unknown)))
    tokenizer.pre_tokenizer = splitter(join_symbols=join_symbols)
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def train_unigram(
    counts: Mapping[str, int], size: int, fixed: Sequence[str], *, unknown: str, whole: int | None = None
) -> list[Subword]:
    """Pieces with their log-probabilities, best first, after the `fixed` ones, whose score is 0.

    Every character of the words has a piece, even beyond `size`, and so has every word that is to be `whole`; there are
    fewer subwords than `size` where the words have no more that are worth one.

    The trainer visits words in the random order of a hash map. That changes its sums by rounding, which ends at the
    sixth decimal here, and the order of ties, which are sorted here; and it hands the characters that no word needs as
    subwords of their own the lowest score plus 0, 1, 2, ... ten-thousandths in random order, which are all the lowest
    score here. The subwords themselves do not depend on the order.

    Args:
        counts: how often each normalized word occurs, or several that stand together, with marks between them.
        size: number of subwords, the fixed ones included.
        fixed: subwords that no text spells.
        unknown: the one of them that stands for characters without a piece.
        whole: words that occur this often are subwords, with the scores of their shares among all words.
    """
    words = {MARK + word: count for word, count in counts.items() if word}
    if not words:
        return [(name, 0.0) for name in fixed]
    chars = {char for word in words for char in word}
    size = max(size, len(fixed) + len(chars))
    trainer = trainers.UnigramTrainer(
        vocab_size=size + size // 8,  # for those that `_open_ends` makes
        special_tokens=list(fixed),
        unk_token=unknown,
        max_piece_length=MAX_SUBWORD_CHARS,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.train_from_iterator(repeated(_open_ends(words, size)), trainer)
    trained = json.loads(tokenizer.to_str())["model"]["vocab"][len(fixed) :]
    trained = [(subword, score) for subword, score in trained if not subword[1:].endswith(MARK)]
    lowest = min(score for _, score in trained)
    often = {word for word, count in words.items() if whole is not None and count >= whole and MARK not in word[1:]}
    fractions = _fractions(words, often | {word for word, count in words.items() if len(word) == 2 and count > 1})

    def resolved(subword: str, score: float) -> float:
        steps = (score - lowest) / _STEP
        unneeded = len(subword) == 1 and steps < len(chars) and abs(steps - round(steps)) < 1e-3
        return round(lowest if unneeded else score, _DECIMALS)

    scores = {subword: resolved(subword, score) for subword, score in trained} | fractions
    subwords = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    room = size - len(fixed) - len(chars)
    kept = often | {subword for subword, _ in [item for item in subwords if len(item[0]) > 1][:room]}
    return [(name, 0.0) for name in fixed] + [item for item in subwords if len(item[0]) == 1 or item[0] in kept]


def _open_ends(words: Mapping[str, int], size: int) -> dict[str, int]:
    """The words; one occurrence of each frequent one goes on with a mark.

    The trainer considers only strings that are followed by different characters somewhere in the distinct words: the
    end of a word is one for it, but a word that no longer one begins with would never be a piece, however frequent.
    """
    out = dict(words)
    for word in sorted(words, key=lambda word: (-words[word], word))[:size]:
        if words[word] > 1:
            out[word] -= 1
            out[word + MARK] = 1
    return out


def _fractions(words: Mapping[str, int], chosen: Iterable[str]) -> dict[str, float]:
    """Words with the scores of their shares among all words.

    The trainer starts characters at their counts but longer strings at the number of distinct words that have them, by
    which a word of one character, such as a bracket between symbols, would never be one piece, nor a rare word.
    """
    total = sum(words.values())
    return {word: round(math.log(words[word] / total), _DECIMALS) for word in chosen}


def repeated(counts: Mapping[str, int]) -> Iterable[str]:
    """The words in order, each as often as it counts: trainers take no numbers."""
    for word in sorted(counts):
        for _ in range(counts[word]):
            yield word
