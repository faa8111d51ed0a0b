"""Convert tags of any scheme in use to IOB2: which scheme a file has, what its marks mean, how they are written.

IOB2 (B-x I-x), IOB1 (B-x only between neighbors of one type), IO (no B-x: neighbors of one type are one span), BIOES,
BILOU, BMES (also BMEWO) and IOE1, IOE2 (E-x ends a span). A tag is written as B-x, B_x, B/x, B:x, B.x or B|x, with the
mark first or last, in either case; without a type (B, I); without a mark (the type alone, which is IO); or in brackets,
as in CoNLL-2012: (x*, *, *). O is outside; so are o and _.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mixling.errors import ConfigError, near_miss

BARE_TYPE = "span"  # of spans whose tags have no type
HALF = 0.5  # of the sentences with spans: if more have an impossible tag, the scheme is not what was recognized
_Mark = tuple[str, str]  # B, I, E, S or O, and the type
_OUTSIDE = ("O", "o", "_")
_CLOSED = {  # marks of schemes in which the last word of a span is marked
    "bioes": {"B": "B", "I": "I", "E": "E", "S": "S"},
    "bilou": {"B": "B", "I": "I", "L": "E", "U": "S"},
    "bmes": {"B": "B", "M": "I", "E": "E", "S": "S", "W": "S"},
}
_LETTERS = {
    "iob2": {"B": "B", "I": "I"},
    "iob1": {"B": "B", "I": "I"},
    "io": {"I": "I"},
    **_CLOSED,
    "ioe2": {"I": "I", "E": "E"},
    "ioe1": {"I": "I", "E": "E"},
}
_ALIASES = {
    "bio": "iob2", "bio2": "iob2", "iobes": "bioes", "bioes": "bioes", "biose": "bioes", "bieos": "bioes",
    "bilou": "bilou", "biluo": "bilou", "bmewo": "bmes", "bmeso": "bmes", "bmeow": "bmes",
}  # fmt: skip
_NAMES = {"bioes": "BIOES", "bilou": "BILOU", "bmes": "BMES", "iob1": "IOB1", "iob2": "IOB2", "io": "IO"}
_NAMES |= {"ioe1": "IOE1", "ioe2": "IOE2"}
MARK_LETTER = "[BIELSUWM]"
_WRITTEN = {  # by what they are called in messages; the first that reads most tags is taken
    "B-x": re.compile(rf"(?P<mark>{MARK_LETTER})-(?P<type>\S.*)"),
    **{f"B{sign}x": re.compile(rf"(?P<mark>{MARK_LETTER}){re.escape(sign)}(?P<type>\S.*)") for sign in "_/:.|"},
    **{f"x{sign}B": re.compile(rf"(?P<type>\S.*){re.escape(sign)}(?P<mark>{MARK_LETTER})") for sign in "-_/:.|"},
    **{
        f"b{sign}x": re.compile(rf"(?P<mark>{MARK_LETTER.lower()}){re.escape(sign)}(?P<type>\S.*)") for sign in "-_/:.|"
    },
    **{
        f"x{sign}b": re.compile(rf"(?P<type>\S.*){re.escape(sign)}(?P<mark>{MARK_LETTER.lower()})") for sign in "-_/:.|"
    },
    "B": re.compile(rf"(?P<mark>{MARK_LETTER})(?P<type>)"),
    "b": re.compile(rf"(?P<mark>{MARK_LETTER.lower()})(?P<type>)"),
}
_BRACKETS = "(x*"
_ALONE = "x"
_UNKNOWN_MARK = re.compile(r"[^\W_][\W_]")
_BRACKET = re.compile(r"(?:\((?P<type>[^()*\s]+))?\*?(?P<end>\))?")


class ImpossibleTagError(ValueError):
    """A tag cannot stand where it does.

    Args:
        index: of the tag in its sentence.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


