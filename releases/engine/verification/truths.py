"""What answers truly are, straight from rows, and whether what the bound of a result says is true of them.

Written apart from the mechanisms, which count in other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Plan
from releases.engine.tables.counts import CountsApart, Rows
from releases.engine.workload.kinds.categories import Categories
from releases.engine.workload.kinds.largest_count import LargestCount
from releases.engine.workload.kinds.largest_error import ASKED, LargestError
from releases.engine.workload.kinds.logistic_regression import LARGEST_RATIO, LogisticRegression, step_of
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.most_common import MostCommon
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.kinds.quantiles import Quantiles
from releases.engine.workload.kinds.range import Range
from releases.engine.workload.kinds.regression import Regression
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.engine.workload.kinds.strongest_associations import StrongestAssociations, levels_of
from releases.engine.workload.kinds.sum import Sum
from releases.engine.workload.kinds.survey import SurveyStatistic
from releases.engine.workload.kinds.threshold import Threshold
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.engine.workload.queries import Count, Marginal
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.statistic import OfNumbers, Statistic

Floats: TypeAlias = NDArray[np.float64]
#: The exact numbers of each part of an answer.
Truth: TypeAlias = Callable[[Any, Rows], list[Floats]]
#: Whether what the bound of a result says is true of the rows.
Holds: TypeAlias = Callable[[Plan, Result, Rows], bool]


def truths(plan: Plan, rows: Rows | CountsApart) -> list[Floats]:
    """The exact numbers that a plan asks for, part by part.

    Raises:
        InvalidInput: it asks for a choice, or for a statistic that is not known here.
    """
    if not isinstance(plan.workload, Inquiry):
        return [each.astype(np.float64) for each in plan.counts_asked.answer(rows.marginal)]
    assert isinstance(rows, Rows), "no statistic is of rows and of persons"
    kind = type(plan.workload.statistic)
    if kind not in TRUTHS:
        raise InvalidInput("statistic", kind.kind, "must be one whose exact numbers are known here")
    return TRUTHS[kind](plan.workload.statistic, rows)


def bound_holds(plan: Plan, result: Result, rows: Rows | CountsApart) -> bool:
    """Whether what the bound of the result says is true.

    Raises:
        InvalidInput: what it says is not known here.
    """
    if not isinstance(plan.workload, Inquiry):
        return within_half_widths(plan, result, rows)
    assert isinstance(rows, Rows), "no statistic is of rows and of persons"
    kind = type(plan.workload.statistic)
    if kind not in HOLDS:
        raise InvalidInput("statistic", kind.kind, "must be one whose bound is known here")
    return HOLDS[kind](plan, result, rows)


# What is measured


def _numbers(rows: Rows, name: str) -> Floats:
    numbers: Floats = rows.columns[name] / 10.0 ** rows.universe[name].decimals
    return numbers


def _sums(statistic: Sum, rows: Rows) -> list[Floats]:
    weights = _weights(statistic, rows)
    groups = _groups(statistic, rows)
    return [np.array([(weights * _numbers(rows, name))[group].sum() for group in groups]) for name in statistic.of]


def _means(statistic: Mean, rows: Rows) -> list[Floats]:
    """Of no rows, or of none with a weight, the middle of the declared range."""
    weights = _weights(statistic, rows)
    found = []
    for name in statistic.of:
        ends, values, means = rows.universe[name].edges, _numbers(rows, name), []
        for group in _groups(statistic, rows):
            is_any = weights[group].any()
            means.append(np.average(values[group], weights=weights[group]) if is_any else float(ends[0] + ends[-1]) / 2)
        found.append(np.array(means))
    return found


def _variances(statistic: Variance, rows: Rows) -> list[Floats]:
    """Of no rows, or of none with a weight, 0."""
    weights = _weights(statistic, rows)
    found = []
    for name in statistic.of:
        values, variances = _numbers(rows, name), []
        for group in _groups(statistic, rows):
            own, often = values[group], weights[group]
            apart = own - np.average(own, weights=often) if often.any() else 0.0
            variances.append(np.average(apart**2, weights=often) if often.any() else 0.0)
        found.append(np.array(variances))
    return found


def _weighted_counts(statistic: WeightedCount, rows: Rows) -> list[Floats]:
    weights = _weights(statistic, rows)
    return [np.array([weights[group].sum() for group in _groups(statistic, rows)])]


def _weights(statistic: OfNumbers, rows: Rows) -> Floats:
    if statistic.weight is None:
        return np.ones(len(rows.columns[statistic.of[0]]))
    return np.minimum(_numbers(rows, statistic.weight.column), float(statistic.weight.cap))


def _groups(statistic: OfNumbers, rows: Rows) -> list[NDArray[np.bool_]]:
    """The rows of each group, the last column's categories first; or all, in one."""
    is_in = [np.ones(len(rows.columns[statistic.of[0]]), dtype=bool)]
    for name in statistic.by:
        is_in = [kept & (rows.columns[name] == code) for kept in is_in for code in range(rows.universe[name].size)]
    return is_in


