"""What `laplace-queries` and `gaussian-queries` share: independent noise on every answer of the workload.

The noise is calibrated to what one privacy unit can change in the whole vector of answers of the actual workload
(`Workload.sensitivity`), not to the number of queries where these overlap less. The bound is the exact quantile of
the largest of k independent draws. Noisy answers disagree with one another; synthetic rows, whose answers agree, are
made from a distribution fitted to the noisy marginals (`fit`), which is post-processing.

Where rules of columns leave out rows of some tables alone, each table counts rows of its own (`Universe.own_rows`), as
noise on each answer asks nothing of the others. Whatever puts tables together counts the same rows in all of them: the
option `agree`, and synthetic rows, which are made where their number or the same rows are asked for. Tables that count
rows of their own agree within groups of those that count the same ones (`squares_by_rules`).

An answer of weight w gets a w-th of the noise of one of weight 1, and the price stays the same: the noise is calibrated
to the answers times their weights (`Workload.weighted_sensitivity`).

With the option `confidence` of "tables" each of t families fails with probability at most β/t, and the bound of a
family is that of its own draws. Of `laplace-queries`, where each unit moves all tables alike, a table of weight w has
the noise and the bound that it would have in a release of its own, of ε w/Σw and β/t.

With the option `agree` noisy marginals are made consistent afterwards, and the bound is that of `least_squares`: where
it is not said, wherever that bound is below the other, which is known before the release.

With the option `measured` of "larger", of `laplace-queries`, noise is on fewer, larger tables from which those asked
for are put together (`larger_tables`): where neither this nor `agree` is said, wherever that bound is below both.

`laplace-queries`:
Discrete Laplace noise of scale Δ1/ε on every answer of the workload; Δ1/(ε w) on an answer of weight w.

Privacy: ε-DP, Dwork and Roth (2014), Theorem 3.6, of the answers times their weights, whose sensitivity is Δ1.
Accuracy: the exact quantile of the largest of k draws, sharper than Theorem 3.8's (Δ1/ε) ln(k/β).

`gaussian-queries`:
Discrete Gaussian noise of variance Δ2²/(2ρ) on every answer of the workload; Δ2²/(2ρw²) on an answer of weight w.

Privacy: ρ-zCDP, Canonne, Kamath and Steinke (2020), Theorem 4, and Theorem 14 for different variances, where Δ2 is that
of the answers times their weights; ρ is the largest that converts to (ε, δ) by their Corollary 13. Accuracy: the exact
quantile of the largest of k draws, below σ √(2 ln(k/β)) + 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.combinations import SummandLaw
from releases.engine.domain.population import Population
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.estimation.components import (
    ConnectedAttributes,
    connected_parts,
    distribution,
    exact_answers,
    joined_by_levels,
)
from releases.engine.estimation.fit import NoisyMarginal, measured_rows
from releases.engine.estimation.result import Distribution, Result
from releases.engine.mechanisms import least_squares, mixed_squares, squares_by_rules
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise, Noise, NoiseLaw
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    OWN_ROWS,
    ROWS,
    ROWS_OF_TABLES,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
)
from releases.engine.mechanisms.larger_tables import larger_tables
from releases.engine.mechanisms.least_squares import LeastSquares
from releases.engine.mechanisms.level_squares import LevelSquares
from releases.engine.mechanisms.marginal_fit.common import fit_bytes, fit_parts, fit_seconds, within
from releases.engine.mechanisms.mixed_squares import Measuring, MixedSquares
from releases.engine.mechanisms.squares_by_rules import (
    OF_TABLES,
    Squares,
    SquaresByRules,
    places_by_rules,
    share_of_beta,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Count, Marginal, Prefix, Workload, unweighted

#: Synthetic rows are made of noisy answers where fitting takes less than about half a minute.
_MAX_FITTED_CELLS = 10_000_000
#: No measurement counts as more than so much surer than another: beyond, the fit stops before it has used the less sure
#: ones (measured: off by 14,000 rows of 200,000 where they are within 1), and the surest is met as well without it.
_MAX_APART = 1e4
#: To make the table of a sampler: measured, 0.05 at the most.
_SECONDS_A_LAW = 0.05
#: The bound of weighted answers: all are allowed as many of their own scales.
_WEIGHTED_FORMULA = (
    r"\alpha_w = \lfloor u / w \rfloor,\quad"
    r" u = \min\left\{u : \prod_w \Pr[|X_w| \le u / w]^{k_w} \ge 1 - \beta\right\}"
)
#: The bound where each of t tables has an equal part of beta.
_TABLES_FORMULA = r"\alpha_T = \min\left\{m : \Pr[|X_T| \le m]^{k_T} \ge 1 - \tfrac{\beta}{t}\right\}"
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
ASKED, LARGER = "asked", "larger"
MEASURED = Option(
    name="measured",
    help="Which tables get noise: “asked” for those asked for, or “larger” for fewer, larger ones, from which those "
    "asked for are put together so that they agree. Left to the mechanism, as “agree” is, it is what makes the proved "
    "bound narrower.",
    choices=(ASKED, LARGER),
    before=ASKED,
)
#: Of more tables the mechanism does not try which bound is narrower: of so many that takes a fifth of a second.
_MOST_TRIED = 100
AGREEING_BY_RULES = "made to agree with those that count the same rows, 0 where they are below 0: the bound is theirs"
OWN_NOISE = "with the noise they got, 0 where that is below 0: the bound is theirs"
AGREEING = "made to agree with one another, 0 where they are below 0: the bound is theirs"
AGREEING_LARGER = "put together from fewer, larger tables, 0 where they are below 0: the bound is theirs"
AGREEING_LEVELS = "made to agree with one another and over levels, 0 where they are below 0: the bound is theirs"
_NOT_TABLES = (
    "Only whole tables, running totals and counts that share columns, and not too many, can be made to agree. "
    "Choose no there."
)
_DIFFERENT_ROWS = (
    "No two of these tables that overlap count the same rows, so they cannot be made to agree. Choose that they count "
    "the same rows."
)
_ROWS_OF_DIFFERENT = (
    "No synthetic rows can be made of tables that each count rows of their own. Leave their number empty, or choose "
    "that the tables count the same rows."
)
_NO_LARGER = (
    "No larger tables are known that would do better, or answers are not to agree. Choose “asked” for the tables that "
    "get noise."
)
#: What a plan says of tables that count rows of their own.
COUNTED_BY_OWN = "in each table those that its own columns keep; totals may differ, and no synthetic rows are made"
_LITTLE_NOISE = "With so little noise the bound of answers that agree is not proved. Choose no there."
#: How the answers of a release are made to agree.
Agreement: TypeAlias = Squares | SquaresByRules
#: Weights whose noise is said one by one; of more, the least and the greatest.
_MAX_SAID = 6


def plan_noisy_queries(
    request: PlanRequest,
    noise: Noise,
    *,
    formula: str,
    source: str,
    half_widths: tuple[float, ...] = (),
    measuring: tuple[Measuring | None, ...] = (),
    kind: type[NoisyQueriesPlan] | None = None,
) -> Plan:
    """The plan of noise on each answer, or on what answers are made of.

    Args:
        noise: on an answer of weight 1, calibrated to the weighted sensitivity of the workload.
        formula: of the bound: where noise is on each answer, that of equal weights.
        half_widths: where noise is not on each answer.
        measuring: what noise is on in each family, where it is not its answers.
        kind: of plan.
    """
    workload, beta = request.counts_asked, float(request.beta)
    parts = described_parts(workload)
    answers, weights = workload.size, workload.weights
    if workload.is_weighted:
        counts: Counter[int] = Counter()
        for family, weight in zip(workload.families, weights, strict=True):
            counts[weight] += family.cells(workload.universe)
        widths = noise.largest_weighted(counts, beta=beta)
    else:
        widths = {1: noise.largest(count=answers, beta=beta)}
    if not half_widths and of_each_table(request.options):
        half_widths = _of_tables(workload, noise, beta=beta)
        formula = _TABLES_FORMULA
    elif not half_widths:
        half_widths = tuple(widths[weight] for weight in weights)
        formula = _WEIGHTED_FORMULA if workload.is_weighted else formula
    variances = tuple(noise.of_weight(weight).variance for weight in weights)
    agreed = (
        narrower_by_rules(request, noise, half_widths)
        if workload.universe.own_rows
        else narrower(request, noise.law, variances, half_widths, measuring=measuring)
    )
    if isinstance(agreed, Plan):
        return agreed
    together, half_widths = agreed
    if together is not None:
        formula, source = said_of(together)
        if of_each_table(request.options):
            formula = _of_tables_formula(formula)
    return (kind or NoisyQueriesPlan)(
        **request.inputs(),
        noise=noise,
        together=together,
        events=(noise.weighted_event if workload.is_weighted else noise.event,),
        parameters={
            **(_weighted_parameters(noise, weights) if workload.is_weighted else noise.parameters),
            "answers": answers_in_words(together),
            **({"rows counted": COUNTED_BY_OWN} if workload.universe.own_rows else {}),
            **({"synthetic rows": "fitted to the answers; no bound is proved for them"} if parts else {}),
            **noise.beside(request.budget),
        },
        bound=Bound(
            beta=request.beta,
            half_widths=half_widths,
            proof=Proof.BEFORE,
            formula=formula,
            source=source,
        ),
        work=_work(answers, parts, laws=len(widths), together=together),
    )


def _of_tables_formula(formula: str) -> str:
    """The formula of a bound, where each table has an equal part of beta."""
    return OF_TABLES.get(formula, formula.replace(r"\tfrac{\beta}{k}", r"\tfrac{\beta}{t\,k_T}"))


def of_each_table(options: Mapping[str, Any]) -> bool:
    """Whether each table has an equal part of the probability that the bound fails."""
    return bool(options.get(CONFIDENCE.name) == TABLES)


def _of_tables(workload: Workload, noise: Noise, *, beta: float) -> tuple[float, ...]:
    """What the noise on a family of answers exceeds with probability at most beta / t, of each of t families."""
    share = beta / len(workload.families)
    sizes = [family.cells(workload.universe) for family in workload.families]
    of_alike = {
        (weight, size): noise.of_weight(weight).largest(count=size, beta=share)
        for weight, size in set(zip(workload.weights, sizes, strict=True))
    }
    return tuple(of_alike[each] for each in zip(workload.weights, sizes, strict=True))


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
    if wanted == "no" or (wanted is None and len(workload.families) > _MOST_TRIED):
        return None, half_widths
    if wanted == "yes":
        # Left to the mechanism, noise on each answer is put together for tables alone, as in plans that are stored.
        measuring = measuring or (None,) * len(variances)
    together, reason = _agreement(workload, law, variances, measuring)
    if together is None:
        return (None, half_widths) if wanted is None else infeasible(request, reason)
    each_table = of_each_table(request.options)
    found = together.half_widths(beta=float(request.beta), of_each_table=each_table)
    is_narrower = _is_narrower(found, half_widths, workload.weights, each_table=each_table)
    return (together, found) if wanted == "yes" or is_narrower else (None, half_widths)


def _largest(widths: Sequence[float], weights: Sequence[int]) -> float:
    return max(weight * width for weight, width in zip(weights, widths, strict=True))


def _is_narrower(
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
    if wanted == "no" or (wanted is None and len(workload.families) > _MOST_TRIED):
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
        squares = _agreement(group, noise.law, variances, (None,) * len(places))[0] if len(places) > 1 else None
        if squares is not None:
            agreed = squares.half_widths(beta=beta, of_each_table=each_table)
            if wanted == "yes" or _is_narrower(agreed, widths, weights, each_table=each_table):
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
        return AGREEING_BY_RULES
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
    }
    return known.get(parameters.get("answers", ""), Consistency.OWN_NOISE)


def _weighted_parameters(noise: Noise, weights: Sequence[int]) -> dict[str, str]:
    """The noise of each weight, where these differ. Sensitivities are of the answers times their weights."""
    different = sorted(set(weights))
    said = different if len(different) <= _MAX_SAID else [different[0], different[-1]]
    laws = [(weight, noise.of_weight(weight).parameters) for weight in said]
    parameters = {}
    for name, value in laws[0][1].items():
        values = {weight: parts[name] for weight, parts in laws}
        if len(set(values.values())) == 1:
            parameters[f"weighted {name}" if "sensitivity" in name else name] = value
        else:
            parameters[name] = "; ".join(f"{each} at importance {weight:,}" for weight, each in values.items())
    return parameters


def described_parts(workload: Workload) -> tuple[ConnectedAttributes, ...]:
    """The parts that marginals and prefixes describe, small enough to be fitted, those joined that share a hierarchy;
    none where one is too large, or where tables count rows of their own."""
    if workload.universe.own_rows:
        return ()
    tables = tuple(family for family in workload.families if not isinstance(family, Count))
    if not tables:
        return ()
    parts = connected_parts(Workload(universe=workload.universe, families=tables))
    if max(part.universe.size for part in parts) > _MAX_FITTED_CELLS:
        return ()
    return joined_by_levels(workload.universe, parts)


def _work(answers: int, parts: Sequence[ConnectedAttributes], *, laws: int, together: Agreement | None) -> Work:
    cells = sum(part.cells for part in parts)
    seconds, held = (0.0, 0) if together is None else (together.seconds, together.bytes)
    return Work(
        cells=max(answers, cells),
        seconds=0.2 + answers * 4e-7 + (laws - 1) * _SECONDS_A_LAW + seconds + fit_seconds(parts),
        bytes=answers * 24 + held + sum(map(fit_bytes, parts)),
    )


@dataclass(frozen=True, kw_only=True)
class AnswersPlan(Plan):
    """A plan of answers with noise, to which a distribution is fitted afterwards."""

    @property
    @abstractmethod
    def answer_variances(self) -> Sequence[float]:
        """The largest variance of an answer of each family."""

    @abstractmethod
    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        """The answers alone, with their noise."""

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        """All that noise is added to, with its noise: the answers, or what they are made of."""
        return self.noisy_answers(counts, rng)

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        """The noisy answers made of it."""
        return measured

    def released(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        """What a run releases of it."""
        return self.answered(measured)

    def fitted_to(
        self, measured: tuple[NDArray[np.float64], ...]
    ) -> tuple[Workload, tuple[NDArray[np.float64], ...], Sequence[float]]:
        """The questions whose noisy answers synthetic rows are made of, these answers, and the variance of each."""
        return self.counts_asked, self.answered(measured), self.answer_variances

    @property
    def makes_synthetic_rows(self) -> bool:
        return super().makes_synthetic_rows and bool(described_parts(self.counts_asked))

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table and adding noise", 0.0)
        measured = self.measured(counts, rng)
        assert self.bound is not None
        reported = within(progress, "Fitting synthetic rows", 0.4, 0.95)
        rows = self.public_rows(counts)
        total, fitted = described(*self.fitted_to(measured), reported, rows=rows, population=self.schema.population)
        notes: dict[str, Any] = {}
        released = self.released(measured)
        if self.schema.universe.own_rows and (totals := self._totals(released)):
            total, notes = max(totals), {ROWS_OF_TABLES: [min(totals), max(totals)]}
        return Result(estimates=released, bound=self.bound, total=total, distribution=fitted, notes=notes)

    def _totals(self, released: Sequence[NDArray[np.float64]]) -> list[float]:
        """How many rows each table, or running total, says that it counts, by what is released of it alone."""
        pairs = list(zip(self.counts_asked.families, released, strict=True))
        return [
            max(0.0, float(round(answers[-1] if isinstance(family, Prefix) else answers.sum())))
            for family, answers in pairs
            if not isinstance(family, Count)
        ]


@dataclass(frozen=True, kw_only=True)
class NoisyQueriesPlan(AnswersPlan):
    """Independent noise on every answer.

    Attributes:
        noise: on an answer of weight 1.
        together: how the noisy answers are made to agree; None where they are released as they are.
    """

    noise: Noise
    together: Agreement | None = None

    def released(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return self.answered(measured) if self.together is None else self.together.combined(measured)

    @property
    def answer_variances(self) -> Sequence[float]:
        return [self.noise.of_weight(weight).variance for weight in self.counts_asked.weights]

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        exact = np.concatenate(exact_answers(self.counts_asked, counts))
        noisy = self.counts_asked.split(exact + self._drawn(exact.size, rng))
        return tuple(each.astype(np.float64) for each in noisy)

    def _drawn(self, answers: int, rng: Randomness) -> NDArray[np.int64]:
        """Noise on all answers; those of one weight are drawn together, for a sampler's table is made for each law."""
        workload = self.counts_asked
        if not workload.is_weighted:
            return self.noise.draw(answers, rng)
        cells = [family.cells(workload.universe) for family in workload.families]
        weight_of = np.repeat(np.array(workload.weights, dtype=np.int16), cells)
        drawn = np.empty(answers, dtype=np.int64)
        for weight in sorted(set(workload.weights)):
            places = np.flatnonzero(weight_of == weight)
            drawn[places] = self.noise.of_weight(weight).draw(places.size, rng)
        return drawn


