"""Subword units: WordPiece trained on the user's own text, or a vocabulary that exists already."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, trainers

from mixling.errors import ConfigError, ModelFileError

CONTINUATION = "##"
UNKNOWN = "[UNK]"
FILES = ("vocab.txt", "tokenizer.json")
MIN_UNITS, MAX_UNITS = 1_000, 8_000
MAX_CHARS = 1_000  # of a word that is split into units


class Vocabulary:
    """Splits words into units.

    A word that the vocabulary cannot spell is its own single unit: its trigrams still say more than `[UNK]` does.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._is_wordpiece = type(tokenizer.model).__name__ == "WordPiece"
        self._unknown = getattr(tokenizer.model, "unk_token", None) or UNKNOWN
        if self._is_wordpiece:
            if tokenizer.token_to_id(self._unknown) is None:
                raise ModelFileError(f"the unit {self._unknown} is missing; a WordPiece vocabulary has it")
            tokenizer.model.max_input_chars_per_word = MAX_CHARS

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def units(self, words: Sequence[str]) -> list[list[str]]:
        """The units of each word, in order; never empty."""
        if self._is_wordpiece:
            spelled = [[token.value for token in self._tokenizer.model.tokenize(word)] for word in words]
        else:
            encodings = self._tokenizer.encode_batch(list(words), add_special_tokens=False)
            spelled = [encoding.tokens for encoding in encodings]
        return [
            [word] if not units or self._unknown in units else units for word, units in zip(words, spelled, strict=True)
        ]

    def unit_id(self, unit: str) -> int:
        """The id of a unit; that of `[UNK]`, or 0, for one that is not in the vocabulary."""
        found = self._tokenizer.token_to_id(unit)
        return found if found is not None else self._tokenizer.token_to_id(self._unknown) or 0

    def serialise(self) -> tuple[str, str]:
        """File name and content for `Vocabulary.parse`: `vocab.txt` for usual WordPiece, else `tokenizer.json`."""
        model, ids = self._tokenizer.model, self._tokenizer.get_vocab()
        usual = self._is_wordpiece and (model.unk_token, model.continuing_subword_prefix) == (UNKNOWN, CONTINUATION)
        if not usual or sorted(ids.values()) != list(range(len(ids))):  # lines are numbered without gaps
            return "tokenizer.json", self._tokenizer.to_str()
        return "vocab.txt", "".join(f"{unit}\n" for unit in sorted(ids, key=ids.__getitem__))

    @classmethod
    def parse(cls, name: str, content: str) -> Vocabulary:
        """Read what `serialise` wrote, or any public file of these two formats.

        Raises:
            ModelFileError: the content is not a vocabulary.
        """
        if name.endswith(".json"):
            try:
                return cls(Tokenizer.from_str(content))
            except ModelFileError as error:
                raise ModelFileError(f"{name}: {error}") from None
            except Exception as error:  # the binding raises bare Exception
                raise ModelFileError(f"{name}: is not a tokenizer of the `tokenizers` library: {error}") from None
        units = content.split("\n")
        if units and not units[-1]:
            units.pop()
        return cls._from_units(units, name)

    @classmethod
    def _from_units(cls, units: Sequence[str], name: str) -> Vocabulary:
        ids = {unit: number for number, unit in enumerate(units)}
        if len(ids) != len(units) or not ids:
            repeated = next((unit for unit, count in Counter(units).items() if count > 1), None)
            fault = "is empty" if repeated is None else f"has the unit {repeated!r} twice"
            raise ModelFileError(f"{name}: the vocabulary {fault}; it needs one distinct unit a line")
        if UNKNOWN not in ids:
            raise ModelFileError(f"{name}: the unit {UNKNOWN} is missing; a WordPiece vocabulary has it")
        return cls(Tokenizer(models.WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=MAX_CHARS)))

    @classmethod
    def load(cls, source: str) -> Vocabulary:
        """Read `vocab.txt`, `tokenizer.json`, a folder that holds one of them, or a name on the model hub.

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
            if path.is_file():
                return cls.parse(str(path), path.read_text("utf-8"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 text: {error}") from None
        except OSError as error:
            raise ConfigError(f"{source}: cannot be read: {error.strerror}") from None
        try:
            _probe_hub(source)
            return cls(Tokenizer.from_pretrained(source))
        except Exception as error:  # network, authorisation and parsing faults have no common type
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(
                f"vocabulary {source!r}: no such file or folder here, and the hub has none to give: {reason}"
            ) from None

    @classmethod
    def train(cls, words: Iterable[str], *, size: int | None = None) -> Vocabulary:
        """Train WordPiece on words; two runs on the same words give the same units.

        Args:
            words: normalised words, repeated as often as they occur.
            size: number of units; None takes half of the distinct words, within 1,000 and 8,000.
        """
        counts = Counter(words)
        if size is None:
            size = min(max(len(counts) // 2, MIN_UNITS), MAX_UNITS)
        # The trainer breaks ties by unit number and numbers the one-character units in the random order of a hash map,
        # unless they are there before it starts: without this, two runs give two vocabularies.
        first = {word[0] for word in counts if word}
        later = {CONTINUATION + char for word in counts for char in word[1:]}
        fixed = [UNKNOWN, *sorted(first), *sorted(later)]
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        trainer = trainers.WordPieceTrainer(
            vocab_size=max(size, len(fixed)),
            special_tokens=fixed,
            continuing_subword_prefix=CONTINUATION,
            show_progress=False,
        )
        tokenizer.train_from_iterator(_repeat(counts), trainer)
        ids = json.loads(tokenizer.to_str())["model"]["vocab"]
        return cls._from_units(sorted(ids, key=ids.__getitem__), "the trained vocabulary")


def _probe_hub(name: str) -> None:
    """Ask the model hub once for a tokenizer that is not here yet; the download asks six times, and prints that."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    if not isinstance(try_to_load_from_cache(name, "tokenizer.json"), str):
        get_hf_file_metadata(hf_hub_url(name, "tokenizer.json"))


def _repeat(counts: Counter[str]) -> Iterable[str]:
    for word in sorted(counts):
        for _ in range(counts[word]):
            yield word