def _moments(statistic: SecondMoments, rows: Rows) -> list[Floats]:
    weights, groups = _weights(statistic, rows), _groups(statistic, rows)
    products = [weights * _numbers(rows, one) * _numbers(rows, other) for one, other in statistic.pairs()]
    return [np.array([each[group].sum() for group in groups]) for each in products]


def _coefficients(statistic: Regression, rows: Rows) -> list[Floats]:
    """Of the line through the rows themselves; the shortest of them where many fit as well."""
    columns = []
    for name in statistic.predictors:
        if rows.universe[name].is_numeric:
            columns.append(_numbers(rows, name))
        else:
            columns += [(rows.columns[name] == code) * 1.0 for code in range(1, rows.universe[name].size)]
    outcome = _numbers(rows, statistic.outcome)
    design = np.stack([*columns, np.ones(len(outcome))], axis=1)
    return [np.linalg.lstsq(design, outcome, rcond=None)[0].astype(np.float64)]


def _odds(statistic: LogisticRegression, rows: Rows) -> list[Floats]:
    """Of the rows themselves; a ratio beyond the largest is that."""
    table = rows.marginal(statistic.attributes).reshape(rows.universe[statistic.outcome].size, -1)
    having, whole = table[list(statistic.bins)].sum(axis=0), table.sum(axis=0)
    sizes = [rows.universe[name].size for name in statistic.predictors]
    columns = []
    for name, bins in zip(statistic.predictors, np.unravel_index(np.arange(whole.size), sizes), strict=True):
        each = rows.universe[name]
        if each.is_numeric:
            edges, last = np.array(each.edges, dtype=float), 10.0**-each.decimals
            middles = (edges[:-1] + edges[1:] - np.where(np.arange(len(edges) - 1) < len(edges) - 2, last, 0)) / 2
            columns.append((middles[bins] - (edges[0] + edges[-1]) / 2) / (step_of(each) * last))
        else:
            columns += [(bins == code) * 1.0 for code in range(1, each.size)]
    design = np.stack([*columns, np.ones(whole.size)], axis=1)

    def misfit(b: Floats) -> tuple[float, Floats]:
        odds = design @ b
        slope = design.T @ (whole * expit(odds) - having)
        return float(whole @ np.logaddexp(0, odds) - having @ odds), slope

    found = minimize(
        misfit, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}
    )
    logarithms = np.clip(found.x, -np.log(LARGEST_RATIO), np.log(LARGEST_RATIO))
    return [np.concatenate([np.exp(logarithms), logarithms])]


