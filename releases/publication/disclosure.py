"""What an attack on invented tables found out, in words: on the page of a tested release, and in its report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import Any

DISCLOSURE_TEST = "disclosure_test.json"
#: Of a number in 100 that is rounded up or down: floating point alone is no reason for that.
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackRow:
    """Right guesses in 100 tries, of some people.

    Attributes:
        more: of those inside, with its range.
    """

    people: str
    inside: str
    outside: str
    more: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DisclosureSection:
    """What the page says of the test.

    Attributes:
        found: how often a missing answer is guessed right.
        compared: how much more often of people in the table, beside a leak and what epsilon allows.
        leaks: whether being in the table was found to help.
        method: how it was found out, in two paragraphs.
        file: that has all numbers.
    """

    found: str
    compared: str
    leaks: bool
    rows: tuple[AttackRow, ...]
    method: tuple[str, str]
    file: str


def read_test(folder: Path) -> dict[str, Any] | None:
    """What was found of the release whose files lie in a folder; None where it was not tested."""
    path = folder / DISCLOSURE_TEST
    return json.loads(path.read_text()) if path.is_file() else None


def disclosure_section(receipt: Mapping[str, Any], folder: Path) -> DisclosureSection | None:
    """Read off the file; None of a release that was not tested."""
    test = read_test(folder)
    if test is None:
        return None
    columns = test["columns"]
    return DisclosureSection(
        found=found_in_words(test["everybody"]),
        compared=compared_in_words(test, receipt),
        leaks=any(leaks(each) for each in (test["everybody"], test["unusual"], *columns.values())),
        rows=(
            _row("All", test["everybody"]),
            _row("Unusual people", test["unusual"]),
            _row("All, if every second row were handed out", test["leak"]),
            _row("Unusual people, if every second row were handed out", test["leak_unusual"]),
        ),
        method=_method(test),
        file=DISCLOSURE_TEST,
    )


def _row(people: str, found: Mapping[str, Any]) -> AttackRow:
    return AttackRow(
        people=people,
        inside=in_100(found["inside"]),
        outside=in_100(found["outside"]),
        more=f"{in_100(found['difference'])} ({range_in_100(found)})",
    )


def _method(test: Mapping[str, Any]) -> tuple[str, str]:
    confidence, column = f"{100 * test['confidence']:g}%", most_found_column(test)
    tables = "1 table" if test["tables"] == 1 else f"{test['tables']:,} tables"
    alone = f"{column}: {in_100(test['columns'][column]['difference'])} ({range_in_100(test['columns'][column])})"
    return (
        f"The release’s method was run, with its questions and epsilon, on {tables} of about {test['people'] // 2:,} "
        "invented people with the declared columns. Most are alike in kinds, so that known answers tell of missing "
        "ones. The answers of one in ten, the unusual people, follow no pattern. Each answer was hidden in turn and "
        "guessed for people in the table and for others like them, by CoBP-RA, an attack of the team that came first "
        f"in NIST’s red-team exercise of 2025. The most frequent answer is right in {in_100(test['most_frequent'])} "
        "tries. The last two rows show what a leak looks like.",
        f"The ranges of the synthetic rows hold at once with probability {confidence}, whatever the people are: a "
        f"coin decides who is in the table. Of single columns the largest difference is that of {alone}. In a larger "
        "table each person counts for less. It costs nothing, for no person’s row is read.",
    )


def attack_in_words(receipt: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """What the attack found out of the release whose files lie in a folder; nothing where it was not tested."""
    test = read_test(folder)
    return () if test is None else (found_in_words(test["everybody"]), compared_in_words(test, receipt))


def most_found_column(test: Mapping[str, Any]) -> str:
    """The one whose missing values being in the table helps most to guess."""
    columns = test["columns"]
    return str(max(columns, key=lambda name: columns[name]["difference"]))


def found_in_words(everybody: Mapping[str, Any]) -> str:
    """How often a missing answer is guessed right."""
    known = (
        "In a test with invented people, someone who has the synthetic rows and knows all but one answer of a person "
        "guesses the missing one right"
    )
    inside, outside = (round(100 * everybody[where]) for where in ("inside", "outside"))
    if not leaks(everybody) or inside == outside:
        both = round(50 * (everybody["inside"] + everybody["outside"]))
        return f"{known} in about {both} of 100 tries, whether or not the person is in the table."
    return f"{known} in {inside} of 100 tries if the person is in the table, and in {outside} if not."


def compared_in_words(test: Mapping[str, Any], receipt: Mapping[str, Any]) -> str:
    """How much more often of people in the table, beside a leak and what epsilon allows: of unusual people where that
    is more, else of all, else of a single column."""
    confidence, column = f"{100 * test['confidence']:g}%", most_found_column(test)
    everybody, unusual, alone = test["everybody"], test["unusual"], test["columns"][column]
    being, said, leak = "Being", everybody, test["leak"]
    if leaks(unusual) and unusual["difference"] > everybody["difference"]:
        being, said, leak = "Of unusual people, being", unusual, test["leak_unusual"]
    elif not leaks(everybody) and leaks(alone):
        being, said = f"Where {column} is missing, being", alone
    found = f"{being} in the table adds {range_in_100(said)}"
    if not leaks(said):
        most = _up(said["difference"] + said["margin"])
        found = f"Being in the table was not found to make a difference: it adds at most {most}"
    more = in_100(leak["difference"])
    return (
        f"{found} right guesses in 100, with {confidence} confidence. Handing out every second row would add {more}. "
        f"Other attacks may find more, but none more than the {_up(test['allowed'])} that epsilon "
        f"{receipt['budget']['epsilon']} allows."
    )


def leaks(found: Mapping[str, Any]) -> bool:
    """Whether being in the table was found to help."""
    return bool(found["difference"] > found["margin"])


def range_in_100(found: Mapping[str, Any]) -> str:
    """The ends of a difference, in 100 tries."""
    low, high = found["difference"] - found["margin"], found["difference"] + found["margin"]
    return f"{_down(low)} to {_up(high)}"


def in_100(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", "−")


def _up(share: float) -> str:
    return _tenths(ceil(1000 * min(share, 1.0) - _SLACK))


def _down(share: float) -> str:
    return _tenths(floor(1000 * max(share, -1.0) + _SLACK))


def _tenths(number: int) -> str:
    return f"{number / 10:.1f}".replace("-", "−")
