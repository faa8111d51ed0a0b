"""Encode unlabeled text once as a sequence of tokens on disk, from which pretraining draws its inputs.

The `DocumentReader` determines the tokens: rows of an encoder's word table, or subwords.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.artifacts.files import CORPUS_FOLDER
from mixling.config import Config
from mixling.data.corpora import read_texts
from mixling.errors import ConfigError, DataError, ModelFileError, StorageError
from mixling.research.pretraining.documents import Document, DocumentReader
from mixling.storage import check_sha256, read_json, sha256_of, write_sealed

_META = "corpus.json"
_TYPES = {"rows": "<u4", "starts": "?"}  # of the files of the columns
_SAMPLE_BYTES = 64 << 20  # text for training a vocabulary
_CHUNK = 256  # documents
_SALT = "dev"  # decides which documents are held out; another would change every prepared text


class CorpusConfig(Config):
    """The files of the text, and the documents that are held out."""

    files: tuple[str, ...] = Field(default=(), description="files of unlabeled text")
    validation: tuple[str, ...] = Field(
        default=(), description="files of held-out text; empty: a fraction of the documents"
    )
    text: str = Field(default="text", description="the column of the text, in tables")
    validation_fraction: float = Field(
        default=0.01, gt=0, lt=1, description="fraction of the documents that is held out"
    )
    keep: bool = Field(default=False, description="keep the encoded text in the folder, for other runs")
    prepared: str | None = Field(
        default=None, description="folder of a run with kept text, which is used instead of files"
    )
    validation_tokens: int = Field(default=1 << 17, ge=1, description="maximum number of held-out tokens")


@dataclass(frozen=True)
class Tokens:
    """Concatenated documents, each with a separator at its end, as token ids (T,)."""

    rows: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.bool_] | None = None  # True at the first token of each word; None: unknown

    def blocks(self, length: int) -> int:
        """Return the number of blocks of `length` tokens; if there are fewer tokens, one shorter block."""
        return max(1, len(self.rows) // length)

    def block(self, index: int, length: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return the tokens of a block, and which of them begin a word (all of them if this is unknown)."""
        part = slice(index * length, (index + 1) * length)
        rows = self.rows[part].astype(np.int32)
        return rows, np.ones(len(rows), bool) if self.starts is None else self.starts[part]


@dataclass(frozen=True)
class Prepared:
    """An encoded corpus: training tokens and held-out tokens; `digest` identifies them."""

    train: Tokens
    validation: Tokens
    digest: str


def sample_documents(config: CorpusConfig, *, limit: int = _SAMPLE_BYTES) -> Iterator[str]:
    """Sample documents of at most `limit` characters in total with equal probability, and yield them in order.

    The choice depends on hashes of the documents, not on their order or the number of files.
    """
    kept: list[tuple[int, str]] = []
    size = 0
    highest = 1 << 64
    for document in read_texts(config.files, text=config.text):
        rank = _hash(document, "sample")
        if rank < highest:
            kept.append((rank, document))
            size += len(document)
        while size > limit and len(kept) > 1:
            highest //= 2
            kept = [item for item in kept if item[0] < highest]
            size = sum(len(document) for _, document in kept)
    for _, document in kept:
        yield document


def encode_documents(documents: Iterable[str], reader: DocumentReader) -> Tokens:
    """Encode documents in memory."""
    encoded = [document for _, document in _read(documents, reader)]
    columns = {name: np.concatenate([getattr(document, name) for document in encoded]) for name in reader.columns}
    return Tokens(**{name: values.astype(_TYPES[name]) for name, values in columns.items()})


