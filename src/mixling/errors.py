"""What can go wrong by a user's hand, and how it is said.

Every message tells where, what was got and what is allowed. The command line prints a `UserError` without a traceback
and leaves with exit code 2; anything else that escapes is a error of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """A mistake that the user can mend: the message says how."""


class ConfigError(UserError):
    """A configuration, option or preset that does not exist or does not fit."""


class DataError(UserError):
    """A row, column or file of the user's data that cannot be used.

    Args:
        message: what was got, and what is allowed.
        path: the file, `<stdin>` or the name of a hub data set.
        line: 1-based line of a text file, or row of a table without lines.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path, self.line = path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class ModelFileError(UserError):
    """A saved model that is missing, damaged, hostile or of another format."""


class StorageError(UserError):
    """A file that could not be written; what stood there before still stands."""


class MissingPackage(UserError):
    """A package of an extra that is not installed."""


class TrainingError(UserError):
    """A training that cannot go on, such as a loss that is not finite."""


class Interrupted(Exception):
    """SIGINT or SIGTERM came and the work was saved; `exit_code` is what a shell expects of the signal."""

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


class NotFittedError(UserError, ValueError, AttributeError):
    """An estimator that was asked before it was fitted (the bases are those of scikit-learn's error)."""


def command_line(*words: str | Path) -> str:
    """Return a command as a message prints it, quoted so that it can be pasted into a shell."""
    parts = [str(word) for word in words]
    return subprocess.list2cmdline(parts) if os.name == "nt" else shlex.join(parts)


_SHOWN = 20  # choices that a message lists
_CHARACTERS = 80  # of a value that a message quotes


def printable(text: str, *, keep: str = "") -> str:
    """Return a text without what could steer a terminal, such as escape sequences.

    Args:
        keep: control characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else "\N{REPLACEMENT CHARACTER}" for sign in text)


def shown(value: object) -> str:
    """Return a value as a message quotes it: in Python's form, and cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "an integer of thousands of digits"
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}... ({len(text):,} characters)"


_FEW = 5  # choices that are listed beside any near miss
_NEAR, _VERY_NEAR = 0.5, 0.75  # likeness of a spelling that is suggested, and of one that is most likely meant


def near_miss(word: str, allowed: Iterable[str], *, prefix: str = "") -> str:
    """Return the nearest spelling that is allowed; beside it the choices where they are few, or none is very near.

    Args:
        prefix: what stands before the choices where one is to be written in full.
    """
    choices = [str(choice) for choice in allowed]
    close = difflib.get_close_matches(word, choices, n=1, cutoff=_NEAR)
    hint = f"did you mean {prefix + close[0]!r}? " if close else ""
    if len(choices) > _FEW and difflib.get_close_matches(word, choices, n=1, cutoff=_VERY_NEAR):
        return f"{hint}({len(choices)} are allowed)"
    if len(choices) > _SHOWN:
        shown = difflib.get_close_matches(word, choices, n=_SHOWN, cutoff=0)
        return f"{hint}allowed: {', '.join(shown)} and {len(choices) - len(shown)} more"
    return f"{hint}allowed: {', '.join(choices)}" if choices else "nothing is allowed here"