@dataclass(frozen=True, slots=True)
class TagScheme:
    """A scheme of tags, and how it is written.

    Attributes:
        name: a key of `SCHEMES`.
        written: how the tag that begins a span of type x is written.
        failures: fraction of the sentences with spans, of those that `recognize` saw, that cannot be converted.
    """

    name: str = "iob2"
    written: str = "B-x"
    failures: float = 0.0

    @property
    def remark(self) -> str:
        """What is converted, as a sentence; "" if the tags are IOB2 as they are."""
        if (self.name, self.written) == ("iob2", "B-x"):
            return ""
        name = _NAMES[self.name]
        how = "" if self.written == "B-x" or self.written.endswith("*") else f", written as {self.written}"
        if self.written == _BRACKETS:
            return "the tags in brackets are converted to IOB2"
        if self.written == _ALONE:
            return "the tags are types without marks (IO): words in a row with the same one are one span; read as IOB2"
        more = ": neighbors of one type are one span" if self.name == "io" else ""
        more += f"; the spans have no type and are called {BARE_TYPE}" if self.written in "Bb" else ""
        return f"the tags are {name}{how}{more}; they are converted to IOB2"

    def convert(self, tags: Sequence[str]) -> list[str]:
        """Return the tags of a sentence in IOB2.

        Raises:
            ImpossibleTagError: a tag is not of the scheme, or cannot follow the one before it.
        """
        marks = _brackets(tags) if self.written == _BRACKETS else [self._mark(tag, i) for i, tag in enumerate(tags)]
        closed = _closed if self.name in _CLOSED or self.written == _BRACKETS else None
        begins = (closed or _OPEN[self.name])(marks, tags)
        pairs = zip(marks, begins, strict=True)
        return ["O" if mark == "O" else f"{'B' if new else 'I'}-{kind}" for (mark, kind), new in pairs]

    def _mark(self, tag: str, index: int) -> _Mark:
        if tag in _OUTSIDE:
            return "O", ""
        if self.written == _ALONE:
            return "I", tag
        match = _WRITTEN[self.written].fullmatch(tag)
        mark = _LETTERS[self.name].get(match["mark"].upper()) if match else None
        if match is None or mark is None:
            raise ImpossibleTagError(index, f"got {tag!r}; allowed: {self._allowed()}")
        return mark, match["type"] or BARE_TYPE

    def _allowed(self) -> str:
        letters = [self.written.replace("B", mark).replace("b", mark.lower()) for mark in _LETTERS[self.name]]
        tags = " and ".join([", ".join(["O", *letters[:-1]]), letters[-1]])
        return f"{tags.replace('-x', '-name')} ({_NAMES[self.name]})"


SCHEMES = tuple(_LETTERS)


def _iob2(marks: Sequence[_Mark], tags: Sequence[str]) -> list[bool]:
    for index, (mark, kind) in enumerate(marks):
        if mark == "I" and (index == 0 or marks[index - 1][1] != kind):
            before = repr(tags[index - 1]) if index else "the beginning"
            begin = f"B-{kind}"
            raise ImpossibleTagError(index, f"{tags[index]!r} follows {before}; a span begins with {begin} (IOB2)")
    return [mark == "B" for mark, _ in marks]


def _iob1(marks: Sequence[_Mark], tags: Sequence[str]) -> list[bool]:
    begins = []
    for index, (mark, kind) in enumerate(marks):
        follows = index > 0 and marks[index - 1][1] == kind
        if mark == "B" and not follows:
            before = repr(tags[index - 1]) if index else "the beginning"
            got = f"{tags[index]!r} follows {before}"
            raise ImpossibleTagError(index, f"{got}; B- is only between two spans of one type (IOB1)")
        begins.append(mark == "B" or not follows)
    return begins


def _ioe(marks: Sequence[_Mark], tags: Sequence[str], *, always: bool) -> list[bool]:
    """Read schemes in which E ends spans: always (IOE2), or only where one of the same type follows (IOE1)."""
    begins = []
    for index, (mark, kind) in enumerate(marks):
        before = marks[index - 1] if index else ("O", "")
        after = marks[index + 1 : index + 2]
        followed = bool(after) and after[0][1] == kind
        if mark == ("I" if always else "E") and not followed:
            got = f"{tags[index]!r} is followed by {tags[index + 1] if after else 'the end'!r}"
            rule = f"the last word of a span has E-{kind}" if always else "E- is only between two spans of one type"
            raise ImpossibleTagError(index, f"{got}; {rule} ({'IOE2' if always else 'IOE1'})")
        begins.append(before[1] != kind or before[0] == "E")
    return begins


def _closed(marks: Sequence[_Mark], tags: Sequence[str]) -> list[bool]:
    """Read schemes that mark the last word of each span."""
    open_type = ""
    for index, (mark, kind) in enumerate((*marks, ("O", ""))):
        continues = mark in "IE"
        if continues != bool(open_type) or (continues and kind != open_type):
            before = repr(tags[index - 1]) if index else "the beginning"
            got = f"{tags[index]!r} follows {before}" if index < len(tags) else f"the sentence ends after {before}"
            rule = f"a span of {open_type} is not ended" if open_type else f"no span of {kind} has begun"
            raise ImpossibleTagError(min(index, len(tags) - 1), f"{got}, but {rule}")
        open_type = kind if mark in "BI" else ""
    return [mark in "BS" for mark, _ in marks]


