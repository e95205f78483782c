"""What an attack on invented tables found out, in words: on the page of a release that was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from releases.models import DisclosureState, DisclosureTest, Release
from releases.publication.disclosure import (
    DISCLOSURE_TEST,
    compared_in_words,
    found_in_words,
    in_100,
    leaks,
    most_found_column,
    range_in_100,
    read_test,
)


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
    column = most_found_column(test)
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
        confidence=confidence,
        tables="1 table" if test["tables"] == 1 else f"{test['tables']:,} tables",
        people=f"{test['people'] // 2:,}",
        most_frequent=in_100(test["most_frequent"]),
        column=f"{column}: {in_100(columns[column]['difference'])} ({range_in_100(columns[column])})",
        file=DISCLOSURE_TEST,
    )


def _row(people: str, found: Mapping[str, Any]) -> AttackRow:
    return AttackRow(
        people=people,
        inside=in_100(found["inside"]),
        outside=in_100(found["outside"]),
        more=f"{in_100(found['difference'])} ({range_in_100(found)})",
    )