def _votes(statistic: Votes, rows: Rows) -> list[Floats]:
    totals = np.zeros(len(statistic.attributes))
    code = rows.universe[statistic.attributes[0]].categories.index(statistic.category)
    for row in zip(*(rows.columns[name] for name in statistic.attributes), strict=True):
        given = [position for position, told in enumerate(row) if told == code][: statistic.ballots]
        totals[given] += 1
    return [totals]


def _survey(statistic: SurveyStatistic, rows: Rows) -> list[Floats]:
    (name,) = statistic.attributes
    return [np.bincount(rows.columns[name], minlength=rows.universe[name].size).astype(np.float64)]


def _largest_error(statistic: LargestError, rows: Rows) -> list[Floats]:
    errors = [
        abs(number - count)
        for each in statistic.released
        for numbers, counts in zip(each.numbers, statistic.workload.answer(rows.marginal), strict=True)
        for number, count in zip(numbers, counts.tolist(), strict=True)
    ]
    means = []
    for mean in statistic.means:
        # Rows to change are half of what is off; what is too many or too few in all comes on top.
        tables = []
        for place, family in enumerate(statistic.workload.families):
            if isinstance(family, Marginal):
                true = rows.marginal(family.attributes).reshape(-1).tolist()
                off = (np.subtract(each.numbers[place], true) for each in statistic.released)
                tables.append(max(float(np.abs(each).sum() + abs(each.sum())) / 2 for each in off))
        assert mean == ASKED, "verification knows no files"
        means.append(np.array([sum(tables) / len(tables)]))
    return [np.array([float(max(errors))]), *means]


#: What each measured statistic truly is.
TRUTHS: dict[type[Statistic], Truth] = {
    Sum: _sums,
    Mean: _means,
    Variance: _variances,
    WeightedCount: _weighted_counts,
    SecondMoments: _moments,
    Regression: _coefficients,
    LogisticRegression: _odds,
    Votes: _votes,
    SurveyStatistic: _survey,
    LargestError: _largest_error,
}


def within_half_widths(plan: Plan, result: Result, rows: Rows | CountsApart) -> bool:
    """Whether every number is within its half width of the truth (a double's rounding aside)."""
    parts = zip(result.estimates, truths(plan, rows), result.bound.half_widths, strict=True)
    return all(bool((np.abs(found - true) <= width + 1e-9 * np.abs(true)).all()) for found, true, width in parts)


def the_numbers_are_inside(plan: Plan, result: Result, rows: Rows) -> bool:
    """Whether every number is within its half width of the truth, and in its interval where one is given."""
    inside = all(
        bool(((ends[:, 0] - 1e-9 * np.abs(true) <= true) & (true <= ends[:, 1] + 1e-9 * np.abs(true))).all())
        for ends, true in zip(result.spans, truths(plan, rows), strict=False)
    )
    return inside and within_half_widths(plan, result, rows)


def nothing_is_said_or_it_holds(plan: Plan, result: Result, rows: Rows) -> bool:
    return not result.notes["answered"] or the_numbers_are_inside(plan, result, rows)


def at_most(plan: Plan, result: Result, rows: Rows) -> bool:
    """Whether no number is above its estimate by more than its half width."""
    parts = zip(result.estimates, truths(plan, rows), result.bound.half_widths, strict=True)
    return all(bool((true <= found + width).all()) for found, true, width in parts)


# What is chosen


def each_place_is_near_the_best_left(plan: Plan, result: Result, rows: Rows) -> bool:
    (name,), (width,) = _asked(plan).attributes, result.bound.half_widths
    counts = np.bincount(rows.columns[name], minlength=rows.universe[name].size)
    left = dict(zip(rows.universe[name].labels, counts.tolist(), strict=True))
    return all(left.pop(chosen) >= max([0, *left.values()]) - width for chosen in result.chosen)


def the_predicate_is_near_the_best(plan: Plan, result: Result, rows: Rows) -> bool:
    met, predicates = predicates_met(plan, rows), _asked(plan).predicates
    titles = [Count(attributes=names, bins=bins).title(rows.universe) for names, bins in predicates]
    return bool(met[titles.index(result.chosen[0])] >= max(met) - result.bound.alpha)


