"""Tables that lines of their own ask for, measured together: they share noise, and agree with one another.

Lines about one population become one release where that narrows the interval of some table and widens none, beside
the best release of each table alone with its share of epsilon, delta and beta. The share of a table is its importance
(`weight`) then. All of it is known before the release: no rule here looks at an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, inf, lcm
from typing import Any

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.population import Population
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.agreement import CONFIDENCE, TABLES
from releases.engine.mechanisms.base import Plan, mechanisms
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import MAX_WEIGHT, WORKLOAD_VERSION, Marginal, Workload, unweighted
from releases.engine.workload.questions import of_columns_asked
from releases.planning.row_methods import options_with
from releases.questions.together import MAX_TITLE, PartAsked, read_weight


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedInputs:
    """The public inputs of a release of several tables.

    Attributes:
        schema: of the columns asked about.
        workload: the tables, each weighted by its share.
    """

    schema: Schema
    workload: Workload
    budget: PrivacyBudget
    beta: Fraction

    def plans(self, options: Mapping[str, Mapping[str, Any]]) -> list[Plan]:
        """That of every mechanism that people can choose."""
        return [
            each.plan(self.schema, self.workload, budget=self.budget, beta=self.beta, options=options.get(each.name))
            for each in mechanisms().values()
            if each.is_offered and each.can_answer(self.workload)
        ]

    def alone(self, family: Marginal) -> SharedInputs:
        """Those of one of the tables in a release of its own."""
        tables = self.workload.families
        schema, workload = of_columns_asked(
            self.schema, Workload(universe=self.workload.universe, families=(unweighted(family),))
        )
        assert isinstance(workload, Workload)
        share = Fraction(family.weight, sum(each.weight for each in tables))
        return SharedInputs(
            schema=schema,
            workload=workload,
            budget=_part_of(self.budget, epsilon=share, delta=Fraction(1, len(tables))),
            beta=self.beta / len(tables),
        )


def is_shared(workload: Mapping[str, Any] | None) -> bool:
    """Whether a part asks for several tables, as `measured_together` writes them."""
    queries = (workload or {}).get("queries", [])
    return len(queries) > 1 and all("marginal" in query for query in queries)


def options_for_tables(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A part's options, with an equal part of beta for each table, unless that was chosen otherwise.

    Args:
        options: by mechanism.
    """
    return options_with(CONFIDENCE, TABLES, options)


def measured_together(
    asked: Sequence[PartAsked], schema: Schema, *, budget: PrivacyBudget, beta: Fraction
) -> list[PartAsked]:
    """What is asked, the tables of one population joined where that is better for them.

    Args:
        budget, beta: of all parts; they share epsilon by their weights, delta and beta evenly.
    """
    parts, whole = list(asked), sum(read_weight(part.weight) for part in asked)
    for group in _of_one_population(asked, schema):
        joined = _joined(group)
        if joined is None:
            continue
        part, question = of_columns_asked(schema, read_question(joined.workload, schema.universe))
        assert isinstance(question, Workload)
        if len(question.families) < len(group):
            # The same table twice is two releases, as it was asked.
            continue
        epsilon, even = read_weight(joined.weight) / whole, Fraction(len(group), len(asked))
        inputs = SharedInputs(
            schema=part, workload=question, budget=_part_of(budget, epsilon=epsilon, delta=even), beta=beta * even
        )
        alone = widths_alone(inputs)
        found = narrowest(inputs.plans(options_for_tables({})), alone)
        if found is None or _worst(found, alone) > 1:
            continue
        if any(width < least for width, (least, _) in zip(_widths(found), alone, strict=True)):
            parts = [joined if each is group[0] else each for each in parts if each not in group[1:]]
    return parts


def narrowest(plans: Iterable[Plan], alone: Sequence[tuple[float, Population]]) -> Plan | None:
    """The plan that is best for the table that gains the least by it; None where none is proved before the release.

    Args:
        alone: as `widths_alone` has it.
    """
    proved = [each for each in plans if _is_proved(each) and _worst(each, alone) < inf]
    return min(proved, key=lambda each: _worst(each, alone), default=None)


def widths_alone(inputs: SharedInputs) -> list[tuple[float, Population]]:
    """Of each table the narrowest interval that a release of its own proves, and what it counts."""
    found = []
    for family in inputs.workload.families:
        assert isinstance(family, Marginal)
        plans = filter(_is_proved, inputs.alone(family).plans({}))
        widths = ((_widths(each)[0], each.schema.population) for each in plans)
        found.append(min(widths, key=lambda each: each[0], default=(inf, inputs.schema.population)))
    return found


def _is_proved(plan: Plan) -> bool:
    return not plan.infeasible and plan.bound is not None and plan.bound.proof is Proof.BEFORE


def _widths(plan: Plan) -> tuple[float, ...]:
    assert plan.bound is not None
    return plan.bound.half_widths


def _worst(plan: Plan, alone: Sequence[tuple[float, Population]]) -> float:
    """The largest ratio of a table's interval to that alone; infinite where it counts other rows then."""
    return max(
        _ratio(width, least) if plan.schema.population_of(family.attributes) == population else inf
        for width, family, (least, population) in zip(_widths(plan), plan.workload.families, alone, strict=True)
    )


def _ratio(width: float, least: float) -> float:
    """Of two half widths. Within 0 rows is one number of rows, and within w of them are 2w + 1."""
    return width / least if least else 2 * width + 1


def _of_one_population(asked: Sequence[PartAsked], schema: Schema) -> list[list[PartAsked]]:
    """The lines that ask for a table, in groups that count the same; none of one alone."""
    groups: dict[Population, list[PartAsked]] = {}
    for part in asked:
        (query,) = part.workload["queries"]
        if "marginal" in query and not part.is_for_rows:
            own, _ = of_columns_asked(schema, read_question(part.workload, schema.universe))
            groups.setdefault(own.population, []).append(part)
    return [group for group in groups.values() if len(group) > 1]


def _joined(group: Sequence[PartAsked]) -> PartAsked | None:
    """One part that asks what several do, with their shares as weights: the least whole numbers in that ratio; None
    where these are too large."""
    shares = [read_weight(part.weight) for part in group]
    whole = [share * lcm(*(each.denominator for each in shares)) for share in shares]
    weights = [int(each / gcd(*map(int, whole))) for each in whole]
    if max(*weights, sum(shares)) > MAX_WEIGHT:
        return None
    queries = [part.workload["queries"][0] for part in group]
    first, *others = [part.title for part in group]
    return replace(
        group[0],
        title="; ".join([first, *(f"{title[:1].lower()}{title[1:]}" for title in others)])[:MAX_TITLE],
        workload={
            "version": WORKLOAD_VERSION,
            "queries": [
                query | ({"weight": weight} if weight > 1 else {})
                for query, weight in zip(queries, weights, strict=True)
            ],
        },
        weight=decimal_text(sum(shares, Fraction(0))),
        tables=len(group),
    )


def _part_of(budget: PrivacyBudget, *, epsilon: Fraction, delta: Fraction) -> PrivacyBudget:
    if isinstance(budget, ApproxDP):
        return ApproxDP(epsilon=budget.epsilon * epsilon, delta=budget.delta * delta)
    assert isinstance(budget, PureDP)
    return PureDP(epsilon=budget.epsilon * epsilon)
