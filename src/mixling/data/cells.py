"""Read lists and objects that are written as text in a cell, in the notations of the tools that write tables.

These are JSON; Python's, which pandas writes; NumPy's, `['a' 'b']` and `array(['a', 'b'], dtype=object)`; and, where
only a list can stand, lists of bare words: `[a, b]` of Java and Spark, `WrappedArray(a, b)` of Scala, and `{a,b}` of
PostgreSQL.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from typing import Any, NoReturn

MAX_CELL = 1 << 20  # characters; a longer cell is a text
_DEEPEST = 8  # lists in lists
_TOKEN = re.compile(
    r"""\s*(?: (?P<text> [uU]? (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" ))
        | (?P<number> [+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
        | (?P<name> [A-Za-z_][\w.]* )
        | (?P<sign> [][(){},:=] ))""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_TYPE = re.compile(r"(np|numpy|torch|jnp)\.\w+|array|set|frozenset|tensor|Index|Array|Series|deque|dict_keys")
_SCALA = re.compile(r"(?:WrappedArray|ArraySeq|ArrayBuffer|List|Vector|Array|Set|Seq)\((.*)\)", re.DOTALL)
_BEGINNING = re.compile(r"[\[({]|[A-Za-z][\w.]*\(")
_ENDS = {"[": "]", "(": ")", "{": "}"}


class _NoStructureError(Exception):
    """A cell is a text."""


def read_cell(value: Any, *, bare: bool = False) -> Any:
    """Return the list or object that a cell holds as text; any other value, and other text, unchanged.

    Args:
        bare: only a list can stand here, so that its words need no quotes.
    """
    if not isinstance(value, str) or len(value) > MAX_CELL:
        return value
    text = value.strip()
    if text[-1:] not in ("]", ")", "}") or not _BEGINNING.match(text):
        return value
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list | dict):
        return found
    try:
        return _Notation(text).whole()
    except _NoStructureError:
        return _bare_words(text, value) if bare else value


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _bare_words(text: str, value: str) -> Any:
    scala = _SCALA.fullmatch(text)
    inside = (scala[1] if scala else text[1:-1]).strip()
    if (text[0] not in "[{" and not scala) or any(sign in inside for sign in "[]{}"):
        return value
    try:
        words = next(csv.reader([inside], skipinitialspace=True, strict=True), [])
    except csv.Error:
        return value
    words = [word.strip() for word in words]
    return value if any(not word or word[0] in "\"'" or "..." in word.split() for word in words) else words


class _Notation:
    """Reads the notations of Python and NumPy, and mixtures of them; nothing is evaluated."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind = ""
        self._token = ""
        self._next()

    def whole(self) -> Any:
        """Return the value that the whole text is.

        Raises:
            _NoStructureError: it is no list or object in one of the notations.
        """
        found = self._value(0)
        if self._kind != "end" or not isinstance(found, list | dict):
            raise _NoStructureError
        return found

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise _NoStructureError
            self._kind = self._token = "end"
            return
        self._kind = str(match.lastgroup)
        self._at = match.end()
        self._token = match[self._kind]

    def _take(self, *signs: str) -> bool:
        """Skip the next token if it is one of the signs; return whether it is."""
        if self._kind == "sign" and self._token in signs:
            self._next()
            return True
        return False

    def _value(self, depth: int) -> Any:
        kind = self._kind
        token = self._token
        if depth > _DEEPEST or kind == "end":
            raise _NoStructureError
        self._next()
        if kind == "text":
            try:
                return ast.literal_eval(token)
            except (ValueError, SyntaxError):  # an escape that is none
                raise _NoStructureError from None
        if kind == "number":
            return int(token) if re.fullmatch(r"[+-]?\d{1,300}", token) else float(token)
        if kind == "name":
            if token in _CONSTANTS:
                return _CONSTANTS[token]
            if _TYPE.fullmatch(token) and self._take("("):
                return self._call(depth)
            raise _NoStructureError
        if token == "{":
            return self._object(depth)
        if token in "[(":
            return self._items(_ENDS[token], depth)
        raise _NoStructureError

    def _items(self, end: str, depth: int) -> list[Any]:
        """Return values that are separated by commas or, as NumPy does it, by blanks."""
        out: list[Any] = []
        commas = 0
        while not self._take(end):
            out.append(self._value(depth + 1))
            commas += self._take(",")
        if (end == ")" and out and not commas) or commas not in (0, len(out), len(out) - 1):  # ("a") is no list
            raise _NoStructureError
        return out

    def _object(self, depth: int) -> Any:
        """Return an object, or the list of a set such as {'a', 'b'}."""
        keys: list[Any] = []
        values: list[Any] = []
        while not self._take("}"):
            keys.append(self._value(depth + 1))
            if self._take(":"):
                values.append(self._value(depth + 1))
            if not self._take(",") and self._token != "}":
                raise _NoStructureError
        if keys and not values:
            return keys
        out = dict(zip(map(str, keys), values, strict=False))
        if len(out) != len(keys) or len(values) != len(keys):
            raise _NoStructureError
        return out

    def _call(self, depth: int) -> Any:
        """Return the value of `array([...], dtype=object)`, `np.str_('a')` or `{...}` in brackets of a type."""
        out = self._value(depth + 1)
        while self._take(","):
            self._next()
            if not self._take("="):
                raise _NoStructureError
            self._next()
        if not self._take(")"):
            raise _NoStructureError
        return out