def no_comparison_is_far_off(plan: Plan, result: Result, rows: Rows) -> bool:
    bar, width = _asked(plan).above, result.bound.alpha
    for count, said, value in zip(predicates_met(plan, rows), result.chosen, result.estimates[0], strict=True):
        if (said == "above" and count < bar - width) or (said == "below" and count > bar + width):
            return False
        if value and abs(value - count) > width:
            return False
    return True


def the_quantile_is_near(plan: Plan, result: Result, rows: Rows) -> bool:
    """In rows where a value was chosen, otherwise on the column's own scale; an answer withheld breaks nothing.

    Where an interval is given, whether it holds every value that is a quantile, and the value given.
    """
    quantile, width = _asked(plan), result.bound.alpha
    if not result.notes.get("answered", True):
        return True
    if result.spans:
        return every_quantile_is_inside(plan, result, rows)
    values, (answer,) = np.sort(_numbers(rows, quantile.attributes[0])), result.estimates[0]
    wanted = float(quantile.at) * len(values)
    if not result.chosen:
        return bool(abs(values[int(np.ceil(wanted)) - 1] - answer) <= width + 1e-9)
    return _rank_is_near(values, answer, wanted, width)


def every_quantile_is_inside(plan: Plan, result: Result, rows: Rows) -> bool:
    """For each share every y of the declared range with #{x < y} <= q n <= #{x <= y}, in whole numbers."""
    (name, *by), at = _asked(plan).attributes, _asked(plan).at
    attribute, groups = rows.universe[name], [np.ones(len(rows.columns[name]), dtype=bool)]
    if by:
        groups = [rows.columns[by[0]] == group for group in range(rows.universe[by[0]].size)]
    places = 10**attribute.decimals

    def is_inside(share: Fraction, group: NDArray[np.bool_], ends: Floats, given: float, half_width: float) -> bool:
        ordered = sorted(rows.columns[name][group].tolist())
        n = len(ordered)
        # The lowest has at least q n rows at or below it, the highest at most q n below.
        fewest, most = -(-share.numerator * n // share.denominator), share.numerator * n // share.denominator
        lowest = ordered[fewest - 1] if fewest else attribute.lowest
        highest = ordered[most] if most < n else attribute.highest
        low, high = ends.tolist()
        inside = round(low * places) <= lowest and highest <= round(high * places)
        return bool(inside and low <= given <= high and max(given - low, high - given) <= half_width + 1e-9)

    shares = at if isinstance(at, tuple) else (at,)
    shown = zip(shares, result.spans, result.estimates, result.bound.half_widths, strict=True)
    return all(
        is_inside(share, group, ends, given, width)
        for share, spans, estimates, width in shown
        for group, ends, given in zip(groups, spans, estimates, strict=True)
    )


def both_ends_are_near(plan: Plan, result: Result, rows: Rows) -> bool:
    asked, width = _asked(plan), result.bound.alpha
    values = np.sort(_numbers(rows, asked.attributes[0]))
    return all(
        _rank_is_near(values, answer, float(at) * len(values), width)
        for at, answer in zip(asked.ends, result.estimates[0], strict=True)
    )


def common_values_are_found(plan: Plan, result: Result, rows: Rows) -> bool:
    """The first of the values that are said to be found, and nothing that does not occur."""
    (name,), least = _asked(plan).attributes, result.bound.alpha
    found, declared = rows.texts(name), rows.universe[name].categories
    held = dict(zip(found.texts, found.counts.tolist(), strict=True))
    common = sorted(text for text in held if held[text] >= least and text not in declared)
    return set(result.chosen) <= set(held) and (not common or common[0] in result.chosen)


def no_pair_left_is_much_stronger(plan: Plan, result: Result, rows: Rows) -> bool:
    """The pairs by how far they are from independent, in exact fractions; their counts; the shares that are said."""
    asked, width = _asked(plan), result.bound.alpha
    left = {pair: _rows_from_independent(rows, pair) for pair in combinations(asked.attributes, 2)}
    for noted in result.notes["associations"]:
        pair = tuple(noted["columns"])
        if left.pop(pair) < max(left.values(), default=0) - Fraction(width):
            return False
        one, other = (_levels(rows, name, bins) for name, bins in zip(pair, noted["bins"], strict=True))
        for first, counts in enumerate(noted["counts"]):
            for second, count in enumerate(counts):
                if abs(int(((one == first) & (other == second)).sum()) - count) > noted["half_width"]:
                    return False
        if (said := noted["more_frequent"]) is not None:
            is_first, is_second = one == said["first"], other == said["second"]
            for _, low, high, among in ((*said["share"], is_first), (*said["others"], ~is_first)):
                if not among.any() or not low - 1e-9 <= (is_second & among).sum() / among.sum() <= high + 1e-9:
                    return False
    return True


def _rows_from_independent(rows: Rows, pair: tuple[str, str]) -> Fraction:
    one, other = (_levels(rows, name, levels_of(rows.universe[name])) for name in pair)
    n, apart = len(one), Fraction(0)
    for first in set(one.tolist()):
        for second in set(other.tolist()):
            of_both = int(((one == first) & (other == second)).sum())
            of_each = int((one == first).sum()) * int((other == second).sum())
            apart += abs(of_both - Fraction(of_each, n))
    return apart / 2


def _levels(rows: Rows, name: str, levels: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Of each row the number of its level."""
    bins = _bins(rows, name)
    found = np.full(bins.shape, -1, dtype=np.int64)
    for place, (low, high) in enumerate(levels):
        found[(low <= bins) & (bins <= high)] = place
    return found


def _rank_is_near(values: Floats, answer: float, wanted: float, width: float) -> bool:
    """Whether some rank that the answer has is within so many rows of the one wanted."""
    below, up_to = (values < answer - 1e-9).sum(), (values < answer + 1e-9).sum()
    return bool(below <= wanted + width + 1e-9 and up_to >= wanted - width - 1e-9)


def predicates_met(plan: Plan, rows: Rows) -> list[int]:
    """How many rows meet each predicate, row by row."""
    met = []
    for names, bins in _asked(plan).predicates:
        codes = [_bins(rows, name) for name in names]
        kept = np.all([np.isin(code, each) for code, each in zip(codes, bins, strict=True)], axis=0)
        met.append(int(kept.sum()))
    return met


def _bins(rows: Rows, name: str) -> NDArray[np.int64]:
    edges = [float(edge.scaleb(rows.universe[name].decimals)) for edge in rows.universe[name].edges]
    if not edges:
        return rows.columns[name]
    return np.clip(np.searchsorted(edges, rows.columns[name], side="right") - 1, 0, len(edges) - 2)


def _asked(plan: Plan) -> Any:
    assert isinstance(plan.workload, Inquiry)
    return plan.workload.statistic


#: For each statistic, whether what the bound of a result says is true of the rows.
HOLDS: dict[type[Statistic], Holds] = {
    **dict.fromkeys(TRUTHS, within_half_widths),
    Mean: the_numbers_are_inside,
    Variance: the_numbers_are_inside,
    Regression: nothing_is_said_or_it_holds,
    LogisticRegression: nothing_is_said_or_it_holds,
    LargestError: at_most,
    MostCommon: each_place_is_near_the_best_left,
    LargestCount: the_predicate_is_near_the_best,
    Quantile: the_quantile_is_near,
    Quantiles: every_quantile_is_inside,
    Range: both_ends_are_near,
    Categories: common_values_are_found,
    Threshold: no_comparison_is_far_off,
    StrongestAssociations: no_pair_left_is_much_stronger,
}
