"""Kubernetes quantities: one text for each amount, so that `8` and `8000m` are the same revision."""

from fractions import Fraction
from typing import Final

_UNITS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY: Final = ("Pi", "Ti", "Gi", "Mi", "Ki", "")


def amount_of(quantity: str | int | float) -> Fraction:
    """The amount that a quantity means, in any notation of Kubernetes. Raises ValueError for other text."""
    text = str(quantity)
    number = text.rstrip("numkKMGTPEi")
    unit = _UNITS.get(text[len(number) :])
    if unit is None:
        raise ValueError(f"{text} is not a quantity")
    return Fraction(number) * unit


def canonical(quantity: str) -> str:
    """The amount in the largest binary unit that gives a whole number, else in thousandths.

    `quantity` must be valid by the API's rules.
    """
    return in_binary_units(amount_of(quantity))


def in_binary_units(amount: Fraction) -> str:
    for unit in _BINARY:
        count = amount / _UNITS[unit]
        if count.denominator == 1 and (count or not unit):
            return f"{count.numerator}{unit}"
    return f"{float(amount * 1000):g}m"