@dataclass(frozen=True, kw_only=True)
class LargerTablesPlan(AnswersPlan):
    """Independent noise on tables that contain those asked for.

    Attributes:
        noise: on each cell.
        together: how the answers are put together.
    """

    noise: Noise
    together: LeastSquares

    @property
    def answer_variances(self) -> Sequence[float]:
        return self.together.answer_variances

    def measured_tables(self, result: Result) -> Sequence[tuple[str, ...]]:
        return self.together.tables.marginals

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        tables = self.together.tables
        exact = np.concatenate(exact_answers(tables, counts))
        return tuple(each.astype(np.float64) for each in tables.split(exact + self.noise.draw(exact.size, rng)))

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return self.together.combined(measured)

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return self.answered(self.measured(counts, rng))

    def fitted_to(
        self, measured: tuple[NDArray[np.float64], ...]
    ) -> tuple[Workload, tuple[NDArray[np.float64], ...], Sequence[float]]:
        return self.together.tables, measured, self.together.variances


def described(
    workload: Workload,
    estimates: Sequence[NDArray[np.float64]],
    variances: Sequence[float],
    progress: Callable[[float], None],
    *,
    rows: int | None,
    population: Population,
) -> tuple[float, Distribution | None]:
    """The number of rows, and the distribution fitted to noisy tables.

    A prefix is the table of its steps, with the noise of two answers in each.

    Args:
        estimates: of each family.
        variances: of an answer of each family.
        rows: how many there are where that is public; None for what the noisy tables add up to.
        population: of all tables.
    """
    parts = described_parts(workload)
    if not parts:
        return 1.0 if rows is None else float(rows), None
    measured: list[list[NoisyMarginal]] = [[] for _ in parts]
    least = max(variances) / _MAX_APART
    for family, variance, estimate in zip(workload.families, variances, estimates, strict=True):
        if isinstance(family, Count):
            continue
        position = next(i for i, part in enumerate(parts) if family.attributes in part.asked)
        shape = tuple(workload.universe[name].size for name in family.attributes)
        is_prefix = isinstance(family, Prefix)
        measured[position].append(
            NoisyMarginal(
                axes=parts[position].universe.axes(family.attributes),
                table=np.diff(estimate, prepend=0.0) if is_prefix else estimate.reshape(shape),
                variance=max(variance, least) * (2 if is_prefix else 1),
                population=population,
            )
        )
    said = None if rows is None else float(rows)
    total = measured_rows([each for tables in measured for each in tables], said, None)
    weights = fit_parts(parts, measured, total, progress)
    return float(round(total)), distribution(parts, weights)


