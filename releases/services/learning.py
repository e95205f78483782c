"""Learning a column's declaration from the data: planned from public facts, then a release like any other."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.workload.kinds.categories import Categories
from releases.engine.workload.kinds.range import Range
from releases.engine.workload.questions import Inquiry, of_columns_asked
from releases.engine.workload.statistic import Statistic
from releases.models import Dataset, Release
from releases.schema.learned import Learned, LearnedCategories, LearnedRange, with_bounds, with_catch_all
from releases.services.datasets import declare_universe
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal, read_beta
from releases.services.releases import draft_release, set_choice, set_questions

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def plan_range(
    *, dataset: Dataset, column: str, lowest: Decimal, highest: Decimal, decimals: int, inside: Fraction, epsilon: str
) -> Plan:
    """What learning a range would cost, and how far off it may be. Nothing is stored, spent or read.

    Raises:
        InvalidInput: the bounds, the share or epsilon break a rule.
        Refusal: columns or protection are not declared yet.
    """
    universe = with_bounds(_declared(dataset), column, lowest=lowest, highest=highest, decimals=decimals)
    asked = Range(attributes=(column,), inside=inside)
    return _plan(dataset, universe, asked, LearnedRange, epsilon=epsilon, delta="0")


@planned_atomically()
def learn_range(
    *,
    dataset: Dataset,
    column: str,
    lowest: Decimal,
    highest: Decimal,
    decimals: int,
    inside: Fraction,
    epsilon: str,
    by: User,
) -> Release:
    """Declare a column with the widest range that certainly holds everything, and draft the release that learns the
    range of most rows within it. Nothing is spent and no data are touched until the draft is submitted.

    Raises:
        InvalidInput: the bounds, the share or epsilon break a rule.
        Refusal: columns or protection are not declared yet.
    """
    universe = with_bounds(_declared(dataset), column, lowest=lowest, highest=highest, decimals=decimals)
    asked = Range(attributes=(column,), inside=inside)
    return _draft(dataset, universe, asked, LearnedRange, epsilon=epsilon, delta="0", by=by)


def plan_categories(*, dataset: Dataset, column: str, other: str, epsilon: str, delta: str) -> Plan:
    """What learning a column's categories would cost, and how many rows a value needs. Nothing is stored or read.

    Raises:
        InvalidInput: the column, the word for everything else, epsilon or delta break a rule.
        Refusal: columns or protection are not declared yet.
    """
    universe = _with_catch_all(dataset, column, other)
    asked = Categories(attributes=(column,))
    return _plan(dataset, universe, asked, LearnedCategories, epsilon=epsilon, delta=delta)


@planned_atomically()
def learn_categories(*, dataset: Dataset, column: str, other: str, epsilon: str, delta: str, by: User) -> Release:
    """Declare a column with a category for everything that is not declared, and draft the release that finds the values
    that many rows have. Nothing is spent and no data are touched until the draft is submitted.

    Raises:
        InvalidInput: the column, the word for everything else, epsilon or delta break a rule.
        Refusal: columns or protection are not declared yet.
    """
    universe = _with_catch_all(dataset, column, other)
    asked = Categories(attributes=(column,))
    return _draft(dataset, universe, asked, LearnedCategories, epsilon=epsilon, delta=delta, by=by)


def _declared(dataset: Dataset) -> Universe:
    if dataset.universe is None or dataset.budget is None:
        raise Refusal("Declare the columns and the protection first.")
    return dataset.universe


def _with_catch_all(dataset: Dataset, column: str, other: str) -> Universe:
    declared = _declared(dataset)
    if column not in dataset.columns and column not in dataset.made_columns:
        raise InvalidInput("column", column, "is not a column of the table")
    if column in declared.names and declared[column].per_person is not None:
        raise InvalidInput("column", column, "is made of all rows of a person; learn those of a column that it reads")
    return with_catch_all(declared, column, other=other)


def _plan(
    dataset: Dataset, universe: Universe, asked: Statistic, kind: type[Learned], *, epsilon: str, delta: str
) -> Plan:
    assert dataset.budget is not None
    schema = Schema(universe=universe, unit=dataset.budget.privacy_unit, neighbours=dataset.budget.relation)
    of_column, inquiry = of_columns_asked(schema, Inquiry(universe=universe, statistic=asked))
    budget = privacy_budget(epsilon=epsilon, delta=delta)
    return mechanism(kind.mechanism).plan(of_column, inquiry, budget=budget, beta=read_beta(Release().beta))


def _draft(
    dataset: Dataset, universe: Universe, asked: Statistic, kind: type[Learned], *, epsilon: str, delta: str, by: User
) -> Release:
    if universe != dataset.universe:
        declare_universe(dataset=dataset, columns=[attribute.to_json() for attribute in universe.attributes], by=by)
    title = f"{kind.what.capitalize()} of {asked.attributes[0]}"[:200]
    release = draft_release(dataset=dataset, by=by, title=title)
    set_questions(release=release, workload={"version": 1, "queries": [asked.to_json(universe)]})
    set_choice(release=release, epsilon=epsilon, delta=delta, beta=release.beta, mechanism_name=kind.mechanism)
    return release