_OPEN: dict[str, Callable[[Sequence[_Mark], Sequence[str]], list[bool]]] = {
    "iob2": _iob2,
    "iob1": _iob1,
    "io": _iob1,
    "ioe2": lambda marks, tags: _ioe(marks, tags, always=True),
    "ioe1": lambda marks, tags: _ioe(marks, tags, always=False),
}


def _brackets(tags: Sequence[str]) -> list[_Mark]:
    """Return the marks of (x* * *), (x)."""
    out: list[_Mark] = []
    open_type = ""
    for index, tag in enumerate(tags):
        match = _BRACKET.fullmatch(tag) if tag not in _OUTSIDE else None
        if tag in (*_OUTSIDE, "-") or (match and not match["type"] and not match["end"] and not open_type):
            out.append(("O", ""))
            continue
        if match is None or (match["type"] and open_type) or (match["end"] and not (match["type"] or open_type)):
            raise ImpossibleTagError(index, f"got {tag!r}; allowed: *, (x*, *) and (x), without brackets in brackets")
        new = bool(match["type"])
        end = bool(match["end"])
        open_type = match["type"] or open_type
        out.append((("S" if end else "B") if new else "E" if end else "I", open_type))
        open_type = "" if end else open_type
    return out


def scheme_named(name: str) -> str:
    """Return the name in `SCHEMES` of a scheme, which has several names and is written in any case.

    Raises:
        ConfigError: there is no such scheme.
    """
    key = name.lower().replace("-", "")
    if (found := _ALIASES.get(key, key)) not in SCHEMES:
        raise ConfigError(
            f"tags: got {name!r}; {near_miss(key, (*SCHEMES, *_ALIASES))}; or the names of tags given as numbers: O,B-x"
        )
    return found


def recognize(sentences: Iterable[Sequence[str]], name: str | None = None) -> TagScheme:
    """Return the scheme and notation in which the fewest sentences have an impossible tag, IOB2 if it is among them.

    Args:
        sentences: the tags of each.
        name: the scheme, if it is known.
    """
    sentences = list(sentences)
    tagged = [tags for tags in sentences if not set(tags) <= {*_OUTSIDE, "*", "-"}]
    written = _notation(sentences)
    names = (name,) if name else ("io",) if written == _ALONE else SCHEMES
    if written == _BRACKETS:
        names = ("bioes",)
    if not tagged:
        return TagScheme(name or "iob2")
    schemes = [TagScheme(one, written) for one in names]
    failures = [sum(not _converts(scheme, tags) for tags in tagged) for scheme in schemes]
    least = min(failures)
    best = schemes[failures.index(least)]
    # A file without B has I where a span begins: IOB1 reads it, too, but IO says better what it lacks.
    if best.name == "iob1" and failures[names.index("io")] == least:
        best = schemes[names.index("io")]
    return TagScheme(best.name, written, least / len(tagged))


def types_of(sentences: Sequence[Sequence[str]]) -> set[str] | None:
    """Return the types of the spans in a column that may be tags; None if it is none."""
    found = recognize(sentences)
    kept = [found.convert(tags) for tags in sentences if _converts(found, tags)]
    types = {tag[2:] for tags in kept for tag in tags if tag != "O"}
    # A column of _ is empty, and one in which every word has a mark and a type is of tags without an O.
    is_tags = found.failures <= HALF and (bool(types) or any(tag == "O" for tags in sentences for tag in tags))
    return types if is_tags else None


def has_marks(column: Sequence[str]) -> bool:
    """Return whether words in a row, possibly of several sentences, have tags with marks and types, or only O."""
    tags = [tag for tag in column if tag != "O"]
    return all(re.fullmatch(rf"{MARK_LETTER}[-_/]\S+|\S+-{MARK_LETTER}", tag) for tag in tags)


def _notation(sentences: Sequence[Sequence[str]]) -> str:
    counts = Counter(tag for tags in sentences for tag in tags)
    inside = {tag: count for tag, count in counts.items() if tag not in _OUTSIDE}
    if inside and all(_BRACKET.fullmatch(tag) for tag in inside) and any("(" in tag for tag in inside):
        return _BRACKETS
    found = {
        written: sum(count for tag, count in inside.items() if pattern.fullmatch(tag))
        for written, pattern in _WRITTEN.items()
    }
    best = max(found, key=lambda written: found[written])
    if found[best]:
        return best
    return _ALONE if {"O", "o"} & counts.keys() and not any(map(_UNKNOWN_MARK.match, inside)) else "B-x"


def _converts(scheme: TagScheme, tags: Sequence[str]) -> bool:
    try:
        scheme.convert(tags)
    except ImpossibleTagError:
        return False
    return True
