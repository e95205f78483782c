"""Whether the synthetic rows of a release are closer to the true table than its released counts, as far as proved.

The mean distance d of the released counts from the synthetic rows, over the tables asked about, is public. A
certificate says that the rows are within u of the truth on average. The distance is a norm of the difference
(`engine.bounds.distance`), and so is its mean over tables, so the counts are at least d - u from the truth, as surely
as the certificate holds. Where u < d - u the rows are closer. Nothing is said elsewhere: that the counts are closer
cannot be seen in this way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import floor
from typing import Any

from releases.engine.bounds.accuracy import Proof
from releases.engine.mechanisms.measured_error import MEANS_NOTE
from releases.engine.workload.kinds.largest_error import ASKED, PAIRS, SYNTHETIC_ROWS, TRIPLES
from releases.publication.receipt import counted_by, percent, rows_text
from releases.questions.kinds.largest_error import certified_columns, certified_parts


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsAreCloser:
    """What is proved of the synthetic rows beside the released counts.

    Attributes:
        sentence: of the mean over the tables asked about.
        worst: of the largest error, where a certificate is narrower there too; else empty.
    """

    sentence: str
    worst: str


def rows_are_closer(receipt: Mapping[str, Any], certificates: Iterable[Mapping[str, Any]]) -> RowsAreCloser | None:
    """By the certificate with the largest epsilon, the oldest of several; None where it does not show it.

    Which one speaks must not depend on what they found: the smallest of several numbers is too small more often than
    any one of them.

    Args:
        receipt: of the release.
        certificates: the receipts of its certificates that the reader may see, the oldest first.
    """
    apart = (receipt.get("synthetic_beside") or {}).get("mean_distance")
    tables = _asked_tables(receipt)
    if apart is None or not tables:
        return None
    of_rows = [each for each in certificates if set(certified_parts(each["workload"])) == {SYNTHETIC_ROWS}]
    known = [(most, each) for each in of_rows if (most := _most(each, tables)) is not None]
    if not known:
        return None
    most, by = max(known, key=lambda each: Fraction(each[1]["budget"]["epsilon"]))
    if 2 * most >= apart:
        return None
    counted, own = counted_by(receipt), receipt["bound"]
    at_least = counted.text(f"{floor(apart - most):,}")
    over = "the table asked about" if len(tables) == 1 else f"the {len(tables):,} tables asked about"
    worst = ""
    if by["notes"]["at most"] < own["alpha"] and Proof(own["proof"]).is_proved:
        worst = (
            f"None of their counts is off by more than {rows_text(by['notes']['at most'], counted)}; released counts "
            f"may be off by up to {rows_text(own['alpha'], counted)}."
        )
    return RowsAreCloser(
        sentence=(
            f"At {percent(1 - Fraction(by['bound']['beta']))} confidence the synthetic rows are within "
            f"{rows_text(most, counted)} of the true table, on average over {over}, and the released counts are at "
            f"least {at_least} away."
        ),
        worst=worst,
    )


def _asked_tables(receipt: Mapping[str, Any]) -> Counter[frozenset[str]]:
    """The columns of each table that was asked about; a receipt lists them one by one."""
    return Counter(frozenset(each["marginal"]) for each in receipt["workload"]["queries"] if "marginal" in each)


def _most(certificate: Mapping[str, Any], tables: Counter[frozenset[str]]) -> float | None:
    """What a certificate says of the mean over these tables; None where it is over others."""
    said = certificate["notes"].get(MEANS_NOTE, {})
    columns = certified_columns(certificate["workload"])
    found = [said[ASKED]["at most"]] if ASKED in said else []
    for word, order in ((PAIRS, 2), (TRIPLES, 3)):
        if word in said and Counter(map(frozenset, combinations(columns, order))) == tables:
            found.append(said[word]["at most"])
    return min(found, default=None)
