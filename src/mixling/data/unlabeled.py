"""Read unlabeled texts for a teacher to label, split them to the length of the labeled texts, and choose some of them.

A teacher's time is best spent on texts like the labeled ones: on SST-2, 12,000 sentences of reviews that resemble its
own teach more than 32,000 random ones (experiments/README.md). The resemblance of a text is the sum, over its distinct
words, of the logarithm of how much more frequent each is in the labeled texts than in the unlabeled ones, over the root
of their number. This is the difference of cross-entropies of R. Moore and W. Lewis, "Intelligent selection of language
model training data" (ACL 2010), between models of single words; the root, instead of the number, favors texts with
several typical words.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal

from mixling.data.config import ColumnsConfig
from mixling.data.corpora import is_plain, read_texts
from mixling.data.dataset import Dataset
from mixling.data.examples import RowReader, read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.errors import ConfigError, DataError
from mixling.features.cells import cells_of, with_cells, with_missing
from mixling.text.encoder import Text
from mixling.text.words import split_words

Split = Literal["auto", "sentences", "documents"]
TextChoice = Literal["similar", "random"]

_SENTENCE_END = re.compile(r"(?:<br\s*/?>|\n)+|(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=\S)")
_NO_COLUMN = "\0"
_SAMPLE = 200  # texts whose lengths are compared
_CANDIDATES = 8  # random texts for each that is chosen as similar
# Without a limit: of SST-2's sentences, 120,000 teach more than 40,000; with long texts that number would take hours.
_FEWEST = 40_000
_MOST = 120_000
_MOST_WORDS = 2_400_000


def read_unlabeled(
    sources: Sequence[str],
    *,
    reader: type[RowReader],
    columns: ColumnsConfig,
    on_bad_row: Literal["error", "skip"] = "error",
) -> Iterator[Text]:
    """Stream texts for a task: lines of `.txt` files, and rows of other files, whose targets are ignored.

    Args:
        reader: the row reader of the task.

    Raises:
        DataError: a file is unusable, or a row, unless bad rows are skipped.
    """
    for source in sources:
        if is_plain(source):
            if columns.text_pair:
                raise DataError("has no pairs; provide a table with the columns of both texts", path=source)
            lines = read_texts([source])
            beside = columns.beside
            yield from (split_words(line) if reader.of_words else with_missing(line, beside) for line in lines)
        else:
            bare = columns.model_copy(update={"label": _NO_COLUMN, "labels": None, "slots": _NO_COLUMN})
            rows = read_examples([source], reader=reader, columns=bare, on_bad_row=OnBadRow(on_bad_row), labeled=False)
            for row in rows:
                yield split_words(row.text) if reader.of_words and isinstance(row.text, str) else row.text


def choose_texts(
    texts: Iterable[Text],
    train: Dataset,
    evaluated: Iterable[Text],
    *,
    split: Split,
    limit: int | None,
    choice: TextChoice = "random",
    seed: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> tuple[list[Text], int]:
    """Choose at most `limit` distinct texts that are neither training examples nor used for evaluation.

    Texts are ranked by a hash, so the choice depends neither on their order nor on repetitions.

    Args:
        evaluated: the texts of validation and test examples.
        limit: None: 120,000, or fewer if the training texts have more than 20 words, but at least 40,000.
        choice: whether to choose those that are most like the training texts, the likest first, or random ones.
        split: whether to sample documents or their sentences; "auto" takes sentences if documents are much longer than
            the training texts.

    Returns:
        the texts, and the number of distinct ones that were left out because they are used for evaluation.

    Raises:
        ConfigError: sentences of pairs or lists of words were requested.
    """
    stream = iter(texts)
    first = list(islice(stream, _SAMPLE))
    if not first:
        return [], 0
    labeled = statistics.median(map(_words, train.texts[:: max(1, len(train) // _SAMPLE)]))
    if limit is None:
        limit = min(max(round(_MOST_WORDS / max(labeled, 1)), _FEWEST), _MOST)
    sentences = split == "sentences"
    if sentences and not isinstance(first[0], str):
        raise ConfigError("distill.split = sentences: pairs and lists of words have no sentences; allowed: documents")
    if split == "auto" and isinstance(first[0], str):
        unlabeled = statistics.median(map(_words, first))
        sentences = unlabeled > 2 * labeled
        if sentences:
            log(f"unlabeled texts have {unlabeled:g} words, labeled ones {labeled:g}: using their sentences")
    documents = chain(first, stream)
    held_out = set()
    for text in evaluated:
        held_out |= {_key(text), *(map(_key, split_sentences(text)) if sentences else ())}
    known = set(map(_key, train.texts))
    kept = limit * _CANDIDATES if choice == "similar" else limit
    best: list[tuple[int, str, Text]] = []  # a heap with the worst of the kept texts first
    chosen: set[str] = set()
    leaked: set[str] = set()
    for text_part in chain.from_iterable(map(split_sentences, documents)) if sentences else documents:
        key = _key(text_part)
        if key in held_out:
            leaked.add(key)
        elif key not in known and key not in chosen:
            rank = -int.from_bytes(hashlib.blake2b(f"{seed} {key}".encode(errors="replace"), digest_size=8).digest())
            if len(best) < kept:
                heapq.heappush(best, (rank, key, text_part))
            elif rank > best[0][0]:
                chosen.discard(heapq.heapreplace(best, (rank, key, text_part))[1])
            else:
                continue
            chosen.add(key)
    if leaked:
        log(f"{len(leaked)} unlabeled texts are also validation or test rows and are left out")
    texts = [text for _, _, text in sorted(best, key=lambda item: -item[0])]
    if len(texts) > limit:
        log(f"{limit:,} of {len(texts):,} unlabeled texts, those most like the labeled ones")
        return most_similar(texts, train.texts, limit), len(leaked)
    log(f"{len(texts):,} unlabeled texts")
    return texts, len(leaked)


def most_similar(texts: Sequence[Text], like: Iterable[Text], number: int) -> list[Text]:
    """Return the texts that resemble others most, the likest first."""
    like = list(like)
    wanted, found = (Counter(chain.from_iterable(map(_vocabulary, part))) for part in (like, texts))
    share = len(like) / len(texts)
    # One more of each: that a rare word is not among a few texts shows nothing.
    ratios = {word: math.log((wanted[word] + 1) / (share * count + 1)) for word, count in found.items()}

    def resemblance(text: Text) -> float:
        words = _vocabulary(text)
        return math.fsum(ratios[word] for word in words) / math.sqrt(max(len(words), 1))

    return sorted(texts, key=resemblance, reverse=True)[:number]


def fragments(texts: Iterable[Text], number: int, *, seed: int = 0) -> Iterator[Text]:
    """Yield random spans of at least two words of texts of at least four: a number of each text, and each span once.

    A span has the columns beside its text.
    """
    yielded: set[str] = set()
    for index, text in enumerate(texts):
        words = text.split() if isinstance(text, str) else []
        drawn = random.Random(f"{seed} {index}")
        for _ in range(number if len(words) >= 4 else 0):
            length = drawn.randrange(2, len(words))
            first = drawn.randrange(len(words) - length + 1)
            span = " ".join(words[first : first + length])
            if (key := _key(span)) not in yielded:
                yielded.add(key)
                yield with_cells(span, cells_of(text))


def split_sentences(text: Text) -> Iterator[Text]:
    """Yield the sentences of 3 to 100 words of a text, split at line ends and after . ! and ?, with its columns."""
    for sentence in _SENTENCE_END.split(text) if isinstance(text, str) else ():
        if 3 <= len(sentence.split()) <= 100:
            yield with_cells(sentence.strip(), cells_of(text))


def _key(text: Text) -> str:
    """Return a key that is equal for texts that differ only in case and white space."""
    parts = [text] if isinstance(text, str) else text
    return "\x1f".join(" ".join(part.lower().split()) for part in parts)


def _vocabulary(text: Text) -> set[str]:
    """Return the distinct words of a text in lower case, without signs, which corpora write differently."""
    parts = [text] if isinstance(text, str) else text
    words = chain.from_iterable(split_words(part.lower(), contractions=True) for part in parts)
    return {word for word in words if any(map(str.isalpha, word))}


def _words(text: Text) -> int:
    return len(text.split()) if isinstance(text, str) else sum(len(part.split()) for part in text)
