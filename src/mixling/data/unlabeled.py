"""Text that nobody labeled, for a teacher to label: read, cut to the size of the labeled texts, drawn at random."""

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

SubwordIds = Literal["auto", "sentences", "documents"]

_SENTENCE_END = re.compile(r"(?:<br\s*/?>|\n)+|(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=\S)")
_NO_COLUMN = "\0"
_SAMPLE = 200  # texts that are looked at for their length


def read_unlabeled(
    sources: Sequence[str],
    *,
    reader: type[RowReader],
    columns: ColumnsConfig,
    on_bad_row: Literal["error", "skip"] = "error",
) -> Iterator[Text]:
    """Texts as the task reads them: lines of `.txt` files, rows of others, whose targets are not looked at.

    Args:
        reader: that of the task.

    Raises:
        DataError: a file that cannot be used, or a row, unless it is to be skipped.
    """
    for source in sources:
        if is_plain(source):
            if columns.text_pair is not None:
                raise DataError("has no pairs; give a table with the columns of both texts", path=source)
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
    subwords: SubwordIds,
    limit: int,
    seed: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> tuple[list[Text], int]:
    """At most `limit` different texts, none of which is a training row or one that models are measured on.

    A text's place in the draw is a hash of itself, so that the choice depends neither on order nor on repetition.

    Args:
        evaluated: the texts of validation and test rows.

    Returns:
        the texts, and how many different ones were left out because they are measured on.
    """
    stream = iter(texts)
    first = list(islice(stream, _SAMPLE))
    if not first:
        return [], 0
    sentences = subwords == "sentences"
    if sentences and not isinstance(first[0], str):
        raise ConfigError("--split sentences: pairs and lists of words have none; documents is allowed")
    if subwords == "auto" and isinstance(first[0], str):
        ours = statistics.median(map(_words, train.texts[:: max(1, len(train) // _SAMPLE)]))
        theirs = statistics.median(map(_words, first))
        sentences = theirs > 2 * ours
        if sentences:
            log(f"unlabeled texts have {theirs:g} words, labeled ones {ours:g}: their sentences are taken")
    documents = chain(first, stream)
    held_out = set()
    for text in evaluated:
        held_out |= {_key(text), *(map(_key, split_sentences(text)) if sentences else ())}
    known = set(map(_key, train.texts))
    best: list[tuple[int, str, Text]] = []  # a heap whose first is the worst of those kept
    chosen: set[str] = set()
    leaked: set[str] = set()
    for subword in chain.from_iterable(map(split_sentences, documents)) if sentences else documents:
        key = _key(subword)
        if key in held_out:
            leaked.add(key)
        elif key not in known and key not in chosen:
            rank = -int.from_bytes(hashlib.blake2b(f"{seed} {key}".encode(errors="replace"), digest_size=8).digest())
            if len(best) < limit:
                heapq.heappush(best, (rank, key, subword))
            elif rank > best[0][0]:
                chosen.discard(heapq.heapreplace(best, (rank, key, subword))[1])
            else:
                continue
            chosen.add(key)
    if leaked:
        log(f"{len(leaked)} unlabeled texts stand in the validation or test rows and are left out")
    log(f"{len(best):,} unlabeled texts")
    return [text for _, _, text in sorted(best, key=lambda item: -item[0])], len(leaked)


def split_sentences(text: Text) -> Iterator[str]:
    """The sentences of a text that have 3 to 100 words, cut at line ends and after . ! and ?"""
    for sentence in _SENTENCE_END.split(text) if isinstance(text, str) else ():
        if 3 <= len(sentence.split()) <= 100:
            yield sentence.strip()


def _key(text: Text) -> str:
    """Equal for texts that differ in case and white space only."""
    parts = [text] if isinstance(text, str) else text
    return "\x1f".join(" ".join(part.lower().split()) for part in parts)


def _words(text: Text) -> int:
    return len(text.split()) if isinstance(text, str) else sum(len(part.split()) for part in text)
