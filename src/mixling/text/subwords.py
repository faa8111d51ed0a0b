"""Convert whole texts to subword ids and back, for models that read and write text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from mixling.errors import ConfigError, DataError, ModelFileError
from mixling.text.clean import clean
from mixling.text.tokenizer_file import MAX_SPECIALS, SPACES_PATTERN, library_errors, read_tokenizer
from mixling.text.unigram import splitter, train_unigram, unigram_tokenizer
from mixling.text.vocabulary import Vocabulary, default_size

# T5's, and in its order
PAD = "<pad>"
EOS = "</s>"
UNK = "<unk>"
_PADS = (PAD, "[PAD]")
_EOSES = (EOS, "[EOS]", "[SEP]", "<eos>", "<|endoftext|>")
_SENTINEL = re.compile(r"<extra_id_(\d{1,6})>")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
FILE = "tokenizer.json"


class SubwordTokenizer:
    """Encodes texts as subword ids, and decodes them.

    `decode(encode(text)) == normal(text)` for every text whose characters all have subwords; spaces are part of the
    subwords. Text never becomes a special token: "</s>" in a text is four characters, as in SentencePiece. The
    sentinels `<extra_id_0>`, `<extra_id_1>`, ... represent the spans that span corruption removes.

    Args:
        tokenizer: a Unigram or BPE tokenizer of the `tokenizers` library; missing padding and end tokens are added.

    Raises:
        ModelFileError: a WordPiece tokenizer, which loses the spaces between words.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        kind = type(tokenizer.model).__name__
        if kind not in ("Unigram", "BPE"):
            raise ModelFileError(
                f"is a {kind} vocabulary, from whose subwords the text cannot be restored; allowed: Unigram, BPE"
            )
        tokenizer = read_tokenizer(tokenizer.to_str())
        names = tokenizer.get_vocab()
        for aliases in (_PADS, _EOSES):
            if not any(name in names for name in aliases):
                tokenizer.add_special_tokens([aliases[0]])
        self._content = tokenizer.to_str()
        self._unknown = Vocabulary(tokenizer).unknown_id
        ids = tokenizer.get_vocab()
        self.pad_id: int = next(ids[name] for name in _PADS if name in ids)
        self.eos_id: int = next(ids[name] for name in _EOSES if name in ids)
        sentinels = {int(match[1]): ids[name] for name in ids if (match := _SENTINEL.fullmatch(name))}
        self.sentinel_ids: tuple[int, ...] = tuple(sentinels[number] for number in sorted(sentinels))
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
        """The id of the unknown subword; None if every character has subwords."""
        return self._unknown

    def normal(self, text: str) -> str:
        """Return the normalized text: composed characters, single spaces, and the file's own rules."""
        text = _cleaned(text)
        with library_errors(DataError, "the text cannot be split into subwords"):
            if self._tokenizer.normalizer is not None:
                text = self._tokenizer.normalizer.normalize_str(text)
            return self._tokenizer.decoder.decode([text]) if self._tokenizer.decoder is not None else text

    def encode(self, text: str) -> list[int]:
        """Return the subword ids of a text, without an end token."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the subword ids of each text.

        Raises:
            DataError: the tokenizer fails on a text.
        """
        cleaned = [_cleaned(text) for text in texts]
        with library_errors(DataError, "a text cannot be split into subwords"):
            return [item.ids for item in self._tokenizer.encode_batch(cleaned, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of subword ids up to the first end token; padding is skipped, other special tokens are not.

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        kept: list[int] = []
        for number in map(int, ids):
            if number == self.eos_id:
                break
            self._check(number)
            if number != self.pad_id:
                kept.append(number)
        with library_errors(DataError, "the subwords cannot be decoded"):
            return self._tokenizer.decode(kept, skip_special_tokens=False)

    def subword(self, number: int) -> str:
        """Return a subword as in the file, with "▁" for a space.

        Raises:
            ValueError: the id is not in the vocabulary.
        """
        self._check(number)
        return self._tokenizer.id_to_token(number)  # type: ignore[return-value]

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self):
            raise ValueError(f"subword {number} does not exist; allowed: 0 to {len(self) - 1}")

    def serialize(self) -> tuple[str, str]:
        """Return the file name and content for `SubwordTokenizer.parse`."""
        return FILE, self._content

    @classmethod
    def parse(cls, name: str, content: str) -> SubwordTokenizer:
        """Read a `tokenizer.json` of a Unigram or BPE tokenizer, such as `serialize` returns.

        Raises:
            ModelFileError: the content is not one; the message begins with `name`.
        """
        return cls._named(Vocabulary.parse(name, content), name, 0)

    @classmethod
    def load(cls, source: str, *, sentinels: int = 0) -> SubwordTokenizer:
        """Read a SentencePiece `.model`, a `tokenizer.json`, a folder with one of them, or a name on the model hub.

        Args:
            source: as for `Vocabulary.load`.
            sentinels: number of sentinels; missing ones are added in T5's order, the last first, which gives the ids of
                the published T5 models: of 32,100 subwords, `<extra_id_0>` is 32,099.

        Raises:
            ConfigError: nothing of that name can be read.
            ModelFileError: the file is not a Unigram or BPE vocabulary.
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
        """Train Unigram subwords on texts; the same texts, in any order, give the same subwords.

        Case and punctuation are kept and spaces are part of subwords, so symbols separated by spaces, as in
        `[IN:GET_WEATHER what is [SL:DATE_TIME tomorrow ] ]`, are restored exactly.

        Args:
            texts: source and target texts.
            size: number of subwords, special tokens included; None: half the number of distinct words, between 1,000
                and 8,000. Every character of the texts has a subword, even beyond `size`.
            sentinels: number of sentinels.
            join_symbols: let subwords extend over a space between words with fewer than two letters, so that
                `agent ( x _ 2 , x _ 1 )` takes three or four subwords instead of eleven.
            whole_words: words that occur at least this often are subwords, even beyond `size`.

        Raises:
            ConfigError: the texts have no words.
        """
        counts: Counter[str] = Counter()
        rules = _rules()
        split = splitter(join_symbols=join_symbols)
        for text in texts:
            normal = rules.normalize_str(_cleaned(text))
            if join_symbols:
                counts.update(part[1:] for part, _ in split.pre_tokenize_str(normal))
            else:  # the same, twenty times faster
                counts.update(normal.split(" "))
        del counts[""]
        if not counts:
            raise ConfigError("the texts have no words; subwords cannot be trained on them")
        specials = [PAD, EOS, UNK, *_sentinels(sentinels)]
        subwords = train_unigram(counts, size or default_size(counts), specials, unknown=UNK, whole=whole_words)
        tokenizer = unigram_tokenizer(subwords, unknown=UNK, specials=specials, join_symbols=join_symbols)
        tokenizer.normalizer = rules
        return cls(tokenizer)


def _cleaned(text: str) -> str:
    return clean(text, len(text))[0]


def _rules() -> normalizers.Normalizer:
    """Compose characters and collapse white space; the word mark in a text counts as a space."""
    spaces = normalizers.Replace(Regex(SPACES_PATTERN), " ")
    return normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Strip()])


def _sentinels(number: int) -> list[str]:
    return [f"<extra_id_{i}>" for i in range(number)]


def _guarded(tokenizer: Tokenizer, specials: Sequence[str]) -> Tokenizer:
    """Keep text from becoming special tokens, by splitting such a name after its first character."""
    tokenizer.encode_special_tokens = True  # as text
    if specials:
        split = pre_tokenizers.Split(
            Regex("|".join(f"{re.escape(s[0])}(?={re.escape(s[1:])})" for s in specials)), "isolated"
        )
        before = tokenizer.pre_tokenizer
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split] if before is None else [before, split])
    return tokenizer
