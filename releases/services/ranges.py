"""Learning a column's range from the data: planned from public bounds, then a release like any other."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from django.db import transaction

from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.privacy import privacy_budget
from releases.engine.statistic import Range
from releases.engine.universe import Schema, Universe
from releases.engine.workload import Inquiry
from releases.models import Dataset, Release
from releases.ranges import MECHANISM, with_bounds
from releases.services.datasets import declare_universe
from releases.services.releases import Refusal, draft_release, read_beta, set_choice, set_questions

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
    universe = _bounded(dataset, column, lowest=lowest, highest=highest, decimals=decimals)
    assert dataset.budget is not None
    schema = Schema(universe=universe, unit=dataset.budget.privacy_unit, neighbours=dataset.budget.relation)
    inquiry = Inquiry(universe=universe, statistic=Range(attributes=(column,), inside=inside))
    budget = privacy_budget(epsilon=epsilon, delta="0")
    return mechanism(MECHANISM).plan(schema, inquiry, budget=budget, beta=read_beta(Release().beta))


@transaction.atomic
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
    universe = _bounded(dataset, column, lowest=lowest, highest=highest, decimals=decimals)
    if universe != dataset.universe:
        declare_universe(dataset=dataset, columns=[attribute.to_json() for attribute in universe.attributes], by=by)
    release = draft_release(dataset=dataset, by=by, title=f"Range of {column}"[:200])
    asked = Range(attributes=(column,), inside=inside)
    set_questions(release=release, workload={"version": 1, "queries": [asked.to_json(universe)]})
    set_choice(release=release, epsilon=epsilon, beta=release.beta, mechanism_name=MECHANISM)
    return release


def _bounded(dataset: Dataset, column: str, *, lowest: Decimal, highest: Decimal, decimals: int) -> Universe:
    if dataset.universe is None or dataset.budget is None:
        raise Refusal("Declare the columns and the protection first.")
    return with_bounds(dataset.universe, column, lowest=lowest, highest=highest, decimals=decimals)
