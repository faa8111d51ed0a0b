"""How to convert a file that is not UTF-8, with the encoding that it probably has."""

from __future__ import annotations

import re
from pathlib import Path

from mixling.errors import command_line, printable

_WESTERN = ("cp1252", "macintosh")
# With what texts in them have, and what none has.
_OTHERS = {
    "cp1251": ("[а-яё]{2}", r"[а-яё][А-ЯЁ]|[^\W_]‰"),
    "shift_jis": ("[ぁ-ん]", "[ｦ-ﾟ]"),
    "gb18030": ("[一-鿿]", "$^"),
}
_IN_A_ROW = 3  # bytes beyond ASCII; more are no text of Western Europe
_AROUND = 12  # characters on each side of the first one beyond ASCII
_SAMPLE = 4_000  # bytes
_PACKED = (".gz", ".bz2", ".xz", ".zip")


def conversion(raw: bytes, path: str, start: int) -> str:
    """Return the command that converts a file, and how the first text beyond ASCII reads in its probable encoding.

    Args:
        raw: bytes of whole lines.
        start: the place of the first that is not UTF-8.
    """
    begin = raw.rfind(b"\n", 0, start) + 1
    line, _, _ = raw[begin : start + _SAMPLE].partition(b"\n")
    longest = max(map(len, re.findall(rb"[\x80-\xff]+", raw[begin : start + _SAMPLE])))
    name = "ENCODING"
    read = ""
    for encoding in _WESTERN if longest <= _IN_A_ROW else _OTHERS:
        before = line[: start - begin].decode(encoding, "replace")
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            continue
        wanted, refused = _OTHERS.get(encoding, ("", "$^"))
        if re.search(wanted, text) and not re.search(refused, text):
            name = encoding
            read = printable(text[max(len(before) - _AROUND, 0) : len(before) + _AROUND].strip())
            break
    words = ("OLD", "NEW")
    if Path(path).is_file() and not path.endswith(_PACKED):
        words = (path, str(Path(path).with_name(f"utf8-{Path(path).name}")))
    command = command_line("iconv", "-f", name, "-t", "utf-8", words[0])
    probable = f", probably {name} ({read!r})" if read else ""
    return f"convert it from its encoding{probable}: {command} > {command_line(words[1])}"
