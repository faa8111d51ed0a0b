"""Subword vocabularies: WordPiece or Unigram trained on the user's text, or an existing vocabulary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mixling.errors import ConfigError, ModelFileError, UserError
from mixling.hub import fetch_file
from mixling.opening import read_limited
from mixling.storage import MAX_JSON
from mixling.text.tokenizer_file import library_errors, read_tokenizer
from mixling.text.wordpiece import CONTINUATION, split_word, train_wordpiece
from mixling.text.words import split_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNKNOWN = "[UNK]"
FILES = ("vocab.txt", "tokenizer.json", "spiece.model", "tokenizer.model")
SENTENCEPIECE = ".model"
MIN_SUBWORDS = 1_000
MAX_SUBWORDS = 8_000

VocabularyKind = Literal["wordpiece", "unigram"]


class Vocabulary:
    """Splits single words into subwords.

    WordPiece marks subwords that continue a word ("un", "##affable"); Unigram and SentencePiece mark the one that
    begins it ("▁un", "affable"). A word that WordPiece cannot split is kept as one subword, whose trigrams are more
    informative than `[UNK]`. In a word that Unigram cannot split, consecutive unknown characters form one subword.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Split words as a tokenizer of the `tokenizers` library does."""
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer: Tokenizer | None = tokenizer
        self._ids: dict[str, int] = tokenizer.get_vocab()
        self._unknown = _unknown(tokenizer)
        is_wordpiece = type(tokenizer.model).__name__ == "WordPiece"
        self._continuation = tokenizer.model.continuing_subword_prefix if is_wordpiece else None
        if is_wordpiece and self._unknown not in self._ids:
            raise ModelFileError(f"the subword {self._unknown} is missing; a WordPiece vocabulary needs it")

    @classmethod
    def from_subwords(cls, subwords: Sequence[str], name: str = "the vocabulary") -> Vocabulary:
        """Return a standard WordPiece vocabulary with `[UNK]`, ids by order.

        Raises:
            ModelFileError: a subword is listed twice, or `[UNK]` is missing; the message begins with `name`.
        """
        vocabulary = cls.__new__(cls)
        vocabulary._tokenizer = None
        vocabulary._ids = ids = {subword: number for number, subword in enumerate(subwords)}
        vocabulary._unknown = UNKNOWN
        vocabulary._continuation = CONTINUATION
        if len(ids) != len(subwords) or not ids:
            twice = next((subword for subword, count in Counter(subwords).items() if count > 1), None)
            problem = "is empty" if twice is None else f"has the subword {twice!r} twice"
            raise ModelFileError(f"{name}: the vocabulary {problem}; it needs one distinct subword per line")
        if UNKNOWN not in ids:
            raise ModelFileError(f"{name}: the subword {UNKNOWN} is missing; a WordPiece vocabulary needs it")
        return vocabulary

    def __len__(self) -> int:
        return len(self._ids)

    def names(self) -> list[str]:
        """Return all subwords, in the order of their ids."""
        return sorted(self._ids, key=self._ids.__getitem__)

    def __contains__(self, subword: str) -> bool:
        return subword in self._ids

    @property
    def tokenizer(self) -> Tokenizer:
        """The library's tokenizer that splits words, which standard WordPiece does not have; do not modify it.

        Raises:
            ModelFileError: this is standard WordPiece.
        """
        if self._tokenizer is None:
            raise ModelFileError(
                "is a WordPiece vocabulary, from whose subwords the text cannot be restored; allowed: Unigram, BPE"
            )
        return self._tokenizer

    def subwords(self, words: Sequence[str]) -> list[list[str]]:
        """Return the subwords of each word, in order; never empty.

        Raises:
            ModelFileError: the tokenizer fails on a word.
        """
        with library_errors(ModelFileError, "the vocabulary cannot split a word into subwords"):
            if self._continuation is not None:
                "".join(words).encode()  # fails on surrogates, as the library does
                spelled = [split_word(word, self._ids, self._continuation) for word in words]
            else:
                encodings = self.tokenizer.encode_batch(list(words), add_special_tokens=False)
                spelled = [encoding.tokens for encoding in encodings]
        return [
            [word] if not subwords or self._unknown in subwords else subwords
            for word, subwords in zip(words, spelled, strict=True)
        ]

    def subword_id(self, subword: str) -> int:
        """Return the id of a subword; if it is missing, the unknown subword's, or 0."""
        number = self._ids.get(subword)
        return number if number is not None else self.unknown_id or 0

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown subword; None if there is none."""
        return self._ids.get(self._unknown)

    def serialize(self) -> tuple[str, str]:
        """Return file name and content for `parse`: `vocab.txt` for standard WordPiece, otherwise `tokenizer.json`."""
        usual = (self._unknown, self._continuation) == (UNKNOWN, CONTINUATION)
        if self._tokenizer is not None:  # lines are numbered without gaps
            usual = usual and sorted(self._ids.values()) == list(range(len(self._ids)))
            if not usual:
                return "tokenizer.json", self._tokenizer.to_str()
        return "vocab.txt", "".join(f"{subword}\n" for subword in self.names())

    @classmethod
    def parse(cls, name: str, content: str) -> Vocabulary:
        """Read a `vocab.txt` or `tokenizer.json`, such as `serialize` returns (see `tokenizer_file`).

        Raises:
            ModelFileError: the content is not a vocabulary, or needs something unsupported.
        """
        if name.endswith(".json"):
            try:
                with library_errors(ModelFileError, "is not a tokenizer of the `tokenizers` library"):
                    return cls(read_tokenizer(content))
            except ModelFileError as error:
                raise ModelFileError(f"{name}: {error}") from None
        subwords = content.split("\n")
        if subwords and not subwords[-1]:
            subwords.pop()
        return cls.from_subwords(subwords, name)

    @classmethod
    def load(cls, source: str) -> Vocabulary:
        """Read `vocab.txt`, `tokenizer.json`, a SentencePiece `.model`, a folder with one of them, or a hub name.

        Raises:
            ConfigError: nothing of that name can be read.
            ModelFileError: the file is not a vocabulary.
        """
        try:
            path = Path(source)
            if path.is_dir():
                path = next((path / name for name in FILES if (path / name).is_file()), path)
            if path.is_dir():
                raise ConfigError(f"{path}: the folder has neither {' nor '.join(FILES)}")
            if path.is_file() and path.suffix == SENTENCEPIECE:
                with library_errors(ModelFileError, str(path)):
                    from mixling.text.sentencepiece import read_sentencepiece  # imports protobuf: 20 ms

                return cls(read_sentencepiece(read_limited(path, MAX_JSON), str(path)))
            if path.is_file():
                return cls.parse(str(path), read_limited(path, MAX_JSON).decode("utf-8").replace("\r\n", "\n"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 text: {error}") from None
        except OSError as error:
            raise ConfigError(f"{source}: cannot be read: {error.strerror}") from None
        try:
            path = fetch_file(source, "tokenizer.json")
        except UserError as error:
            raise ConfigError(
                f"vocabulary {source!r}: no such file or folder, and it cannot be loaded from the hub: {error}"
            ) from None
        return cls.load(str(path))

    @classmethod
    def train(
        cls,
        words: Iterable[str] | Mapping[str, int],
        *,
        size: int | None = None,
        kind: VocabularyKind = "wordpiece",
        specials: Sequence[str] = (),
    ) -> Vocabulary:
        """Train subwords on words; the same words, in any order, give the same subwords.

        Args:
            words: normalized words, repeated as often as they occur, or how often each does.
            size: number of subwords; None: half the number of distinct words, between 1,000 and 8,000.
            kind: how words are split, see the class.
            specials: special tokens besides `[UNK]` (id 0), such as `[MASK]`; their ids begin at 1.

        Raises:
            ConfigError: two special tokens are equal, or one could occur in a text.
        """
        counts = Counter(words)
        size = size or default_size(counts)
        fixed = [UNKNOWN, *specials]
        check_specials(fixed)
        if kind == "wordpiece":
            return cls.from_subwords(train_wordpiece(counts, size, fixed))
        with library_errors(ModelFileError, "Unigram vocabularies are trained"):
            from mixling.text.unigram import train_unigram, unigram_tokenizer

        subwords = train_unigram(counts, size, fixed, unknown=UNKNOWN)
        return cls(unigram_tokenizer(subwords, unknown=UNKNOWN, specials=fixed))


def default_size(counts: Counter[str]) -> int:
    """Return how many subwords to train on words that occur this often: half their number, within bounds."""
    return min(max(len(counts) // 2, MIN_SUBWORDS), MAX_SUBWORDS)


def check_specials(names: Sequence[str]) -> None:
    """Check that the names of special tokens are distinct and cannot occur as words of a text.

    Raises:
        ConfigError: a name is invalid.
    """
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ConfigError(f"the special token {name!r} is listed twice; names must be distinct")
        if name.startswith(CONTINUATION) or name.split() != [name] or len(split_words(name)) < 2:
            raise ConfigError(
                f"{name!r} cannot be the name of a special token, because it could occur in a text; allowed: a name "
                f"with punctuation, without spaces, not beginning with {CONTINUATION}, such as [MASK]"
            )


def _unknown(tokenizer: Tokenizer) -> str:
    """Return the name of the unknown subword."""
    name = getattr(tokenizer.model, "unk_token", None)
    if name is None and type(tokenizer.model).__name__ == "Unigram":  # the binding does not expose `unk_id`
        number = json.loads(tokenizer.to_str())["model"]["unk_id"]
        name = None if number is None else tokenizer.id_to_token(number)
    return name or UNKNOWN
