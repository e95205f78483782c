"""Sentences about sums over rows and what is read off them; each goes on from "With probability 95%, "."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from releases.engine.domain.attribute import CLAMP, Attribute
from releases.engine.domain.privacy import decimal_text

#: How many numbers a sentence names one by one.
_NAMED = 4


def within(labels: tuple[str, ...], widths: tuple[Fraction, ...], *, after: str) -> str:
    """That every number named is within its half width of the truth."""
    each = [shown(width, up=True) for width in widths]
    if len(labels) == 1:
        return f"{labels[0]} is within {each[0]} of the truth{after}."
    if len(labels) <= _NAMED:
        listed = in_one_line([f"{label} is within {width}" for label, width in zip(labels, each, strict=True)])
        return f"{listed} of the truth{after}, all at once."
    widest = max(range(len(widths)), key=widths.__getitem__)
    return (
        f"every one of the {len(labels):,} numbers is within its half width of the truth{after}, all at once; "
        f"the largest half width is {each[widest]}, for {labels[widest]}."
    )


def between(intervals: dict[str, tuple[Fraction, Fraction]], *, after: str, noun: str) -> str:
    """That every number, of which the noun is ``the mean``, lies in its interval."""
    listed = []
    # Of one more than that it takes no longer to say where it lies.
    named = _NAMED if len(intervals) > _NAMED + 1 else _NAMED + 1
    for name, (low, high) in list(intervals.items())[:named]:
        lower, upper = shown(low, up=False, beside=high - low), shown(high, up=True, beside=high - low)
        listed.append(f"{noun} of {name} is between {lower} and {upper}")
    if len(intervals) > named:
        listed.append(f"the other {len(intervals) - named:,} {noun.split()[-1]}s are in their intervals")
    at_once = ", all at once" if len(intervals) > 1 else ""
    return f"{in_one_line(listed)}{after}{at_once}."


def shown(value: Fraction, *, up: bool, beside: Fraction | None = None) -> str:
    """A number to four digits, of itself or of the width beside it, rounded up or down."""
    measure = float(abs(value) if beside is None else beside)
    if measure == 0:
        return decimal_text(value, places=6)
    places = 3 - Decimal(measure).adjusted()
    over, under = value.numerator * 10 ** max(places, 0), value.denominator * 10 ** max(-places, 0)
    whole = -(-over // under) if up else over // under
    text = f"{Decimal(whole).scaleb(-places):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def after_clamping(columns: tuple[Attribute, ...], *, weight: Attribute | None = None) -> str:
    """What moves a sum or a mean, and no bound on noise can tell: clamping, the cap of weights and the sampling."""
    said = ["values outside the declared range taken at its ends"] if any(c.outside == CLAMP for c in columns) else []
    if weight is not None:
        cap = f"{Decimal(weight.point(weight.highest)):,f}"
        said += [f"weights above {cap} counted as {cap}", f"{weight.counted.many} without a weight left out"]
        said += ["the sampling error of the survey not included"]
    return f" ({', '.join(said)})" if said else ""


def in_one_line(parts: list[str]) -> str:
    """Parts of a sentence, with commas and an "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
