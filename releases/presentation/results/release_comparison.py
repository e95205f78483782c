"""Two releases beside each other: what both answer, and how far apart the true answers are.

Both numbers were paid for, so what is said of the two together costs nothing. Let the true answers be x in [l, u] and
y in [l', u'], each interval with the probability of its own release, 1 - beta and 1 - beta'. Both hold at once with
probability 1 - (beta + beta') or more. Then x - y is from l - u' to u - l'; where x and y are one number, it lies in
both intervals, and the estimates differ by no more than the sum of the half widths.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from types import MappingProxyType
from typing import Any

from django.core.paginator import Page, Paginator
from django.template.defaultfilters import floatformat
from django.urls import reverse

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import Dates
from releases.engine.domain.population import Population
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Family, Workload, unweighted
from releases.engine.workload.questions import Question, dates_of, renamed
from releases.engine.workload.statistic import Part
from releases.models import Release
from releases.presentation.results.answers import PAGE_LENGTH
from releases.presentation.results.intervals import Interval
from releases.publication import files
from releases.publication.files import stored_rows
from releases.publication.receipt import percent
from releases.questions.headline import date_text, number_text, span_text

#: What two releases can have in common: a family of counts, or a statistic's kind with one part of its answer.
Asked = Family | tuple[str, Part]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPair:
    """One answer of both releases, in words.

    Attributes:
        named: each label with its head.
        columns: of each release its title, its number and its half width.
        change: between which numbers the difference of the two true answers lies.
        verdict: what is certain of that difference, of answers about different rows.
        most: how far apart the bounds allow two estimates of one number to be; `truth` where that number lies, empty
            where no number is in both intervals.
    """

    named: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str, str], ...]
    difference: str
    change: str
    verdict: str
    most: str
    truth: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of the two releases."""

    title: str
    address: str
    dataset: str
    mechanism: str
    epsilon: str
    accuracy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseComparison:
    """Two releases beside each other.

    Attributes:
        titles: of both, told apart.
        is_of_two_tables: whether they are of different tables; `may_have_changed` of one whose rows come and go;
            `may_count_other_rows` of one, but maybe of other rows of it, `for_persons` because of which rows of a
            person count; `counts` what they count, and `left_out` which of these a column leaves out.
        are_one_number: whether both estimate the same true answers.
        questions: what both answer: its number, its title, and whether it is shown.
        confidence: that both bounds hold; empty where that of one is not proved, and then nothing is certain.
    """

    sides: tuple[Side, Side]
    titles: tuple[str, str]
    other: str
    is_of_two_tables: bool
    may_have_changed: bool
    may_count_other_rows: bool
    for_persons: bool
    counts: str
    left_out: str
    are_one_number: bool
    questions: tuple[tuple[str, str, bool], ...]
    title: str
    heads: tuple[str, ...]
    pairs: tuple[AnswerPair, ...]
    page: Page[int]
    confidence: str


