"""Errors for mistakes of the user, and helpers for their messages.

Every message states where the problem is, what was got, and the allowed values. The command line prints a `UserError`
without a traceback and exits with code 2; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import os

from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class UserError(Exception):
    """A mistake that the user can correct; the message states how."""


class ConfigError(UserError):
    """An invalid or unknown configuration, option or preset."""


class DataError(UserError):
    """An invalid row, column or file of the user's data.

    Args:
        message: what was got, and the allowed values.
        path: the file, `<stdin>` or the name of a hub data set.
        line: 1-based line of a text file, or row of a table without lines.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class ModelFileError(UserError):
    """A saved model that is missing, damaged, hostile or of another format."""


class StorageError(UserError):
    """A file that could not be written; an existing file is unchanged."""


class MissingPackage(UserError):
    """A package of an optional extra that is not installed."""


class TrainingError(UserError):
    """A training that cannot continue, for example because the loss is not finite."""


class Interrupted(Exception):
    """SIGINT or SIGTERM was received and the work was saved; `exit_code` follows the convention of shells."""

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


class NotFittedError(UserError, ValueError, AttributeError):
    """An estimator that is used before it is fitted (with the base classes of scikit-learn's error)."""


def command_line(*words: str | Path) -> str:
    """Return a command for a message, quoted so that it can be pasted into a shell."""
    parts = list(map(str, words))
    if os.name == "nt":
        from subprocess import list2cmdline

        return list2cmdline(parts)
    from shlex import join

    return join(parts)


_SHOWN = 20  # choices listed in a message
_COMPARED = 10_000  # choices that are compared with what was got: a million columns would take a minute
_CHARACTERS = 80  # of a value quoted in a message


def printable(text: str, *, keep: str = "") -> str:
    """Replace characters that could control a terminal, such as escape sequences.

    Args:
        keep: control characters that are not replaced.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else "\N{REPLACEMENT CHARACTER}" for sign in text)


def shown(value: object) -> str:
    """Return the `repr` of a value for a message, truncated if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of more than 4,300 digits
        return "an integer of thousands of digits"
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}... ({len(text):,} characters)"


_FEW = 5  # up to this many choices are always listed
# similarity of a suggested spelling, and of one that is most likely meant
_NEAR = 0.5
_VERY_NEAR = 0.75


def shown_list(values: Sequence[object]) -> str:
    """Return the first of some values, each as `shown` writes it, and how many more there are."""
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return ", ".join(map(shown, values[:_SHOWN])) + more


def near_miss(word: str, allowed: Iterable[str], *, prefix: str = "", cutoff: float = _NEAR) -> str:
    """Suggest the most similar allowed word, and list the choices if they are few or none is very similar.

    Args:
        prefix: written before the suggested word, such as the keys of parent tables.
        cutoff: the least similarity of a suggestion, of 0 to 1.
    """
    from difflib import get_close_matches

    choices = list(map(str, allowed))
    compared = choices[:_COMPARED]
    close = get_close_matches(word, compared, n=1, cutoff=cutoff)
    hint = f"did you mean {prefix + close[0]!r}? " if close else ""
    if len(choices) > _FEW and get_close_matches(word, compared, n=1, cutoff=_VERY_NEAR):
        return f"{hint}({len(choices)} are allowed)"
    if len(choices) > _SHOWN:
        listed = get_close_matches(word, compared, n=_SHOWN, cutoff=0)
        return f"{hint}allowed: {', '.join(listed)} and {len(choices) - len(listed)} more"
    return f"{hint}allowed: {', '.join(choices)}" if choices else "nothing is allowed here"
