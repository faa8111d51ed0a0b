"""Read unlabeled texts for a teacher to label, split them to the length of the labeled texts, and sample them."""

from __future__ import annotations

import hashlib
import heapq
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal

from mixling.data.corpora import is_plain, read_texts
from mixling.data.dataset import Dataset
from mixling.data.examples import ColumnsConfig, RowReader, read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.errors import ConfigError, DataError
from mixling.text.encoder import Text
from mixling.text.words import split_words

Split = Literal["auto", "sentences", "documents"]

_SENTENCE_END = re.compile(r"(?:<br\s*/?>|\n)+|(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=\S)")
_NO_COLUMN = "\0"
_SAMPLE = 200  # texts whose lengths are compared


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
            if columns.text_pair is not None:
                raise DataError("has no pairs; provide a table with the columns of both texts", path=source)
            lines = read_texts([source])
            yield from (split_words(line) for line in lines) if reader.of_words else lines
        else:
            bare = columns.model_copy(update={"label": _NO_COLUMN, "slots": _NO_COLUMN})
            rows = read_examples([source], reader=reader, columns=bare, on_bad_row=OnBadRow(on_bad_row), labeled=False)
            for row in rows:
                yield split_words(row.text) if reader.of_words and isinstance(row.text, str) else row.text


def choose_texts(
    texts: Iterable[Text],
    train: Dataset,
    evaluated: Iterable[Text],
    *,
    split: Split,
    limit: int,
    seed: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> tuple[list[Text], int]:
    """Sample at most `limit` distinct texts that are neither training examples nor used for evaluation.

    Texts are ranked by a hash, so the choice depends neither on their order nor on repetitions.

    Args:
        evaluated: the texts of validation and test examples.
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
    sentences = split == "sentences"
    if sentences and not isinstance(first[0], str):
        raise ConfigError("--split sentences: pairs and lists of words have no sentences; allowed: documents")
    if split == "auto" and isinstance(first[0], str):
        labeled = statistics.median(map(_words, train.texts[:: max(1, len(train) // _SAMPLE)]))
        unlabeled = statistics.median(map(_words, first))
        sentences = unlabeled > 2 * labeled
        if sentences:
            log(f"unlabeled texts have {unlabeled:g} words, labeled ones {labeled:g}: using their sentences")
    documents = chain(first, stream)
    held_out = set()
    for text in evaluated:
        held_out |= {_key(text), *(map(_key, split_sentences(text)) if sentences else ())}
    known = set(map(_key, train.texts))
    best: list[tuple[int, str, Text]] = []  # a heap with the worst of the kept texts first
    chosen: set[str] = set()
    leaked: set[str] = set()
    for text_part in chain.from_iterable(map(split_sentences, documents)) if sentences else documents:
        key = _key(text_part)
        if key in held_out:
            leaked.add(key)
        elif key not in known and key not in chosen:
            rank = -int.from_bytes(hashlib.blake2b(f"{seed} {key}".encode(errors="replace"), digest_size=8).digest())
            if len(best) < limit:
                heapq.heappush(best, (rank, key, text_part))
            elif rank > best[0][0]:
                chosen.discard(heapq.heapreplace(best, (rank, key, text_part))[1])
            else:
                continue
            chosen.add(key)
    if leaked:
        log(f"{len(leaked)} unlabeled texts are also validation or test rows and are left out")
    log(f"{len(best):,} unlabeled texts")
    return [text for _, _, text in sorted(best, key=lambda item: -item[0])], len(leaked)


def split_sentences(text: Text) -> Iterator[str]:
    """Yield the sentences of 3 to 100 words of a text, split at line ends and after . ! and ?."""
    for sentence in _SENTENCE_END.split(text) if isinstance(text, str) else ():
        if 3 <= len(sentence.split()) <= 100:
            yield sentence.strip()


def _key(text: Text) -> str:
    """Return a key that is equal for texts that differ only in case and white space."""
    parts = [text] if isinstance(text, str) else text
    return "\x1f".join(" ".join(part.lower().split()) for part in parts)


def _words(text: Text) -> int:
    return len(text.split()) if isinstance(text, str) else sum(len(part.split()) for part in text)
