"""Kubernetes quantities: one text for each amount, so that `8` and `8000m` are the same revision."""

from fractions import Fraction
from typing import Final

_UNITS: Final = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
}
_BINARY: Final = ("Pi", "Ti", "Gi", "Mi", "Ki", "")


def canonical(quantity: str) -> str:
    """The amount in the largest binary unit that gives a whole number, else in thousandths.

    `quantity` must be valid by the API's rules.
    """
    number = quantity.rstrip("mkKMGTPi")
    amount = Fraction(number) * _UNITS[quantity[len(number) :]]
    for unit in _BINARY:
        count = amount / _UNITS[unit]
        if count.denominator == 1 and (count or not unit):
            return f"{count.numerator}{unit}"
    return f"{float(amount * 1000):g}m"
