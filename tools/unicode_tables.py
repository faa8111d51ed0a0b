"""Write the tables of one Unicode version that every implementation of mixling's text rules reads.

python3.13 tools/unicode_tables.py

The source is the `unicodedata` and the `str.lower` of CPython 3.13, which have Unicode 15.1.0. Run it for a new version
of the model format only: other tables give other words, and so other hashes.

The file holds integers separated by commas, after one line of comment, so that C includes it in the middle of an array
and everything else splits it. In their order (every list is preceded by the number of its integers):

* the version: three integers, without a count;
* runs of code points from 0 on that have the same properties: length, properties. Bits 0 and 1 are the class in which
  the splitter has them (0 part of a word, 1 space, 2 a sign, a word of its own), bits 2 and 3 what final sigma asks of
  a letter (0 nothing, 1 cased, 2 ignored), bits 4 and up the canonical combining class;
* runs of code points with a lower case of one character: code points since the end of the run before, number, step from
  one to the next, difference of the lower case;
* those with a lower case of two: code point, both;
* canonical decompositions but those of Hangul syllables, which are arithmetic: code points since the one before; the
  first; 0 or the second, times 2, and one more where composition leaves this one out.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

VERSION = (15, 1, 0)
FILE = Path(__file__).parents[1] / "src" / "mixling" / "native" / "unicode_tables.inc"
CODES = range(sys.maxunicode + 1)
HANGUL = range(0xAC00, 0xD7A4)
# What multilingual BERT splits by character.
HAN = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x31350))


def main() -> None:
    """Write the file."""
    if unicodedata.unidata_version != ".".join(map(str, VERSION)):
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}; run CPython 3.13, which has 15.1.0")
    runs, pairs = lower_case()
    numbers = list(VERSION)
    for section in (properties(), runs, pairs, decompositions()):
        numbers += [len(section), *section]
    lines, line = [], ""
    for number in map(str, numbers):
        if len(line) + len(number) + 1 > 120:
            lines.append(line)
            line = ""
        line += number + ","
    head = "/* Unicode 15.1.0, written by tools/unicode_tables.py, which describes it. */"
    FILE.write_text("\n".join([head, *lines, line.removesuffix(",")]) + "\n", "ascii")


def properties() -> list[int]:
    """Return lengths and properties of the runs."""
    out: list[int] = []
    for code in CODES:
        char = chr(code)
        value = split_class(char) | final_sigma(char) << 2 | unicodedata.combining(char) << 4
        if out and out[-1] == value:
            out[-2] += 1
        else:
            out += [1, value]
    return out


def split_class(char: str) -> int:
    """Return 1 for a space, 2 for punctuation, symbols and Han, else 0."""
    if char.isspace():
        return 1
    return 2 if unicodedata.category(char)[0] in "PS" or any(ord(char) in part for part in HAN) else 0


def final_sigma(char: str) -> int:
    """Return how a character decides, as Python's `str.lower` shows, whether a sigma beside it is a final one."""
    if (f"A{char}Σ").lower()[-1] != "ς":
        return 0  # neither cased nor ignored
    return 1 if (f"{char}Σ").lower()[-1] == "ς" else 2


def lower_case() -> tuple[list[int], list[int]]:
    """Return the runs of single lower-case characters, and the code points that have two."""
    found = {code: chr(code).lower() for code in CODES if chr(code).lower() != chr(code)}
    pairs = [value for code, low in found.items() if len(low) > 1 for value in (code, *map(ord, low))]
    assert all(len(low) <= 2 for low in found.values())
    single = {code: ord(low) - code for code, low in found.items() if len(low) == 1}
    out: list[int] = []
    codes, end, first = sorted(single), 0, 0
    while first < len(codes):
        step = codes[first + 1] - codes[first] if first + 1 < len(codes) else 1
        last = first
        while step <= 2 and last + 1 < len(codes) and codes[last + 1] - codes[last] == step:
            if single[codes[last + 1]] != single[codes[first]]:
                break
            last += 1
        out += [codes[first] - end, last - first + 1, step if last > first else 1, single[codes[first]]]
        end, first = codes[last] + 1, last + 1
    return out, pairs


def decompositions() -> list[int]:
    """Return the canonical decompositions."""
    out, before = [], 0
    for code in CODES:
        parts = unicodedata.decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<") or code in HANGUL:
            continue
        first, second = int(parts[0], 16), int(parts[1], 16) if len(parts) > 1 else 0
        excluded = unicodedata.normalize("NFC", chr(code)) != chr(code)
        out += [code - before, first, second * 2 + excluded]
        before = code
    return out


if __name__ == "__main__":
    main()
