"""Convert SentencePiece's `.model` files (Unigram and BPE) to tokenizers of the `tokenizers` library.

Known differences: Unigram sums scores in 64 bits, SentencePiece in 32, so either of two segmentations with almost equal
scores ("!!" "!" and "!" "!!") may win; `tokenizers` drops a combining mark after a character that the replacement table
changes, such as a no-break space; "user defined" pieces are normalized like the text around them; "unused" pieces never
occur in BPE, whereas SentencePiece uses them as intermediate steps to longer ones.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from mixling.errors import ModelFileError
from mixling.text.tokenizer_file import ENDS_PATTERN, MARK, SEVERAL_SPACES_PATTERN, check_charsmap, library_errors

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM = 1
BPE = 2
_MODEL_TYPES = {UNIGRAM: "unigram", BPE: "BPE", 3: "word", 4: "char"}

_ALWAYS = 1_000.0  # score per character that outweighs all other pieces of a word

_FIELD = descriptor_pb2.FieldDescriptorProto
# The relevant part of sentencepiece_model.proto: (field, number, type, default); the rest is skipped.
_MESSAGES: dict[str, list[tuple[str, int, Any, str | None]]] = {
    "Piece": [
        ("piece", 1, _FIELD.TYPE_BYTES, None),  # a string there; bytes here, so that damage can be reported
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
        ("pieces", 1, "Piece", None),
        ("trainer_spec", 2, "Trainer", None),
        ("normalizer_spec", 3, "Normalizer", None),
    ],
}


@functools.cache
def message_type(name: str = "Model") -> Any:
    """Return the class of a protobuf message with the fields above."""
    package = "mixling.sentencepiece"
    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_model.proto", package=package, syntax="proto2")
    for message, fields in _MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for field, number, kind, default in fields:
            label = _FIELD.LABEL_REPEATED if field == "pieces" else _FIELD.LABEL_OPTIONAL
            if isinstance(kind, str):
                descriptor.field.add(
                    name=field, number=number, label=label, type=_FIELD.TYPE_MESSAGE, type_name=f".{package}.{kind}"
                )
            else:
                descriptor.field.add(name=field, number=number, label=label, type=kind, default_value=default)
    pool = descriptor_pool.DescriptorPool()  # not the shared one, which may contain SentencePiece's own
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def read_sentencepiece(data: bytes, name: str) -> Tokenizer:
    """Return the tokenizer of a `.model` file; its special tokens are the control pieces and the unknown piece.

    Raises:
        ModelFileError: the bytes are not such a file, or need something unsupported; the message begins with `name`.
    """
    try:
        model = message_type()()
        model.ParseFromString(data)
        return _tokenizer(model)
    except DecodeError:
        raise ModelFileError(
            f"{name}: is not a SentencePiece model: it is damaged, truncated or of another format"
        ) from None
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None


def _tokenizer(model: Any) -> Tokenizer:
    pieces, types, unknown = _pieces(model)
    kind = model.trainer_spec.model_type
    rules = model.normalizer_spec
    if kind not in (UNIGRAM, BPE):
        raise ModelFileError(f"the model type is {_MODEL_TYPES.get(kind, kind)}; allowed: unigram, BPE")
    if model.trainer_spec.treat_whitespace_as_suffix or not rules.escape_whitespaces:
        raise ModelFileError("marks spaces after words or not at all; allowed: models that mark them before words")
    names = [piece for piece, _ in pieces]
    defined = [piece for piece, what in zip(names, types, strict=True) if what == USER_DEFINED]
    if kind == UNIGRAM:
        tokenizer = Tokenizer(models.Unigram(_forced(pieces, types), unk_id=unknown, byte_fallback=BYTE in types))
    else:
        if defined and rules.add_dummy_prefix:
            raise ModelFileError(
                f"is BPE with both a dummy prefix and user-defined pieces ({defined[0]!r}); allowed: only one of them"
            )
        ids = {piece: number for number, piece in enumerate(names)}
        tokenizer = Tokenizer(
            models.BPE(
                ids, _merges(pieces, types), unk_token=names[unknown], fuse_unk=True, byte_fallback=BYTE in types
            )
        )
        tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in defined])
    tokenizer.normalizer = normalizers.Sequence(_normalizers(rules))
    if not any(MARK in piece[1:] for piece in names):  # otherwise pieces may extend over a space
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="never", split=True)
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if rules.add_dummy_prefix else steps)
    tokenizer.add_special_tokens([p for p, what in zip(names, types, strict=True) if what in (UNKNOWN, CONTROL)])
    return tokenizer


def _pieces(model: Any) -> tuple[list[tuple[str, float]], list[int], int]:
    """Return the pieces with their scores, their types, and the id of the unknown piece."""
    if not model.pieces:
        raise ModelFileError("is not a SentencePiece model: it has no pieces")
    pieces: list[tuple[str, float]] = []
    types = [piece.type for piece in model.pieces]
    seen: set[str] = set()
    for number, (item, what) in enumerate(zip(model.pieces, types, strict=True)):
        try:
            piece = item.piece.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"piece {number} is not UTF-8: {error}") from None
        if not piece or piece in seen:
            raise ModelFileError(f"piece {number} is {'a duplicate' if piece else 'empty'}: {piece!r}")
        if not NORMAL <= what <= BYTE:
            raise ModelFileError(f"piece {number}, {piece!r}, is of type {what}; allowed: {NORMAL} to {BYTE}")
        if not -1e30 < item.score < 1e30:
            raise ModelFileError(f"piece {number}, {piece!r}, has the score {item.score}; allowed: finite numbers")
        seen.add(piece)
        pieces.append((piece, item.score))
    if types.count(UNKNOWN) != 1:
        raise ModelFileError(f"has {types.count(UNKNOWN)} unknown pieces; a SentencePiece model has exactly one")
    return pieces, types, types.index(UNKNOWN)


def _forced(pieces: list[tuple[str, float]], types: list[int]) -> list[tuple[str, float]]:
    """Set scores with which user-defined pieces always win and unused pieces never do."""
    worst = min((score for (_, score), what in zip(pieces, types, strict=True) if what == NORMAL), default=0.0)
    scale = {USER_DEFINED: _ALWAYS, UNUSED: worst - 1}
    return [
        (piece, len(piece) * scale[what] if what in scale else score)
        for (piece, score), what in zip(pieces, types, strict=True)
    ]


def _merges(pieces: list[tuple[str, float]], types: list[int]) -> list[tuple[str, str]]:
    """Return BPE's merges, best first: all ways to join two pieces to a third, in the order of the scores."""
    ids = {piece: i for i, ((piece, _), what) in enumerate(zip(pieces, types, strict=True)) if what == NORMAL}
    merges = []
    for piece in sorted(ids, key=lambda piece: (-pieces[ids[piece]][1], ids[piece])):
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
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
    check_charsmap(data)
    with library_errors(ModelFileError, "the character replacement table is damaged"):
        table = normalizers.Precompiled(data)
        table.normalize_str("Ａﬁ \t①é")
    return table
