"""Tell numbers that are codes, such as 007, 1.10 or 401.9, from numbers that measure something."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

LARGEST = 1e150  # the square of a target is finite
MANY = 20  # up to this many different numbers are classes, whatever they look like
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# A sign of currency, a percent sign or three capital letters such as EUR, before or after a number.
_UNIT = r"(?:[%$¢£¤¥₩€₹₺₽₿฿₫₪₴₦]|[A-Z]{2,3}\$?|kr|zł|Kč)"
_AMOUNT = re.compile(
    rf"(?P<sign>[-+−]?)\s*(?:{_UNIT}\s*)?"
    r"(?:(?P<whole>\d{1,3}(?P<group>[.,'’\s])\d{3}(?:(?P=group)\d{3})*)(?:(?!(?P=group))[.,](?P<part>\d+))?"
    rf"|(?P<digits>\d+)(?:[.,](?P<fraction>\d+))?)\s*{_UNIT}?"
)
WHOLE_NUMBERS = "whole numbers may be classes"
_REPEATED = 4  # times that each code occurs on average
_FILLED = 0.8  # of the steps between the lowest and the highest number of a scale
_ONCE = 0.05  # of the codes that occur once


def as_number(value: object) -> float | None:
    """Return a number, or a string with a number, as a float; None if it is not one, or not finite."""
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value := value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an integer of hundreds of digits; a Decimal that is none
        return None
    return number if math.isfinite(number) else None


def plain_number(text: str) -> str | None:
    """Return the number of an amount such as $1,274.83 or 12,5 % as it is to be written; None if it is no amount.

    A comma before three digits divides thousands, a single point does not.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    if found["digits"] is not None:
        whole = found["digits"]
        fraction = found["fraction"]
    elif found["part"] is None and found["whole"].count(".") == 1:  # as in 3.141
        whole, fraction = found["whole"].split(".")
    else:
        whole = re.sub(r"\D", "", found["whole"])
        fraction = found["part"]
    return found["sign"].replace("−", "-") + whole + ("" if fraction is None else f".{fraction}")


def reason_for_classes(counts: Mapping[str, int]) -> str | None:
    """Return why numbers are classes rather than measured; "" if nothing speaks for that, None if some are no numbers.

    Codes are told by how they are written (leading zeros; zeros at the end of some and not of others), or by repeating
    without filling a scale: each value of a scale from 0 to 5 occurs, or some of them once; of 401.9, 250.0, 272.4
    each occurs often, and no number between them.

    Args:
        counts: how often each label occurs, as it is written.
    """
    numbers = set(map(as_number, counts))
    rows = sum(counts.values())
    values = {number for number in numbers if number is not None}
    if None in numbers or not counts:
        return None
    if zero := next((name for name in counts if re.match(r"[+-]?0[0-9]", name)), ""):
        return f"numbers with leading zeros, such as {zero}, are codes"
    if all(value.is_integer() for value in values):
        return WHOLE_NUMBERS
    if len(values) <= MANY:
        return f"only {len(values)} different numbers"
    decimals = {len(name.partition(".")[2]) for name in counts}
    padded = next((name for name in counts if re.search(r"\.[0-9]*[1-9]0+$", name)), "")
    if padded and len(decimals) > 1 and 2 * len(counts) <= rows:
        shorter = next((name for name in counts if len(name) < len(padded)), "")
        return f"numbers such as {padded} beside {shorter} are codes"
    digits = min(max(len(repr(value).partition(".")[2]) for value in values), 12)
    whole = sorted(round(value * 10**digits) for value in values)
    steps = (whole[-1] - whole[0]) // math.gcd(*(value - whole[0] for value in whole)) + 1
    once = sum(count == 1 for count in counts.values())
    if rows >= _REPEATED * len(values) and once <= _ONCE * len(counts) and len(values) < _FILLED * steps:
        return f"{len(values)} different numbers that repeat, with nothing between them, are codes"
    return ""
