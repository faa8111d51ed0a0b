"""Unigram subwords with "▁" at the start of every word, trained deterministically."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from mixling.text.tokenizer_file import MARK, WORD_PATTERN

_LONGEST = 32  # names of labels and relations are longer than SentencePiece's 16

Subword = tuple[str, float]

_STEP = 1e-4  # between the scores that the trainer assigns to characters without an estimate
_DECIMALS = 6


def splitter(*, join_symbols: bool = False) -> pre_tokenizers.PreTokenizer:
    """Return a pre-tokenizer that splits at spaces and marks the start of every word, including the first.

    Args:
        join_symbols: keep neighboring words with fewer than two letters together, as in `( x _ 1 ,` or `] ]`.
    """
    marked = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always", split=not join_symbols)
    if not join_symbols:
        return marked
    return pre_tokenizers.Sequence([marked, pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated")])


def unigram_tokenizer(
    subwords: Sequence[Subword], *, unknown: str, specials: Sequence[str], join_symbols: bool = False
) -> Tokenizer:
    """Return a tokenizer that divides the parts made by `splitter` into subwords."""
    names = [subword for subword, _ in subwords]
    tokenizer = Tokenizer(models.Unigram(list(subwords), unk_id=names.index(unknown)))
    tokenizer.pre_tokenizer = splitter(join_symbols=join_symbols)
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def train_unigram(
    counts: Mapping[str, int], size: int, fixed: Sequence[str], *, unknown: str, whole: int | None = None
) -> list[Subword]:
    """Train subwords and return them with log-probabilities, best first, after the `fixed` ones, whose score is 0.

    Every character of the words has a subword, even beyond `size`, and so has every word that occurs `whole` times.
    There are fewer subwords than `size` if the words contain no more useful ones.

    The trainer visits words in the random order of a hash map. The subwords do not depend on it, but rounding of their
    scores and the order of ties do; here scores are rounded to six decimals and ties are sorted. It also gives
    characters that it does not need as subwords the lowest score plus 0, 1, 2, ... ten-thousandths in random order;
    here all of these get the lowest score.

    Args:
        counts: how often each normalized word (or several joined words, with marks between them) occurs.
        size: number of subwords, the fixed ones included.
        fixed: special tokens.
        unknown: the special token for characters without a subword.
        whole: words that occur at least this often are subwords, scored by their relative frequency.
    """
    words = {MARK + word: count for word, count in counts.items() if word}
    if not words:
        return [(name, 0.0) for name in fixed]
    chars = {char for word in words for char in word}
    size = max(size, len(fixed) + len(chars))
    trainer = trainers.UnigramTrainer(
        vocab_size=size + size // 8,  # room for the subwords that `_open_ends` adds
        special_tokens=list(fixed),
        unk_token=unknown,
        max_piece_length=_LONGEST,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.train_from_iterator(repeated(_open_ends(words, size)), trainer)
    trained = json.loads(tokenizer.to_str())["model"]["vocab"][len(fixed) :]
    trained = [(subword, score) for subword, score in trained if not subword[1:].endswith(MARK)]
    lowest = min(score for _, score in trained)
    frequent = {word for word, count in words.items() if whole is not None and count >= whole and MARK not in word[1:]}
    # The trainer initializes characters by their counts but longer strings by the number of distinct words with them,
    # so a word of one character, such as a bracket between symbols, or a rare word would never become a subword.
    total = sum(words.values())
    chosen = frequent | {word for word, count in words.items() if len(word) == 2 and count > 1}
    log_frequencies = {word: round(math.log(words[word] / total), _DECIMALS) for word in chosen}

    def stable(subword: str, score: float) -> float:
        steps = (score - lowest) / _STEP
        unneeded = len(subword) == 1 and steps < len(chars) and abs(steps - round(steps)) < 1e-3
        return round(lowest if unneeded else score, _DECIMALS)

    scores = {subword: stable(subword, score) for subword, score in trained} | log_frequencies
    subwords = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    room = size - len(fixed) - len(chars)
    kept = frequent | {subword for subword, _ in [item for item in subwords if len(item[0]) > 1][:room]}
    return [(name, 0.0) for name in fixed] + [item for item in subwords if len(item[0]) == 1 or item[0] in kept]


def _open_ends(words: Mapping[str, int], size: int) -> dict[str, int]:
    """Append a mark to one occurrence of each frequent word.

    The trainer considers only strings that are followed by different characters in the distinct words (the end of a
    word counts as one), so a word that is no prefix of another would never become a subword, however frequent.
    """
    out = dict(words)
    for word in sorted(words, key=lambda word: (-words[word], word))[:size]:
        if words[word] > 1:
            out[word] -= 1
            out[word + MARK] = 1
    return out


def repeated(counts: Mapping[str, int]) -> Iterable[str]:
    """Yield the words in order, each as often as it occurs, because trainers do not accept counts."""
    for word in sorted(counts):
        for _ in range(counts[word]):
            yield word
