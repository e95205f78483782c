"""What an attack on invented tables found out, in words: on the page of a release that was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import Any

from releases.models import DisclosureState, DisclosureTest, Release
from releases.publication.disclosure import DISCLOSURE_TEST, read_test

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
        confidence: as in "95%".
        tables, people, most_frequent: invented tables, people in each, and right guesses of the most frequent value.
        column: where it helps most, of single columns.
        file: that has all numbers.
    """

    found: str
    compared: str
    leaks: bool
    rows: tuple[AttackRow, ...]
    confidence: str
    tables: str
    people: str
    most_frequent: str
    column: str
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackOffer:
    """What a member of the dataset's team reads of a test that has found nothing yet.

    Attributes:
        sentence: what the test does, or how far it is.
        button: empty while it is under way.
        is_open: whether the sentence is to be seen at once.
    """

    sentence: str
    button: str = ""
    is_open: bool = False


def attack_offer(release: Release, receipt: Mapping[str, Any], folder: Path) -> AttackOffer | None:
    """None where there are no synthetic rows, or the release was tested."""
    if not receipt["synthetic_rows"] or read_test(folder) is not None:
        return None
    test = DisclosureTest.objects.filter(release=release).first()
    if test is None or test.state == DisclosureState.DONE:
        return AttackOffer(
            sentence="A worker runs the method on invented people, and a published attack guesses hidden answers of "
            "theirs from the synthetic rows. It takes some minutes, reads no table and spends no budget.",
            button="Try it",
        )
    if test.state == DisclosureState.FAILED:
        said = f"The attack could not be tried. {test.refusal}".strip()
        return AttackOffer(sentence=said, button="Try it again", is_open=True)
    return AttackOffer(sentence="An attack is being tried on invented people. What it finds will be here.")


def disclosure_section(receipt: Mapping[str, Any], folder: Path) -> DisclosureSection | None:
    """Read off the file; None of a release that was not tested."""
    test = read_test(folder)
    if test is None:
        return None
    confidence, columns = f"{100 * test['confidence']:g}%", test["columns"]
    column = max(columns, key=lambda name: columns[name]["difference"])
    return DisclosureSection(
        found=_found(test["everybody"]),
        compared=f"{_compared(test, column, confidence)} {_allowed(test, receipt)}",
        leaks=any(_leaks(each) for each in (test["everybody"], test["unusual"], *columns.values())),
        rows=(
            _row("All", test["everybody"]),
            _row("Unusual people", test["unusual"]),
            _row("All, if every second row were handed out", test["leak"]),
            _row("Unusual people, if every second row were handed out", test["leak_unusual"]),
        ),
        confidence=confidence,
        tables="1 table" if test["tables"] == 1 else f"{test['tables']:,} tables",
        people=f"{test['people'] // 2:,}",
        most_frequent=_rounded(test["most_frequent"]),
        column=f"{column}: {_rounded(columns[column]['difference'])} ({_range(columns[column])})",
        file=DISCLOSURE_TEST,
    )


def _found(everybody: Mapping[str, Any]) -> str:
    known = (
        "In a test with invented people, someone who has the synthetic rows and knows all but one answer of a person "
        "guesses the missing one right"
    )
    inside, outside = (round(100 * everybody[where]) for where in ("inside", "outside"))
    if not _leaks(everybody) or inside == outside:
        both = round(50 * (everybody["inside"] + everybody["outside"]))
        return f"{known} in about {both} of 100 tries, whether or not the person is in the table."
    return f"{known} in {inside} of 100 tries if the person is in the table, and in {outside} if not."


def _compared(test: Mapping[str, Any], column: str, confidence: str) -> str:
    """What was found of unusual people where that is more, else of all, else of a single column; and a leak beside."""
    everybody, unusual, alone = test["everybody"], test["unusual"], test["columns"][column]
    being, said, leak = "Being", everybody, test["leak"]
    if _leaks(unusual) and unusual["difference"] > everybody["difference"]:
        being, said, leak = "Of unusual people, being", unusual, test["leak_unusual"]
    elif not _leaks(everybody) and _leaks(alone):
        being, said = f"Where {column} is missing, being", alone
    found = f"{being} in the table adds {_range(said)}"
    if not _leaks(said):
        most = _up(said["difference"] + said["margin"])
        found = f"Being in the table was not found to make a difference: it adds at most {most}"
    more = _rounded(leak["difference"])
    return f"{found} right guesses in 100, with {confidence} confidence. Handing out every second row would add {more}."


def _leaks(found: Mapping[str, Any]) -> bool:
    return bool(found["difference"] > found["margin"])


def _allowed(test: Mapping[str, Any], receipt: Mapping[str, Any]) -> str:
    return (
        f"Other attacks may find more, but none more than the {_up(test['allowed'])} that epsilon "
        f"{receipt['budget']['epsilon']} allows."
    )


def _range(found: Mapping[str, Any]) -> str:
    low, high = found["difference"] - found["margin"], found["difference"] + found["margin"]
    return f"{_down(low)} to {_up(high)}"


def _row(people: str, found: Mapping[str, Any]) -> AttackRow:
    return AttackRow(
        people=people,
        inside=_rounded(found["inside"]),
        outside=_rounded(found["outside"]),
        more=f"{_rounded(found['difference'])} ({_range(found)})",
    )


def _rounded(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", "−")


def _up(share: float) -> str:
    return _tenths(ceil(1000 * min(share, 1.0) - _SLACK))


def _down(share: float) -> str:
    return _tenths(floor(1000 * max(share, -1.0) + _SLACK))


def _tenths(number: int) -> str:
    return f"{number / 10:.1f}".replace("-", "−")
