"""Unigram pieces: trained the same in every process, with "▁" at the start of every word."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

MARK = "▁"  # U+2581, as in SentencePiece
MAX_PIECE_CHARS = 32  # the names of labels and relations are longer than SentencePiece's 16

Piece = tuple[str, float]

_STEP = 1e-4  # between the scores that the trainer gives characters it has no estimate for
_DECIMALS = 6


def unigram_tokenizer(pieces: Sequence[Piece], *, unknown: str, specials: Sequence[str] = ()) -> Tokenizer:
    """Splits at spaces and marks the start of every word, also the first; `specials` are pieces that no text spells."""
    names = [piece for piece, _ in pieces]
    tokenizer = Tokenizer(models.Unigram(list(pieces), unk_id=names.index(unknown)))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    if specials:
        tokenizer.add_special_tokens(list(specials))
    return tokenizer


def train_unigram(counts: Counter[str], size: int, fixed: Sequence[str], *, unknown: str) -> list[Piece]:
    """Pieces with their log-probabilities, best first, after the `fixed` ones, whose score is 0.

    Every character of the words has a piece, even beyond `size`; there are fewer pieces than `size` where the words
    have no more that occur twice.

    The trainer visits words in the random order of a hash map. That changes its sums by rounding, which ends at the
    sixth decimal here, and the order of ties, which are sorted here; and it hands the characters that no word needs as
    pieces of their own the lowest score plus 0, 1, 2, ... ten-thousandths in random order, which are all the lowest
    score here. The pieces themselves do not depend on the order.

    Args:
        counts: how often each normalised word occurs.
        size: number of pieces, the fixed ones included.
        fixed: pieces that no text spells.
        unknown: the one of them that stands for characters without a piece.
    """
    words = {MARK + word: count for word, count in counts.items() if word}
    chars = {char for word in words for char in word}
    if not words:
        return [(name, 0.0) for name in fixed]
    trainer = trainers.UnigramTrainer(
        vocab_size=max(size, len(fixed) + len(chars)),
        special_tokens=list(fixed),
        unk_token=unknown,
        max_piece_length=MAX_PIECE_CHARS,
        show_progress=False,
    )
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.train_from_iterator(repeated(words), trainer)
    trained = json.loads(tokenizer.to_str())["model"]["vocab"][len(fixed) :]
    lowest = min(score for _, score in trained)

    def settled(piece: str, score: float) -> float:
        steps = (score - lowest) / _STEP
        unneeded = len(piece) == 1 and steps < len(chars) and abs(steps - round(steps)) < 1e-3
        return round(lowest if unneeded else score, _DECIMALS)

    scores = {piece: settled(piece, score) for piece, score in trained}
    return [(name, 0.0) for name in fixed] + sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def repeated(counts: Mapping[str, int]) -> Iterable[str]:
    """The words in order, each as often as it counts: trainers take no numbers."""
    for word in sorted(counts):
        for _ in range(counts[word]):
            yield word