def release_comparison(first: Release, second: Release, *, question: int, page: str | None) -> ReleaseComparison:
    """
    Args:
        first, second: published, and comparable.
        question: which of those that both answer; the first where there are fewer.
    """
    universe = _schema(first).universe
    names = _our_names(comparable(first), second)
    ours, theirs = asked_of(first), asked_of(second, names)
    theirs_asked = set(theirs)
    common = [asked for asked in ours if asked in theirs_asked]
    asked = common[question if question < len(common) else 0]
    family = _part(asked)
    counted = universe.counted_by(family.attributes)
    shown = Paginator(range(family.cells(universe)), PAGE_LENGTH).get_page(page)
    start, stop = shown.start_index() - 1, shown.end_index()
    bounds = [_receipt(each)["bound"] for each in (first, second)]
    is_proved = all(Proof(each["proof"]).is_unconditional for each in bounds)
    is_of_two_tables = first.dataset_id != second.dataset_id
    may_have_changed = not is_of_two_tables and first.dataset.is_in_database
    may_count_other_rows = not is_of_two_tables and _population(first, family) != _population(second, family)
    heads, titles = tuple(family.attributes), _told_apart(first, second)
    dates = dates_of(_question(first))
    return ReleaseComparison(
        sides=(_side(first), _side(second)),
        titles=titles,
        other=str(second.pk),
        is_of_two_tables=is_of_two_tables,
        may_have_changed=may_have_changed,
        may_count_other_rows=may_count_other_rows,
        for_persons=may_count_other_rows and _schema(first).unit.kind == "person" and counted is Counted.ROWS,
        counts=counted.many,
        left_out="rows in which" if counted is Counted.ROWS else "persons for whom",
        are_one_number=not (is_of_two_tables or may_have_changed or may_count_other_rows),
        questions=tuple(
            (str(number), _part(each).title(universe), each == asked) for number, each in enumerate(common)
        ),
        title=family.title(universe),
        heads=heads,
        pairs=tuple(
            pair_of(
                one,
                another,
                named=zip(heads, labels, strict=True),
                titles=titles,
                is_count=family is asked,
                is_proved=is_proved,
                dates=dates,
            )
            for labels, one, another in zip(
                islice(family.labels(universe), start, stop),
                _intervals(first, ours.index(asked), start, stop),
                _intervals(second, theirs.index(asked), start, stop),
                strict=True,
            )
        ),
        page=shown,
        confidence=percent(max(1 - sum((Fraction(each["beta"]) for each in bounds), Fraction(0)), Fraction(0)))
        if is_proved
        else "",
    )


