"""Whole texts as piece numbers and back, for models that read and write text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from mixling.errors import ConfigError, DataError, ModelFileError
from mixling.text.clean import clean
from mixling.text.tokenizer_file import MAX_SPECIALS, SPACES_PATTERN, read_tokenizer, rust_errors
from mixling.text.unigram import splitter, train_unigram, unigram_tokenizer
from mixling.text.vocabulary import MAX_SUBWORDS, MIN_SUBWORDS, Vocabulary

PAD, EOS, UNK = "<pad>", "</s>", "<unk>"  # T5's, and in its order
_PADS, _EOSES = (PAD, "[PAD]"), (EOS, "[EOS]", "[SEP]", "<eos>", "<|endoftext|>")
_SENTINEL = re.compile(r"<extra_id_(\d{1,6})>")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
FILE = "tokenizer.json"


class SubwordTokenizer:
    """Encodes texts as numbers of subwords, and decodes them.

    `decode(encode(text)) == normal(text)` for every text whose characters all have subwords; spaces are part of the
    subwords. No text spells a special piece: "</s>" in a text is four characters, here as in SentencePiece. Sentinels
    `<extra_id_0>`, `<extra_id_1>`, ... stand for the spans that span corruption takes out.

    Args:
        tokenizer: of the `tokenizers` library, Unigram or BPE; padding and end subwords are added where it has none.

    Raises:
        ModelFileError: a WordPiece tokenizer, which forgets the spaces between words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        kind = type(tokenizer.model).__name__
        if kind not in ("Unigram", "BPE"):
            raise ModelFileError(
                f"is a {kind} vocabulary, whose subwords do not give the text back; allowed: Unigram, BPE"
            )
        tokenizer = read_tokenizer(tokenizer.to_str())
        names = tokenizer.get_vocab()
        for some in (_PADS, _EOSES):
            if not any(name in names for name in some):
                tokenizer.add_special_tokens([some[0]])
        self._content = tokenizer.to_str()
        self._unknown = Vocabulary(tokenizer).unknown_id
        ids = tokenizer.get_vocab()
        self.pad_id: int = next(ids[name] for name in _PADS if name in ids)
        self.eos_id: int = next(ids[name] for name in _EOSES if name in ids)
        found = {int(match[1]): ids[name] for name in ids if (match := _SENTINEL.fullmatch(name))}
        self.sentinel_ids: tuple[int, ...] = tuple(found[number] for number in sorted(found))
        special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
        special |= {name for name in ids if _SENTINEL.fullmatch(name) or _BYTE.fullmatch(name)}
        special |= {name for name, number in ids.items() if number == self._unknown}
        if len(special) > MAX_SPECIALS:
            raise ModelFileError(f"has {len(special):,} special subwords; allowed: {MAX_SPECIALS:,}")
        self._tokenizer = _guarded(tokenizer, sorted(special))

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def unk_id(self) -> int | None:
        """The number of the unknown piece; None where every character has subwords."""
        return self._unknown

    def normal(self, text: str) -> str:
        """The text as it comes back: composed characters, single spaces, whatever else the file's rules do."""
        text = _cleaned(text)
        with rust_errors(DataError, "the text cannot be split into subwords"):
            if self._tokenizer.normalizer is not None:
                text = self._tokenizer.normalizer.normalize_str(text)
            return self._tokenizer.decoder.decode([text]) if self._tokenizer.decoder is not None else text

    def encode(self, text: str) -> list[int]:
        """The subwords of a text, without an end piece."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The subwords of each text.

        Raises:
            DataError: the tokenizer fails at one.
        """
        cleaned = [_cleaned(text) for text in texts]
        with rust_errors(DataError, "a text cannot be split into subwords"):
            found = self._tokenizer.encode_batch(cleaned, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of subwords up to the first end piece; padding is skipped, other special subwords are written.

        Raises:
            ValueError: a number that no piece has.
        """
        kept: list[int] = []
        for number in map(int, ids):
            if number == self.eos_id:
                break
            self._check(number)
            if number != self.pad_id:
                kept.append(number)
        with rust_errors(DataError, "the subwords cannot be made a text"):
            return self._tokenizer.decode(kept, skip_special_tokens=False)

    def subword(self, number: int) -> str:
        """How a piece is written in the file, with "▁" for a space.

        Raises:
            ValueError: no piece has the number.
        """
        self._check(number)
        return self._tokenizer.id_to_token(number)  # type: ignore[return-value]

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self):
            raise ValueError(f"piece {number} does not exist; allowed: 0 to {len(self) - 1}")

    def serialize(self) -> tuple[str, str]:
        """File name and content for `SubwordTokenizer.parse`."""
        return FILE, self._content

    @classmethod
    def parse(cls, name: str, content: str) -> SubwordTokenizer:
        """Read what `serialize` wrote, or any `tokenizer.json` of a Unigram or BPE tokenizer.

        Raises:
            ModelFileError: the content is none; begins with `name`.
        """
        return cls._named(Vocabulary.parse(name, content), name, 0)

    @classmethod
    def load(cls, source: str, *, sentinels: int = 0) -> SubwordTokenizer:
        """Read a SentencePiece `.model`, a `tokenizer.json`, a folder with one of them, or a name on the model hub.

        Args:
            source: as for `Vocabulary.load`.
            sentinels: how many the coder is to have; those that the file has not are added in T5's order, the last
                first, which gives the ids of the published T5 models: of 32,100 subwords `<extra_id_0>` is 32,099.

        Raises:
            ConfigError: nothing of that name can be read.
            ModelFileError: the file is not a vocabulary, or one of WordPiece.
        """
        return cls._named(Vocabulary.load(source), source, sentinels)

    @classmethod
    def _named(cls, vocabulary: Vocabulary, name: str, sentinels: int) -> SubwordTokenizer:
        try:
            tokenizer = vocabulary.tokenizer
            missing = [name for name in reversed(_sentinels(sentinels)) if tokenizer.token_to_id(name) is None]
            tokenizer.add_special_tokens(missing)
            return cls(tokenizer)
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        size: int | None = None,
        sentinels: int = 0,
        join_symbols: bool = False,
        whole_words: int | None = None,
    ) -> SubwordTokenizer:
        """Train Unigram subwords on texts; two runs on the same texts, in any order, give the same subwords.

        Case and punctuation stay as they are and spaces are part of subwords, so that symbols with spaces between them,
        as in `[IN:GET_WEATHER what is [SL:DATE_TIME tomorrow ] ]`, come back exactly.

        Args:
            texts: sources and targets.
            join_symbols: a piece may go on over a space between words of which none has two letters, so that
                `agent ( x _ 2 , x _ 1 )` takes three or four subwords and not eleven; else it never does.
            whole_words: words that occur this often are subwords, even beyond `size`.
            size: number of subwords, the special ones included; None takes half of the distinct words, within 1,000 and
                8,000. Every character of the texts has a piece, even beyond it.
            sentinels: how many.

        Raises:
            ConfigError: the texts have no word.
        """
        counts: Counter[str] = Counter()
        rules, split = _rules(), splitter(join_symbols=join_symbols)
        for text in texts:
            normal = rules.normalize_str(_cleaned(text))
            if join_symbols:
                counts.update(part[1:] for part, _ in split.pre_tokenize_str(normal))
            else:  # the same, twenty times faster
                counts.update(normal.split(" "))
        del counts[""]
        if not counts:
            raise ConfigError("the texts have no word at all; subwords cannot be trained on them")
        if size is None:
            size = min(max(len(counts) // 2, MIN_SUBWORDS), MAX_SUBWORDS)
        specials = [PAD, EOS, UNK, *_sentinels(sentinels)]
        subwords = train_unigram(counts, size, specials, unknown=UNK, whole=whole_words)
        tokenizer = unigram_tokenizer(subwords, unknown=UNK, specials=specials, join_symbols=join_symbols)
        tokenizer.normalizer = rules
        return cls(tokenizer)


def _cleaned(text: str) -> str:
    return clean(text, len(text))[0]


def _rules() -> normalizers.Normalizer:
    """Composed characters, one space between words, none around them; the mark in a text is taken for a space."""
    spaces = normalizers.Replace(Regex(SPACES_PATTERN), " ")
    return normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Strip()])


def _sentinels(number: int) -> list[str]:
    return [f"<extra_id_{i}>" for i in range(number)]


def _guarded(tokenizer: Tokenizer, specials: Sequence[str]) -> Tokenizer:
    """The tokenizer, so that no text has a special piece: the first character of such a name is cut off."""
    tokenizer.encode_special_tokens = True  # as text
    if specials:
        split = pre_tokenizers.Split(
            Regex("|".join(f"{re.escape(s[0])}(?={re.escape(s[1:])})" for s in specials)), "isolated"
        )
        before = tokenizer.pre_tokenizer
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split] if before is None else [before, split])
    return tokenizer