def prepare(config: CorpusConfig, reader: DocumentReader, folder: Path, log: Callable[[str], None]) -> Prepared:
    """Encode all documents to files in a folder, which is replaced.

    Raises:
        DataError: a file is unusable, or there is too little text to hold any out.
        StorageError: the folder cannot be written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        with (
            _Writer(folder, "train", reader.columns) as train,
            _Writer(folder, "validation", reader.columns) as validation,
        ):
            cut = _write(read_texts(config.files, text=config.text), reader, config, train, validation)
            if config.validation:
                cut += _write(read_texts(config.validation, text=config.text), reader, config, validation, validation)
            for writer, what in ((train, "left to train on"), (validation, "held out")):
                if not writer.count:
                    raise DataError(
                        f"no document is {what} of {train.documents + validation.documents} (each line is one); "
                        "provide more text, or held-out text with --validation",
                        path=config.files[0],
                    )
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error
    if cut:
        log(f"{cut} documents are truncated to {reader.max_words:,} words")
    digest = hashlib.sha256(train.digest.digest() + validation.digest.digest()).hexdigest()
    files = {path.name: sha256_of(path) for writer in (train, validation) for path in writer.paths}
    meta = {"reading": reader.reading, "digest": digest, "files": files}
    write_sealed(folder / _META, {**meta, "words": reader.words()})
    log(
        f"{train.documents:,} documents, {train.count:,} tokens, {len(reader):,} distinct ones; "
        f"{validation.documents:,} documents, {validation.count:,} tokens held out"
    )
    return open_prepared(folder, reader)


def open_prepared(folder: Path, reader: DocumentReader) -> Prepared:
    """Open a folder that `prepare` wrote; the reader learns its words.

    Raises:
        ConfigError: the text was encoded for a model with different tokens.
        DataError: the folder is damaged.
    """
    try:
        meta = read_json(folder / _META)
        for name, digest in meta["files"].items():
            check_sha256(folder / Path(name).name, digest)
        if meta["reading"] != reader.reading:
            raise ConfigError(
                f"{folder}: the text was encoded with {meta['reading']}; this model needs {reader.reading}"
            )
        reader.learn(meta["words"])
        parts = [
            Tokens(**{c: np.memmap(folder / f"{name}.{c}", _TYPES[c], mode="r") for c in reader.columns})
            for name in ("train", "validation")
        ]
        fits = all(
            len(part.rows) == len(part.rows if part.starts is None else part.starts)
            and int(part.rows.max()) < len(reader)
            and part.rows[-1] == reader.separator
            for part in parts
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ModelFileError) as error:
        raise DataError(f"the prepared text is damaged: {error}; delete it to prepare it again", path=folder) from None
    if not fits:
        raise DataError("the prepared text is damaged; delete it to prepare it again", path=folder)
    return Prepared(parts[0], parts[1], str(meta["digest"]))


def is_prepared(folder: Path) -> bool:
    """Whether `prepare` has completed in a folder."""
    return (folder / _META).is_file()


class _Writer:
    """Writes the tokens of documents, each column to a file."""

    def __init__(self, folder: Path, name: str, columns: Sequence[str]) -> None:
        self._columns = columns
        self.paths = [folder / f"{name}.{column}" for column in columns]
        self.digest = hashlib.sha256()
        self.count = self.documents = 0

    def __enter__(self) -> _Writer:
        self._files = [path.open("wb") for path in self.paths]
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            file.close()

    def add(self, document: Document) -> None:
        for file, column in zip(self._files, self._columns, strict=True):
            values = getattr(document, column).astype(_TYPES[column]).tobytes()
            file.write(values)
            self.digest.update(values)
        self.count += len(document.rows)
        self.documents += 1


def _write(
    texts: Iterable[str], reader: DocumentReader, config: CorpusConfig, train: _Writer, validation: _Writer
) -> int:
    """Encode documents to a writer; return how many were truncated."""
    cut = 0
    limit = int(config.validation_fraction * (1 << 64))
    for text, document in _read(texts, reader):
        held_out = not config.validation and validation.count < config.validation_tokens and _hash(text, _SALT) < limit
        (validation if held_out else train).add(document)
        cut += document.truncated
    return cut


def _read(texts: Iterable[str], reader: DocumentReader) -> Iterator[tuple[str, Document]]:
    sent: deque[list[str]] = deque()

    def chunks() -> Iterator[list[str]]:
        stream = iter(texts)
        while chunk := list(islice(stream, _CHUNK)):
            sent.append(chunk)
            yield chunk

    for documents in reader.read(chunks()):
        yield from zip(sent.popleft(), documents, strict=True)


def _hash(document: str, purpose: str) -> int:
    data = document.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=purpose.encode()).digest())


def check_length(config: CorpusConfig, prepared: Prepared, length: int) -> None:
    """Check that the corpus has at least one block.

    Raises:
        ConfigError: it has fewer than `length` tokens.
    """
    if len(prepared.train.rows) < length:
        raise ConfigError(
            f"the text has {len(prepared.train.rows)} tokens, but the model reads {length} at a time; provide more "
            "text, or reduce it with --set model.text.max_len=N"
        )


def run_corpus(config: CorpusConfig, reader: DocumentReader, folder: Path, log: Callable[[str], None]) -> Prepared:
    """Return the encoded text of a run: from its folder, or from the run that kept it, else newly encoded.

    Raises:
        UserError: see `prepare` and `open_prepared`.
    """
    location = Path(config.prepared or folder) / CORPUS_FOLDER
    if config.prepared is not None or is_prepared(location):
        return open_prepared(location, reader)
    return prepare(config, reader, location, log)