def pair_of(
    first: Interval,
    second: Interval,
    *,
    named: Iterator[tuple[str, str]],
    titles: tuple[str, str],
    is_count: bool,
    is_proved: bool = True,
    dates: Dates | None = None,
) -> AnswerPair:
    """
    Args:
        is_count: a count is shown as whole rows, another answer with the digits it was released with.
        is_proved: whether both intervals are; else nothing is certain.
        dates: how the dates are declared that the answers number; None where they are no dates.
    """

    def point(value: float) -> str:
        return text(value) if dates is None else date_text(dates.value(round(value)))

    def text(value: float) -> str:
        if dates is not None:
            return span_text(round(value), dates)
        if not is_count:
            return number_text(value)
        whole = str(floatformat(abs(value), "0g"))
        return f"−{whole}" if value < 0 and whole != "0" else whole

    more, less = ("larger", "smaller") if dates is None else ("later", "earlier")
    least, most = first.less(second, is_whole=is_count)
    low, high = max(first.lower, second.lower), min(first.upper, second.upper)
    return AnswerPair(
        named=tuple(named),
        columns=tuple(
            (title, point(each.estimate), text(each.half_width))
            for title, each in zip(titles, (first, second), strict=True)
        ),
        difference=text(first.estimate - second.estimate),
        change=f"{text(least)} to {text(most)}",
        verdict="" if not is_proved else more if least > 0 else less if most < 0 else "",
        most=text(first.half_width + second.half_width),
        truth=f"{point(low)} to {point(high)}" if low <= high else "",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparable:
    """What a release can have in common with others."""

    dataset: uuid.UUID
    universe: Universe
    asked: frozenset[Asked]


def comparable(release: Release) -> Comparable:
    universe = _schema(release).universe
    return Comparable(dataset=release.dataset_id, universe=universe, asked=frozenset(asked_of(release)))


def _our_names(one: Comparable, other: Release) -> dict[str, str]:
    """What the columns of another release are called in one: those of another table whose names differ in capitals or
    spaces alone, and that are declared alike, as there."""
    theirs = _schema(other).universe
    names = {each: each for each in theirs.names}
    if other.dataset_id == one.dataset:
        return names
    for each in theirs.attributes:
        rivals = [name for name in theirs.names if _spelling(name) == _spelling(each.name)]
        found = [name for name in one.universe.names if _spelling(name) == _spelling(each.name)]
        if len(rivals) == len(found) == 1 and replace(each, name=found[0]) == one.universe[found[0]]:
            names[each.name] = found[0]
    return names


def _spelling(name: str) -> str:
    return "".join(name.casefold().split())


def asked_of(release: Release, names: Mapping[str, str] = MappingProxyType({})) -> tuple[Asked, ...]:
    """What a release answers, in the order of its answers, so that two releases can be compared.

    Args:
        names: what its columns are called where it is compared.
    """
    question = _question(release)
    if any(each != name for each, name in names.items()):
        question = renamed(question, names)
    if isinstance(question, Workload):
        # What is asked is the same however much it mattered.
        return tuple(map(unweighted, question.families))
    return tuple((question.statistic.kind, part) for part in question.families)


def is_measured(release: Release) -> bool:
    """Whether its answers are numbers with an interval; what was chosen from a list has none."""
    return isinstance(_question(release), Workload) or "estimate" in files.answer_columns(files.folder_of(release))


def why_not_compared(one: Comparable, other: Release) -> str:
    """Why a release that has numbers is not comparable with another; empty where it is."""
    named = {_spelling(each["name"]) for each in _receipt(other)["schema"]["columns"]}
    # Most releases of other tables have no column of the same name, which is seen without reading their schema.
    if not named.isdisjoint(map(_spelling, one.universe.names)):
        theirs, names = _schema(other).universe, _our_names(one, other)
        shared = [name for name in one.universe.names if name in theirs.names]
        differ = [name for name in shared if one.universe[name] != theirs[name]]
        if differ:
            return f"{', '.join(differ)} {'is' if len(differ) == 1 else 'are'} declared differently in the two releases"
        if not one.asked.isdisjoint(asked_of(other, names)):
            return "" if is_measured(other) else "the other one chose its answer from a list, with no error band"
    return "they have no question in common"


def _told_apart(first: Release, second: Release) -> tuple[str, str]:
    """Their titles; of two that have the same, with what tells them apart."""
    if first.title != second.title:
        return first.title, second.title
    said = [each.dataset.title for each in (first, second)]
    if said[0] == said[1]:
        said = [f"{each.published_at:%-d %B %Y}, {str(each.pk)[:8]}" for each in (first, second)]
    return f"{first.title} ({said[0]})", f"{second.title} ({said[1]})"


def _side(release: Release) -> Side:
    receipt = _receipt(release)
    return Side(
        title=release.title,
        address=reverse("release_detail", args=[release.pk]),
        dataset=release.dataset.title,
        mechanism=receipt["mechanism"]["title"],
        epsilon=release.epsilon,
        accuracy=receipt["bound"]["sentence"],
    )


def _receipt(release: Release) -> dict[str, Any]:
    assert release.result is not None
    receipt: dict[str, Any] = release.result["receipt"]
    return receipt


def _schema(release: Release) -> Schema:
    return Schema.from_json(_receipt(release)["schema"])


def _population(release: Release, family: Family | Part) -> Population:
    return _schema(release).population_of(family.attributes)


def _question(release: Release) -> Question:
    return read_answered(_receipt(release)["workload"], _schema(release).universe)


def _part(asked: Asked) -> Family | Part:
    return asked[1] if isinstance(asked, tuple) else asked


def _intervals(release: Release, position: int, start: int, stop: int) -> Iterator[Interval]:
    """The answers number `start` to `stop` of the thing at that position among those that a release answers."""
    universe = _schema(release).universe
    first = sum(_part(each).cells(universe) for each in asked_of(release)[:position])
    stored = stored_rows(files.folder_of(release) / f"{files.ANSWERS}.parquet", first + start, first + stop)
    dates = dates_of(_question(release))
    for found in zip(stored["estimate"], stored["lower"], stored["upper"], strict=True):
        estimate, lower, upper = found if dates is None else map(dates.number, found)
        yield Interval(estimate=estimate, lower=lower, upper=upper)
