"""Subword subwords: WordPiece or Unigram trained on the user's own text, or a vocabulary that exists already."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer, models, trainers

from mixling.errors import ConfigError, ModelFileError
from mixling.hub import split_revision
from mixling.text.tokenizer_file import read_tokenizer, rust_errors
from mixling.text.unigram import repeated, train_unigram, unigram_tokenizer
from mixling.text.words import split_words

CONTINUATION = "##"
UNKNOWN = "[UNK]"
FILES = ("vocab.txt", "tokenizer.json", "spiece.model", "tokenizer.model")
SENTENCEPIECE = ".model"
MIN_SUBWORDS, MAX_SUBWORDS = 1_000, 8_000
MAX_CHARS = 1_000  # of a word that is split into subwords

VocabularyKind = Literal["wordpiece", "unigram"]


class Vocabulary:
    """Splits words, each on its own, into subwords.

    WordPiece marks the subwords that go on with a word ("un", "##affable"); Unigram and SentencePiece mark the one that
    begins it ("▁un", "affable"). A word that WordPiece cannot spell is its own single unit: its trigrams still say more
    than `[UNK]` does. Of a word that Unigram cannot spell the unknown characters in a row are one unit.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._is_wordpiece = type(tokenizer.model).__name__ == "WordPiece"
        self._unknown = _unknown(tokenizer)
        if self._is_wordpiece:
            if tokenizer.token_to_id(self._unknown) is None:
                raise ModelFileError(f"the unit {self._unknown} is missing; a WordPiece vocabulary has it")
            tokenizer.model.max_input_chars_per_word = MAX_CHARS

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def names(self) -> list[str]:
        """All subwords, in the order of their ids."""
        ids = self._tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def __contains__(self, subword: str) -> bool:
        return self._tokenizer.token_to_id(subword) is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """What splits the words; not to be changed."""
        return self._tokenizer

    def subwords(self, words: Sequence[str]) -> list[list[str]]:
        """The subwords of each word, in order; never empty.

        Raises:
            ModelFileError: the tokenizer fails at a word.
        """
        with rust_errors(ModelFileError, "the vocabulary cannot split a word into subwords"):
            if self._is_wordpiece:
                spelled = [[token.value for token in self._tokenizer.model.tokenize(word)] for word in words]
            else:
                encodings = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
                spelled = [encoding.tokens for encoding in encodings]
        return [
            [word] if not subwords or self._unknown in subwords else subwords
            for word, subwords in zip(words, spelled, strict=True)
        ]

    def subword_id(self, subword: str) -> int:
        """The id of a unit; that of the unknown unit, or 0, for one that is not in the vocabulary."""
        found = self._tokenizer.token_to_id(subword)
        return found if found is not None else self.unknown_id or 0

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown unit; None where there is none."""
        return self._tokenizer.token_to_id(self._unknown)

    def serialize(self) -> tuple[str, str]:
        """File name and content for `Vocabulary.parse`: `vocab.txt` for usual WordPiece, else `tokenizer.json`."""
        model, ids = self._tokenizer.model, self._tokenizer.get_vocab()
        usual = self._is_wordpiece and (model.unk_token, model.continuing_subword_prefix) == (UNKNOWN, CONTINUATION)
        if not usual or sorted(ids.values()) != list(range(len(ids))):  # lines are numbered without gaps
            return "tokenizer.json", self._tokenizer.to_str()
        return "vocab.txt", "".join(f"{subword}\n" for subword in sorted(ids, key=ids.__getitem__))

    @classmethod
    def parse(cls, name: str, content: str) -> Vocabulary:
        """Read what `serialize` wrote, or a public file of these two formats (see `tokenizer_file`).

        Raises:
            ModelFileError: the content is not a vocabulary, or asks for what is not read from files.
        """
        if name.endswith(".json"):
            try:
                with rust_errors(ModelFileError, "is not a tokenizer of the `tokenizers` library"):
                    return cls(read_tokenizer(content))
            except ModelFileError as error:
                raise ModelFileError(f"{name}: {error}") from None
        subwords = content.split("\n")
        if subwords and not subwords[-1]:
            subwords.pop()
        return cls._from_subwords(subwords, name)

    @classmethod
    def _from_subwords(cls, subwords: Sequence[str], name: str) -> Vocabulary:
        ids = {subword: number for number, subword in enumerate(subwords)}
        if len(ids) != len(subwords) or not ids:
            repeated = next((subword for subword, count in Counter(subwords).items() if count > 1), None)
            problem = "is empty" if repeated is None else f"has the unit {repeated!r} twice"
            raise ModelFileError(f"{name}: the vocabulary {problem}; it needs one distinct unit a line")
        if UNKNOWN not in ids:
            raise ModelFileError(f"{name}: the unit {UNKNOWN} is missing; a WordPiece vocabulary has it")
        with rust_errors(ModelFileError, f"{name}: is not a vocabulary"):
            return cls(Tokenizer(models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=MAX_CHARS)))

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
                from mixling.text.sentencepiece import read_sentencepiece  # protobuf: 20 ms that few need

                return cls(read_sentencepiece(path.read_bytes(), str(path)))
            if path.is_file():
                return cls.parse(str(path), path.read_text("utf-8"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 text: {error}") from None
        except OSError as error:
            raise ConfigError(f"{source}: cannot be read: {error.strerror}") from None
        try:
            base, revision = split_revision(source)
            _probe_hub(base, revision)
            return cls(read_tokenizer(Tokenizer.from_pretrained(base, revision=revision or "main").to_str()))
        except Exception as error:  # network, authorisation and parsing errors have no common type
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(
                f"vocabulary {source!r}: no such file or folder here, and the hub has none to give: {reason}"
            ) from None

    @classmethod
    def train(
        cls,
        words: Iterable[str],
        *,
        size: int | None = None,
        kind: VocabularyKind = "wordpiece",
        specials: Sequence[str] = (),
    ) -> Vocabulary:
        """Train subwords on words; two runs on the same words, in any order, give the same subwords.

        Args:
            words: normalized words, repeated as often as they occur.
            size: number of subwords; None takes half of the distinct words, within 1,000 and 8,000.
            kind: how words are split, see the class.
            specials: subwords beside `[UNK]`, which is 0, that texts never spell, such as `[MASK]`; numbered from 1 on.

        Raises:
            ConfigError: two specials are the same, or a text could spell one.
        """
        counts = Counter(words)
        if size is None:
            size = min(max(len(counts) // 2, MIN_SUBWORDS), MAX_SUBWORDS)
        fixed = [UNKNOWN, *specials]
        check_specials(fixed)
        if kind == "unigram":
            subwords = train_unigram(counts, size, fixed, unknown=UNKNOWN)
            return cls(unigram_tokenizer(subwords, unknown=UNKNOWN, specials=fixed))
        # The trainer breaks ties by unit number and numbers the one-character subwords in the random order of a hash
        # map,
        # unless they are there before it starts: without this, two runs give two vocabularies.
        first = {word[0] for word in counts if word}
        later = {CONTINUATION + char for word in counts for char in word[1:]}
        fixed += [*sorted(first), *sorted(later)]
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        trainer = trainers.WordPieceTrainer(
            vocab_size=max(size, len(fixed)),
            special_tokens=fixed,
            continuing_subword_prefix=CONTINUATION,
            show_progress=False,
        )
        tokenizer.train_from_iterator(repeated(counts), trainer)
        ids = json.loads(tokenizer.to_str())["model"]["vocab"]
        return cls._from_subwords(sorted(ids, key=ids.__getitem__), "the trained vocabulary")


def check_specials(names: Sequence[str]) -> None:
    """Refuse names that could be taken for each other or for a unit of a text.

    Raises:
        ConfigError: which of them, and why.
    """
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ConfigError(f"the special unit {name!r} is there twice; each needs a name of its own")
        if name.startswith(CONTINUATION) or name.split() != [name] or len(split_words(name)) < 2:
            raise ConfigError(
                f"{name!r} cannot be the name of a special unit, a text could spell it; allowed: a name with "
                f"punctuation, without spaces, not beginning with {CONTINUATION}, such as [MASK]"
            )


def _unknown(tokenizer: Tokenizer) -> str:
    """The unit that stands for what cannot be spelled."""
    named = getattr(tokenizer.model, "unk_token", None)
    if named is None and type(tokenizer.model).__name__ == "Unigram":  # the binding does not give its `unk_id`
        number = json.loads(tokenizer.to_str())["model"]["unk_id"]
        named = None if number is None else tokenizer.id_to_token(number)
    return named or UNKNOWN


def _probe_hub(name: str, revision: str | None) -> None:
    """Ask the model hub once for a tokenizer that is not here yet; the download asks six times, and prints that."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(name, "tokenizer.json", revision=revision), str):
        get_hf_file_metadata(hf_hub_url(name, "tokenizer.json", revision=revision))
