"""How noisy answers are made to agree: whether they can, and whether the proved bound is narrower for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import le
from typing import Any, TypeAlias

from releases.engine.bounds.combinations import SummandLaw
from releases.engine.mechanisms import least_squares, mixed_squares, squares_by_rules
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import Consistency, Option, Plan, PlanRequest, infeasible
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.mechanisms.mixed_squares import Measuring, MixedSquares
from releases.engine.mechanisms.squares_by_rules import (
    OF_TABLES,
    Squares,
    SquaresByRules,
    places_by_rules,
    share_of_beta,
)
from releases.engine.workload.queries import Marginal, Workload, unweighted

TOGETHER = Option(
    name="agree",
    help="Whether to make tables, running totals and counts that overlap and count the same rows agree with one "
    "another, which also makes them more precise. It costs nothing. Left to the mechanism, it does so where that makes "
    "the proved bound narrower.",
    choices=("no", "yes"),
    before="no",
)
ANSWERS, TABLES = "answers", "tables"
CONFIDENCE = Option(
    name="confidence",
    help="What has equal parts of the probability that the bound fails: “answers”, which makes the largest error "
    "smallest, or “tables”, so that no table has a wider interval than in a release of its own with its share of the "
    "privacy budget.",
    choices=(ANSWERS, TABLES),
    default=ANSWERS,
    before=ANSWERS,
)
#: Of more tables the mechanism tries which bound is narrower only where they are whole ones, and the pairs of a table
#: and a residual of another are no more than that: about a second.
_MOST_TRIED, _MOST_PAIRS = 100, 1_000_000
AGREEING_BY_RULES = "made to agree with those that count the same rows, 0 where they are below 0: the bound is theirs"
OWN_NOISE = "with the noise they got, 0 where that is below 0: the bound is theirs"
AGREEING = "made to agree with one another, 0 where they are below 0: the bound is theirs"
AGREEING_LARGER = "put together from fewer, larger tables, 0 where they are below 0: the bound is theirs"
AGREEING_LARGER_BY_RULES = (
    "put together from fewer, larger tables by those that count the same rows, 0 where they are below 0: the bound is "
    "theirs"
)
AGREEING_LEVELS = "made to agree with one another and over levels, 0 where they are below 0: the bound is theirs"
_NOT_TABLES = (
    "Only whole tables, running totals and counts that share columns, and not too many, can be made to agree. "
    "Choose no there."
)
_DIFFERENT_ROWS = (
    "No two of these tables that overlap count the same rows, so they cannot be made to agree. Choose that they count "
    "the same rows."
)
_LITTLE_NOISE = "With so little noise the bound of answers that agree is not proved. Choose no there."
#: How the answers of a release are made to agree.
Agreement: TypeAlias = Squares | SquaresByRules


def of_each_table(options: Mapping[str, Any]) -> bool:
    """Whether each table has an equal part of the probability that the bound fails."""
    return bool(options.get(CONFIDENCE.name) == TABLES)


def of_tables_formula(formula: str) -> str:
    """The formula of a bound, where each table has an equal part of beta."""
    return OF_TABLES.get(formula, formula.replace(r"\tfrac{\beta}{k}", r"\tfrac{\beta}{t\,k_T}"))


def narrower(
    request: PlanRequest,
    law: SummandLaw,
    variances: tuple[float, ...],
    half_widths: tuple[float, ...],
    *,
    measuring: tuple[Measuring | None, ...] = (),
) -> tuple[Agreement | None, tuple[float, ...]] | Plan:
    """How the answers are made to agree, and their half widths; None, and those given, where they are left as they are.

    Where the choice is the mechanism's they are made to agree if that lowers the largest half width, each times its
    weight; where each table has its own part of beta, if it lowers some and widens none. A plan that says why, where
    they cannot be made to agree and that is asked for.

    Args:
        variances: of the noise in each family.
        half_widths: of answers left as they are.
        measuring: what noise is on in each family, where it is not its answers.
    """
    workload, wanted = request.counts_asked, request.options.get(TOGETHER.name, "no")
    if wanted == "no" or (wanted is None and not _is_tried(workload)):
        return None, half_widths
    if wanted == "yes":
        # Left to the mechanism, noise on each answer is put together for tables alone, as in plans that are stored.
        measuring = measuring or (None,) * len(variances)
    together, reason = _agreement(workload, law, variances, measuring)
    if together is None:
        return (None, half_widths) if wanted is None else infeasible(request, reason)
    each_table = of_each_table(request.options)
    found = together.half_widths(beta=float(request.beta), of_each_table=each_table)
    if wanted == "yes" or is_narrower(found, half_widths, workload.weights, each_table=each_table):
        return together, found
    return None, half_widths


def _is_tried(workload: Workload) -> bool:
    tables = len(workload.families)
    if tables <= _MOST_TRIED:
        return True
    residuals = sum(1 << len(family.attributes) for family in workload.families)
    return LeastSquares.can_combine(workload) and tables * residuals <= _MOST_PAIRS


def _largest(widths: Sequence[float], weights: Sequence[int]) -> float:
    return max(weight * width for weight, width in zip(weights, widths, strict=True))


def is_narrower(
    found: tuple[float, ...], widths: tuple[float, ...], weights: Sequence[int], *, each_table: bool
) -> bool:
    if each_table:
        return found != widths and all(map(le, found, widths))
    return _largest(found, weights) < _largest(widths, weights)


def narrower_by_rules(
    request: PlanRequest, noise: Noise, half_widths: tuple[float, ...]
) -> tuple[SquaresByRules | None, tuple[float, ...]] | Plan:
    """The same where tables count rows of their own: of each group of those that count the same ones.

    Args:
        noise: on an answer of weight 1.
        half_widths: of answers left as they are.
    """
    workload, wanted = request.counts_asked, request.options.get(TOGETHER.name, "no")
    if wanted == "no":
        return None, half_widths
    each_table = of_each_table(request.options)
    found, groups = list(half_widths), list[Squares | None]()
    for group, places in zip(workload.by_rules, places_by_rules(workload), strict=True):
        weights = [workload.weights[i] for i in places]
        beta = share_of_beta(group, workload, beta=float(request.beta), of_each_table=each_table)
        if each_table:
            widths = tuple(half_widths[place] for place in places)
        else:
            cells: Counter[int] = Counter()
            for family, weight in zip(group.families, weights, strict=True):
                cells[weight] += family.cells(workload.universe)
            by_weight = noise.largest_weighted(cells, beta=beta)
            widths = tuple(by_weight[weight] for weight in weights)
        variances = tuple(noise.of_weight(weight).variance for weight in weights)
        is_tried = len(places) > 1 and (wanted == "yes" or _is_tried(group))
        squares = _agreement(group, noise.law, variances, (None,) * len(places))[0] if is_tried else None
        if squares is not None:
            agreed = squares.half_widths(beta=beta, of_each_table=each_table)
            if wanted == "yes" or is_narrower(agreed, widths, weights, each_table=each_table):
                widths = agreed
            else:
                squares = None
        groups.append(squares)
        for place, width in zip(places, widths, strict=True):
            found[place] = width
    if not any(groups):
        return (None, half_widths) if wanted is None else infeasible(request, _DIFFERENT_ROWS)
    if wanted is None and _largest(found, workload.weights) > _largest(half_widths, workload.weights):
        return None, half_widths
    alike = replace(workload, families=tuple(map(unweighted, workload.families)))
    return SquaresByRules(workload=alike, groups=tuple(groups)), tuple(found)


def _agreement(
    workload: Workload, law: SummandLaw, variances: tuple[float, ...], measuring: tuple[Measuring | None, ...]
) -> tuple[Squares | None, str]:
    """How the answers can be made to agree; else None, and why not in one sentence."""
    together: Squares
    # What weights did is in the variances.
    workload = replace(workload, families=tuple(map(unweighted, workload.families)))
    if not any(measuring) and all(isinstance(family, Marginal) for family in workload.families):
        kind = LevelSquares if LevelSquares.can_combine(workload) else LeastSquares
        together = kind(workload=workload, law=law, variances=variances)
        can_combine = kind.can_combine(workload)
    else:
        together = MixedSquares(workload=workload, law=law, variances=variances, measuring=measuring)
        can_combine = bool(measuring) and together.can_combine
    if not can_combine:
        return None, _NOT_TABLES
    return (together, "") if min(variances) >= law.least_variance else (None, _LITTLE_NOISE)


def said_of(together: Agreement) -> tuple[str, str]:
    """Formula and source of its bound."""
    if isinstance(together, SquaresByRules):
        return squares_by_rules.FORMULA, squares_by_rules.SOURCE
    module = least_squares if isinstance(together, LeastSquares) else mixed_squares
    return module.FORMULA, module.SOURCE


def answers_in_words(together: Agreement | None) -> str:
    """What was done with the noisy answers."""
    if together is None:
        return OWN_NOISE
    if isinstance(together, SquaresByRules):
        return AGREEING_BY_RULES if together.measured is None else AGREEING_LARGER_BY_RULES
    if isinstance(together, LeastSquares) and together.measured is not None:
        return AGREEING_LARGER
    return AGREEING_LEVELS if isinstance(together, LevelSquares) else AGREEING


def consistency_of(parameters: Mapping[str, str]) -> Consistency:
    """That of a release whose answers have noise of their own or were made to agree, as its parameters say."""
    known = {
        AGREEING: Consistency.MADE_TO_AGREE,
        AGREEING_LARGER: Consistency.MADE_TO_AGREE,
        AGREEING_LEVELS: Consistency.LEVELS_MADE_TO_AGREE,
        AGREEING_BY_RULES: Consistency.SAME_ROWS_MADE_TO_AGREE,
        AGREEING_LARGER_BY_RULES: Consistency.SAME_ROWS_MADE_TO_AGREE,
    }
    return known.get(parameters.get("answers", ""), Consistency.OWN_NOISE)