class _QueriesMechanism(Mechanism):
    """Noise of one law on every answer.

    Attributes:
        law: of the noise.
        formula: of the bound where all weights are equal, in LaTeX.
    """

    law: ClassVar[NoiseLaw]
    formula: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = (ROWS, TOGETHER, OWN_ROWS, CONFIDENCE)
    uses_weights = True
    counts_apart = True
    consistency = Consistency.OWN_NOISE

    def consistency_under(self, parameters: Mapping[str, str]) -> Consistency | None:
        return consistency_of(parameters)

    def leaves_own_rows(self, options: Mapping[str, Any]) -> bool:
        """Unless what was chosen puts tables together: a table loses no rows for the rule of another one's column."""
        return options[TOGETHER.name] != "yes" and options[ROWS.name] is None

    def options_before(self, schema: Schema, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Tables that count rows of their own did not agree where nobody chose it."""
        is_left = schema.universe.own_rows and options.get(TOGETHER.name) is None
        return {**options, TOGETHER.name: "no"} if is_left else options

    def _plan(self, request: PlanRequest) -> Plan:
        if request.schema.universe.own_rows and request.options[ROWS.name] is not None:
            return infeasible(request, _ROWS_OF_DIFFERENT)
        if self.law.needs_delta and isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        noise = self.law.within(request.budget, request.counts_asked.weighted_sensitivity(request.schema))
        return plan_noisy_queries(request, noise, formula=self.formula, source=self.source)


@register
class LaplaceQueries(_QueriesMechanism):
    name = "laplace-queries"
    title = "Laplace noise on each answer"
    summary = "Adds independent noise to every count asked for; best when the questions are few."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Theorems 3.6 and 3.8"
    law = LaplaceNoise
    formula = (
        r"\alpha = \min\left\{m : \Pr[|X| \le m]^k \ge 1 - \beta\right\}"
        r" \le \frac{\Delta_1}{\varepsilon} \ln\frac{k}{\beta}"
    )
    options = (*_QueriesMechanism.options, MEASURED)

    def _plan(self, request: PlanRequest) -> Plan:
        plan, wanted = super()._plan(request), request.options[MEASURED.name]
        agree = request.options[TOGETHER.name]
        is_left = wanted is None and agree is None
        if plan.infeasible or not (wanted == LARGER or is_left):
            return plan
        workload = request.counts_asked
        tables = larger_tables(workload) if len(workload.families) <= _MOST_TRIED and agree != "no" else None
        if tables is None:
            return plan if is_left else infeasible(request, _NO_LARGER)
        larger = _plan_of_larger(request, tables)
        assert plan.bound is not None
        assert larger.bound is not None
        widths, each_table = plan.bound.half_widths, of_each_table(request.options)
        is_narrower = _is_narrower(larger.bound.half_widths, widths, workload.weights, each_table=each_table)
        return larger if wanted == LARGER or is_narrower else plan


def _plan_of_larger(request: PlanRequest, tables: Workload) -> LargerTablesPlan:
    """The plan of noise on larger tables, those of `larger_tables`."""
    workload = replace(request.counts_asked, families=tuple(map(unweighted, request.counts_asked.families)))
    noise = LaplaceNoise.within(request.budget, tables.sensitivity(request.schema))
    together = LeastSquares(
        workload=workload, measured=tables, law=noise.law, variances=(noise.variance,) * len(tables.families)
    )
    parts, each_table = described_parts(tables), of_each_table(request.options)
    formula, source = said_of(together)
    return LargerTablesPlan(
        **request.inputs(),
        noise=noise,
        together=together,
        events=(noise.event,),
        parameters={
            **noise.parameters,
            "answers": answers_in_words(together),
            "tables with noise": f"{len(tables.families):,}, of {tables.size:,} cells together",
            **({"synthetic rows": "fitted to these tables; no bound is proved for them"} if parts else {}),
            **noise.beside(request.budget),
        },
        bound=Bound(
            beta=request.beta,
            half_widths=together.half_widths(beta=float(request.beta), of_each_table=each_table),
            proof=Proof.BEFORE,
            formula=_of_tables_formula(formula) if each_table else formula,
            source=source,
        ),
        work=_work(tables.size + workload.size, parts, laws=1, together=together),
    )


@register
class GaussianQueries(_QueriesMechanism):
    name = "gaussian-queries"
    title = "Gaussian noise on each answer"
    summary = "Adds independent Gaussian noise to every count asked for; best when questions are many and overlap."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 4"
    law = GaussianNoise
    formula = (
        r"\alpha = \min\left\{m : \Pr[|Z| \le m]^k \ge 1 - \beta\right\}"
        r" \le \frac{\Delta_2}{\sqrt{2\rho}} \sqrt{2 \ln\frac{k}{\beta}} + 1"
    )
