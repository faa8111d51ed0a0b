"""Rebuild the tokenizers of saved models from checked values.

A `tokenizer.json` may contain arbitrary regular expressions, replacements and tables: some take exponential time, some
turn every character into a megabyte, some make the `tokenizers` library panic. Untrusted files are therefore never
passed to it: the model, the added tokens and the steps known to be harmless are copied into a new tokenizer, and
anything else is rejected. Regular expressions must equal those that this library writes. Post-processing, padding and
truncation are dropped, because nothing here uses them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mixling.errors import MissingPackage, ModelFileError, UserError
from mixling.installation import install_command
from mixling.storage import parse_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MARK = "▁"  # U+2581, as in SentencePiece
# A word with at least two letters; between such words there are symbols.
WORD_PATTERN = rf"{MARK}[^{MARK}]*\p{{L}}[^{MARK}]*\p{{L}}[^{MARK}]*"
MAX_SUBWORD_CHARS = 4096
MAX_IDS = 1 << 24
MAX_SPECIALS = 10_000
MAX_STEPS = 16
# The factor by which all steps of a normalizer together may lengthen a text, and the factors of the single steps.
MAX_GROWTH = 128
_GROWTH = {"NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11, "Lowercase": 2, "BertNormalizer": 6, "ByteLevel": 2}

SPACES_PATTERN = rf"[\s{MARK}]+"
ENDS_PATTERN = rf"\A +|[ {MARK}]+\z"
SEVERAL_SPACES_PATTERN = " {2,}"
# mixling's patterns, and how `transformers` converts SentencePiece's rule for repeated spaces.
_REPLACED = {SPACES_PATTERN: (" ",), ENDS_PATTERN: ("",), SEVERAL_SPACES_PATTERN: (" ", MARK)}

Values = dict[str, Any]
Check = Callable[[Any], bool]
Checks = dict[str, Check]  # for each value of a step


def read_tokenizer(content: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, without the parts that only concern other libraries.

    Raises:
        ModelFileError: the content is not a tokenizer, or needs something unsupported.
    """
    try:
        values = parse_json(content)
    except ValueError as error:
        raise ModelFileError(f"is not a tokenizer of the `tokenizers` library: {str(error)[:200]}") from None
    if not isinstance(values, dict):
        raise ModelFileError("is not a tokenizer of the `tokenizers` library: it is not a JSON object")
    normalizer = _step(values.get("normalizer"), "normalizer", _NORMALIZERS)
    rebuilt = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(values.get("added_tokens")),
        "normalizer": normalizer,
        "pre_tokenizer": _step(values.get("pre_tokenizer"), "pre-tokenizer", _SPLITTERS),
        "post_processor": None,
        "decoder": _step(values.get("decoder"), "decoder", _DECODERS),
        "model": _model(values.get("model")),
    }
    if (growth := _growth(normalizer)) > MAX_GROWTH:
        raise ModelFileError(f"its normalizer may make texts {growth} times as long; allowed: up to {MAX_GROWTH} times")
    with library_errors(ModelFileError, "is not a tokenizer of the `tokenizers` library"):
        from tokenizers import Tokenizer

        return Tokenizer.from_str(json.dumps(rebuilt))


@contextlib.contextmanager
def library_errors(kind: type[UserError], message: str) -> Iterator[None]:
    """Convert errors of the `tokenizers` library to `kind`, including panics, which do not derive from `Exception`.

    Raises:
        MissingPackage: the library, or protobuf, is not installed.
    """
    try:
        yield
    except UserError:
        raise
    except ModuleNotFoundError:
        install = install_command("subwords")
        raise MissingPackage(f"vocabularies other than WordPiece's vocab.txt need an extra: {install}") from None
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            reason = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise kind(f"{message}: {reason}") from None
        raise


def check_charsmap(data: bytes) -> int:
    """Return the factor by which a character replacement table may lengthen a text.

    The table is the length of a trie in bytes, the trie, and the NUL-terminated strings that it points to.

    Raises:
        ModelFileError: the table is damaged, or has a replacement longer than any of SentencePiece's.
    """
    size = int.from_bytes(data[:4], "little")
    if size % 4 or not 0 < size < len(data) - 4:
        raise ModelFileError(
            f"the character replacement table is damaged: its trie has {size} of {len(data) - 4} bytes"
        )
    longest = max(map(len, data[4 + size :].split(b"\0")))
    if longest > MAX_GROWTH // 2:
        raise ModelFileError(
            f"the character replacement table has a replacement of {longest} bytes; allowed: {MAX_GROWTH // 2}"
        )
    return max(longest, 1)


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_SUBWORD_CHARS


