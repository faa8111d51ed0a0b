"""SentencePiece's `.model` files (Unigram and BPE) as tokenizers of the `tokenizers` library, piece for piece.

What differs: Unigram sums scores in 64 bits, SentencePiece in 32, so that of two splittings with almost the same score
("!!" "!" and "!" "!!") the other may win; `tokenizers` loses a combining mark that follows a character which the table
of replacements changes, such as a no-break space; subwords of type "user defined" are normalized like the text around
them; of type "unused" none wins in BPE, where SentencePiece uses them on the way to longer ones.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from mixling.errors import ModelFileError
from mixling.text.tokenizer_file import ENDS_PATTERN, SEVERAL_SPACES_PATTERN, check_charsmap, rust_errors
from mixling.text.unigram import MARK

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
_MODEL_TYPES = {UNIGRAM: "unigram", BPE: "BPE", 3: "word", 4: "char"}

_ALWAYS = 1_000.0  # a character: more than all other subwords of a word could lose

_FIELD = descriptor_pb2.FieldDescriptorProto
# What matters of sentencepiece_model.proto: (field, number, type, default); the rest is skipped.
_MESSAGES: dict[str, list[tuple[str, int, Any, str | None]]] = {
    "Subword": [
        ("piece", 1, _FIELD.TYPE_BYTES, None),  # a string there, but here its damage is to be told
        ("score", 2, _FIELD.TYPE_FLOAT, None),
        ("type", 3, _FIELD.TYPE_INT32, str(NORMAL)),
    ],
    "Trainer": [
        ("model_type", 3, _FIELD.TYPE_INT32, str(UNIGRAM)),
        ("treat_whitespace_as_suffix", 24, _FIELD.TYPE_BOOL, "false"),
    ],
    "Normalizer": [
        ("precompiled_charsmap", 2, _FIELD.TYPE_BYTES, None),
        ("add_dummy_prefix", 3, _FIELD.TYPE_BOOL, "true"),
        ("remove_extra_whitespaces", 4, _FIELD.TYPE_BOOL, "true"),
        ("escape_whitespaces", 5, _FIELD.TYPE_BOOL, "true"),
    ],
    "Model": [
        ("tokenizer", 1, "Subword", None),
        ("trainer_spec", 2, "Trainer", None),
        ("normalizer_spec", 3, "Normalizer", None),
    ],
}


@functools.cache
def message_type(name: str = "Model") -> Any:
    """The class of a protobuf message; its fields are those above."""
    package = "mixling.sentencepiece"
    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_model.proto", package=package, syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, number, kind, default in fields:
            label = _FIELD.LABEL_REPEATED if field == "tokenizer" else _FIELD.LABEL_OPTIONAL
            if isinstance(kind, str):
                described.field.add(
                    name=field, number=number, label=label, type=_FIELD.TYPE_MESSAGE, type_name=f".{package}.{kind}"
                )
            else:
                described.field.add(name=field, number=number, label=label, type=kind, default_value=default)
    pool = descriptor_pool.DescriptorPool()  # not the shared one, where SentencePiece's own may stand
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def read_sentencepiece(data: bytes, name: str) -> Tokenizer:
    """The tokenizer of a `.model` file; control subwords and the unknown one are its special tokens, under their ids.

    Raises:
        ModelFileError: the bytes are no such file, or ask for what is not read here; begins with `name`.
    """
    try:
        model = message_type()()
        model.ParseFromString(data)
        return _tokenizer(model)
    except DecodeError:
        raise ModelFileError(
            f"{name}: is not a SentencePiece model: it is damaged, cut short or of another format"
        ) from None
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None


def _tokenizer(model: Any) -> Tokenizer:
    subwords, types, unknown = _subwords(model)
    kind, rules = model.trainer_spec.model_type, model.normalizer_spec
    if kind not in (UNIGRAM, BPE):
        raise ModelFileError(f"the model type is {_MODEL_TYPES.get(kind, kind)}; allowed: unigram, BPE")
    if model.trainer_spec.treat_whitespace_as_suffix or not rules.escape_whitespaces:
        raise ModelFileError("marks spaces after words or not at all; a model that marks them before words can be read")
    names = [subword for subword, _ in subwords]
    defined = [subword for subword, what in zip(names, types, strict=True) if what == USER_DEFINED]
    if kind == UNIGRAM:
        tokenizer = Tokenizer(models.Unigram(_forced(subwords, types), unk_id=unknown, byte_fallback=BYTE in types))
    else:
        if defined and rules.add_dummy_prefix:
            raise ModelFileError(
                f"is BPE with a prefix for texts and user-defined subwords ({defined[0]!r}); allowed: one"
            )
        ids = {subword: number for number, subword in enumerate(names)}
        tokenizer = Tokenizer(
            models.BPE(
                ids, _merges(subwords, types), unk_token=names[unknown], fuse_unk=True, byte_fallback=BYTE in types
            )
        )
        tokenizer.add_tokens([AddedToken(subword, normalized=False) for subword in defined])
    tokenizer.normalizer = normalizers.Sequence(_normalizers(rules))
    if not any(MARK in subword[1:] for subword in names):  # else a piece may go on over a space
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="never", split=True)
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if rules.add_dummy_prefix else steps)
    tokenizer.add_special_tokens([p for p, what in zip(names, types, strict=True) if what in (UNKNOWN, CONTROL)])
    return tokenizer


def _subwords(model: Any) -> tuple[list[tuple[str, float]], list[int], int]:
    """The subwords with their scores, their types, and the number of the unknown one."""
    if not model.subwords:
        raise ModelFileError("is not a SentencePiece model: it has no subwords")
    subwords: list[tuple[str, float]] = []
    types = [subword.type for subword in model.subwords]
    seen: set[str] = set()
    for number, (item, what) in enumerate(zip(model.subwords, types, strict=True)):
        try:
            subword = item.subword.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"piece {number} is not UTF-8: {error}") from None
        if not subword or subword in seen:
            raise ModelFileError(f"piece {number} is {'there twice' if subword else 'empty'}: {subword!r}")
        if not NORMAL <= what <= BYTE:
            raise ModelFileError(f"piece {number}, {subword!r}, is of type {what}; allowed: {NORMAL} to {BYTE}")
        if not -1e30 < item.score < 1e30:
            raise ModelFileError(f"piece {number}, {subword!r}, has the score {item.score}; it is a finite number")
        seen.add(subword)
        subwords.append((subword, item.score))
    if types.count(UNKNOWN) != 1:
        raise ModelFileError(f"has {types.count(UNKNOWN)} unknown subwords; a SentencePiece model has one")
    return subwords, types, types.index(UNKNOWN)


def _forced(subwords: list[tuple[str, float]], types: list[int]) -> list[tuple[str, float]]:
    """Pieces with scores by which one that the user defined always wins, and an unused one never does."""
    worst = min((score for (_, score), what in zip(subwords, types, strict=True) if what == NORMAL), default=0.0)
    scale = {USER_DEFINED: _ALWAYS, UNUSED: worst - 1}
    return [
        (subword, len(subword) * scale[what] if what in scale else score)
        for (subword, score), what in zip(subwords, types, strict=True)
    ]


def _merges(subwords: list[tuple[str, float]], types: list[int]) -> list[tuple[str, str]]:
    """BPE's merges, best first: every way to make a piece of two others, in the order of the subwords' scores."""
    ids = {subword: i for i, ((subword, _), what) in enumerate(zip(subwords, types, strict=True)) if what == NORMAL}
    merges = []
    for subword in sorted(ids, key=lambda subword: (-subwords[ids[subword]][1], ids[subword])):
        halves = [(subword[:i], subword[i:]) for i in range(1, len(subword))]
        merges += sorted(
            (pair for pair in halves if pair[0] in ids and pair[1] in ids),
            key=lambda pair: (ids[pair[0]], ids[pair[1]]),
        )
    return merges


def _normalizers(rules: Any) -> list[Any]:
    steps: list[Any] = []
    if rules.precompiled_charsmap:
        steps.append(_charsmap(rules.precompiled_charsmap))
    if rules.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex(ENDS_PATTERN), ""), normalizers.Replace(Regex(SEVERAL_SPACES_PATTERN), " ")]
    steps.append(normalizers.Replace(" ", MARK))
    if rules.add_dummy_prefix:
        steps.append(normalizers.Prepend(MARK))
    return steps


def _charsmap(data: bytes) -> Any:
    """The table of character replacements."""
    check_charsmap(data)
    with rust_errors(ModelFileError, "the table of character replacements is damaged"):
        table = normalizers.Precompiled(data)
        table.normalize_str("Ａﬁ \t①é")
    return table