def _maybe_text(value: Any) -> bool:
    return value is None or _text(value)


def _character(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 1


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_IDS


def _nothing(value: Any) -> bool:
    return value is None


def _charsmap(value: Any) -> bool:
    try:
        check_charsmap(base64.b64decode(value, validate=True))
    except ModelFileError:
        raise
    except (TypeError, ValueError):
        return False
    return True


def _replaced(step: Values) -> bool:
    """Whether a replacement is one that mixling writes, or does not lengthen the text."""
    pattern = step["pattern"]
    content = step["content"]
    if not isinstance(pattern, dict) or len(pattern) != 1 or not _text(content):
        return False
    ((kind, wanted),) = pattern.items()
    if not _text(wanted) or not wanted:
        return False
    if kind == "Regex":
        return content in _REPLACED.get(wanted, ())
    return kind == "String" and ((wanted, content) == (" ", MARK) or len(content.encode()) <= len(wanted.encode()))


def _split(step: Values) -> bool:
    return step == {
        "type": "Split",
        "pattern": {"Regex": WORD_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }


_ANY: Check = lambda value: True  # noqa: E731
_METASPACE: Checks = {
    "replacement": _character,
    "prepend_scheme": _text,
    "split": _boolean,
    "add_prefix_space": _boolean,
    "str_rep": _character,
}
_BYTE_LEVEL: Checks = {"add_prefix_space": _boolean, "trim_offsets": _boolean, "use_regex": _boolean}
_BERT: Checks = {
    "clean_text": _boolean,
    "handle_chinese_chars": _boolean,
    "strip_accents": lambda value: value is None or _boolean(value),
    "lowercase": _boolean,
}
_REPLACE: Checks = {"pattern": _ANY, "content": _ANY}  # checked together by `_replaced`
_NORMALIZERS: dict[str, Checks] = {
    **{name: {} for name in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "ByteLevel")},
    "Strip": {"strip_left": _boolean, "strip_right": _boolean},
    "BertNormalizer": _BERT,
    "Precompiled": {"precompiled_charsmap": _charsmap},
    "Prepend": {"prepend": lambda value: value == MARK},
    "Replace": _REPLACE,
}
_SPLITTERS: dict[str, Checks] = {
    **{name: {} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")},
    "Metaspace": _METASPACE,
    "ByteLevel": _BYTE_LEVEL,
    "Digits": {"individual_digits": _boolean},
    "Punctuation": {"behavior": _text},
    "Split": {"pattern": _ANY, "behavior": _ANY, "invert": _ANY},  # checked together by `_split`
}
_DECODERS: dict[str, Checks] = {
    **{name: {} for name in ("ByteFallback", "Fuse")},
    "Metaspace": _METASPACE,
    "ByteLevel": _BYTE_LEVEL,
    "Replace": _REPLACE,
    "Strip": {"content": _character, "start": _number, "stop": _number},
    "WordPiece": {"prefix": _text, "cleanup": _boolean},
    "BPEDecoder": {"suffix": _text},
}
_PATTERNS: dict[str, Callable[[Values], bool]] = {"Replace": _replaced, "Split": _split}
_SEQUENCES = {"normalizer": "normalizers", "pre-tokenizer": "pretokenizers", "decoder": "decoders"}


def _step(step: Any, what: str, known: dict[str, Checks]) -> Values | None:
    """Copy the checked values of a step of a tokenizer, or of a sequence of steps."""
    if step is None:
        return None
    if isinstance(step, dict) and step.get("type") == "Sequence":
        key = _SEQUENCES[what]
        steps = step.get(key)
        if not isinstance(steps, list) or len(steps) > MAX_STEPS or None in steps:
            raise ModelFileError(f"its {what} is a sequence without steps, or of more than {MAX_STEPS}")
        if any(isinstance(item, dict) and item.get("type") == "Sequence" for item in steps):
            raise ModelFileError(f"its {what} is a sequence of sequences; allowed: a single sequence")
        return {"type": "Sequence", key: [_step(item, what, known) for item in steps]}
    if not isinstance(step, dict) or step.get("type") not in known:
        kind = step.get("type") if isinstance(step, dict) else step
        raise ModelFileError(f"its {what} is {str(kind)[:80]!r}; allowed: {', '.join(known)}")
    kind = step["type"]
    checks = known[kind]
    for name, value in step.items():
        if name != "type" and (name not in checks or not checks[name](value)):
            raise ModelFileError(f"its {what} {kind} has {name[:80]!r} of {str(value)[:80]!r}, which is not supported")
    if kind in _PATTERNS and (not checks.keys() <= step.keys() or not _PATTERNS[kind](step)):
        raise ModelFileError(
            f"its {what} {kind} has a custom pattern ({str(step.get('pattern'))[:80]}); allowed: the regular "
            "expressions and replacements that mixling itself writes"
        )
    return dict(step)


def _growth(normalizer: Values | None) -> int:
    """Return the factor by which a checked normalizer may lengthen a text."""
    if normalizer is None:
        return 1
    if normalizer["type"] == "Sequence":
        return math.prod(map(_growth, normalizer["normalizers"]))
    if normalizer["type"] == "Precompiled":
        return check_charsmap(base64.b64decode(normalizer["precompiled_charsmap"]))
    return _GROWTH.get(normalizer["type"], 1)


_ADDED = ("single_word", "lstrip", "rstrip", "normalized", "special")


def _added_tokens(tokens: Any) -> list[Values]:
    if not isinstance(tokens, list | None):
        raise ModelFileError("its added tokens are not a list")
    out = []
    for token in tokens or []:
        valid = isinstance(token, dict) and _text(token.get("content")) and token["content"]
        if not valid or not _number(token.get("id")) or not all(_boolean(token.get(name, False)) for name in _ADDED):
            raise ModelFileError(f"its added token {str(token)[:200]} is invalid")
        out.append({name: token.get(name, False) for name in ("id", "content", *_ADDED)})
    return out


def _model(model: Any) -> Values:
    if not isinstance(model, dict):
        raise ModelFileError("is not a tokenizer of the `tokenizers` library: it has no model")
    kind = model.get("type")
    if kind is None:  # missing in old files
        kind = "BPE" if "merges" in model else "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"
    if kind not in _MODELS:
        raise ModelFileError(f"its model is {str(kind)[:80]!r}; allowed: {', '.join(_MODELS)}")
    checks = _MODELS[kind]
    for name, value in model.items():
        if name != "type" and (name not in checks or not checks[name](value)):
            raise ModelFileError(f"its {kind} model has {name[:80]!r} of {str(value)[:80]!r}, which is not supported")
    if not model.get("vocab"):
        raise ModelFileError(f"its {kind} model has no subwords")
    unknown = model.get("unk_id")
    if unknown is not None and unknown >= len(model["vocab"]):
        raise ModelFileError(f"its unknown subword has the id {unknown}; allowed: 0 to {len(model['vocab']) - 1}")
    return {**model, "type": kind}


def _numbered(vocab: Any) -> bool:
    return isinstance(vocab, dict) and all(map(_text, vocab)) and all(map(_number, vocab.values()))


def _scored(vocab: Any) -> bool:
    return isinstance(vocab, list) and all(
        isinstance(item, list)
        and len(item) == 2
        and _text(item[0])
        and type(item[1]) in (int, float)
        and -1e30 < item[1] < 1e30
        for item in vocab
    )


def _pairs(merges: Any) -> bool:
    return isinstance(merges, list) and all(
        _text(item) or (isinstance(item, list) and len(item) == 2 and all(map(_text, item))) for item in merges
    )


_MODELS: dict[str, Checks] = {
    "WordPiece": {
        "unk_token": _text,
        "continuing_subword_prefix": _text,
        "max_input_chars_per_word": _number,
        "vocab": _numbered,
    },
    "Unigram": {"unk_id": lambda value: value is None or _number(value), "vocab": _scored, "byte_fallback": _boolean},
    "BPE": {
        "dropout": _nothing,
        "unk_token": _maybe_text,
        "continuing_subword_prefix": _maybe_text,
        "end_of_word_suffix": _maybe_text,
        "fuse_unk": _boolean,
        "byte_fallback": _boolean,
        "ignore_merges": _boolean,
        "vocab": _numbered,
        "merges": _pairs,
    },
}
