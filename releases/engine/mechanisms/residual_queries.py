"""`residual-queries`: noise on the residuals of marginals, as much on each as serves the questions best.

Overlapping marginals repeat one another: all tables of age with something hold the table of age. With noise on each
answer all copies are paid for. Here each residual (`workload.residuals`) is measured once, and every answer is a sum of
its residuals, so answers agree with one another.

Run, for each residual A a whole number q_A, and one s²:

1.  y_A = q_A x_A + z_A on the cells of the marginal x_A, z_A independent discrete Gaussian noise of variance s².
2.  Kept of y_A is ⊗ (d_i I - J) y_A alone: the residual, times q_A and the number of cells, in whole numbers.
3.  A marginal is the sum of its residuals spread evenly, its other answers are sums of its cells.

Privacy: the whole is L(x + z) for one integer matrix L, and z discrete Gaussian on all cells of all the marginals.
Orthogonally to the kernel of L one unit moves the vector (q_A x_A) by D² = max Σ q_A² |P_A d_A|² (`Residuals.moved`),
so it is ρ-zCDP by `conversions.rho_of_projected_gaussian` with noise_variance s²/D², if eta there is small enough, and
(ε, δ)-DP by `calibration.fine_gaussian_delta`, if theta is (`is_finely_given`; option `accounting`). K is
the product over A of the integer tables without residual, K* that of the (I - P_A) y, y an integer table. Let y_i be y
summed over attribute i, an integer table of m/d_i cells, m those of A, k = |A|. E_i y has squared length |y_i|²/d_i,
and I - P_A does not shorten it, since E_i projects into the range of I - P_A: |(I - P_A) y|² >= Σ_i |y_i|²/(k d_i). And
the y_i determine (I - P_A) y. So 1 + eta <= Π_A Π_i θ_i^(m/d_i), θ_i = Σ over n of exp(-2 π² s² n²/(k d_i)). That is at
most 1 + 3 · 2^-⌊27 s²/(k d_i)⌋, as 2 π²/ln 2 > 27. `is_fine` asks that Σ_A Σ_i (m/d_i) 2^-⌊27 s²/(k d_i)⌋ <= 2^-104.

Accuracy: a discrete Gaussian draw Z of deviation s >= 2 and a normal one N, both made of one uniform number, differ by
at most 1: Pr[N >= m] <= Pr[Z >= m] <= Pr[N >= m - 1] for m >= 1 (the right by Canonne, Kamath and Steinke 2020,
Proposition 25). So all errors together are those of normal noise, to within Σ_A (the sum of the absolute factors of an
answer on the cells of A)/q_A. For k normal variables, however they depend on one another, Pr[all |N_r| <= u σ_r] is at
least Pr[|N| <= u]^k (Šidák 1967).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.calibration import is_finely_given
from releases.engine.bounds.accuracy import Bound, Proof, normal_max_quantile
from releases.engine.domain.privacy import ApproxDP, PureDP, decimal_text
from releases.engine.estimation.components import exact_answers
from releases.engine.estimation.residuals import holds, marginal_of, whole_residual
from releases.engine.mechanisms.additive_noise import GaussianNoise
from releases.engine.mechanisms.agreement import AGREEING_LEVELS, OWN_NOISE
from releases.engine.mechanisms.answers import AnswersPlan, described_parts
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Work,
    infeasible,
    register,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.mechanisms.marginal_fit.common import TOO_NOISY, fit_bytes, fit_seconds, usable_allowance
from releases.engine.mechanisms.residual_design import Answers, multipliers, variances
from releases.engine.mechanisms.residual_levels import ResidualLevels
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_gaussian
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Marginal, Workload, unweighted
from releases.engine.workload.residuals import Names, Residuals, accepted, lengths_in, subsets, variances_in

#: The least precise residual's multiplier, and the most any gets: variances are met to a part in a few hundred.
_LEAST, _MOST = 512, 1 << 22
#: The least, where all cells are so few that numbers of more than 64 bits take next to no time.
_LEAST_OF_FEW, _FEW_CELLS = 4096, 100_000
#: No more residuals are planned, and no more cells drawn.
_MAX_RESIDUALS, _MAX_CELLS = 200_000, 20_000_000
#: An answer on so many columns consists of so many residuals.
_MAX_COLUMNS = 10
#: eta of the proof is at most 3 · 2^-104, rounded up to 2^-102.
_FINE_BITS = 104
#: How often multipliers are doubled so that no half width gets wider, and what is held for equal in doubles.
_MOST_DOUBLINGS, _ROUNDED = 6, 1 + 1e-8
LEVELS = Option(
    name="agree",
    help="Whether tables over a column add up to those over its levels, where there are any. It costs nothing, and no "
    "answer is less precise.",
    choices=("no", "yes"),
    default="yes",
    before="no",
)
_TOO_MANY = "It measures every combination of the columns in a question, and there are too many here. Ask about fewer."


@register
class ResidualQueries(Mechanism):
    name = "residual-queries"
    joins_all_columns = False
    title = "Gaussian noise on what tables have in common"
    summary = (
        "Measures what overlapping tables share once and not in each, as precisely as the questions need it; best for "
        "many tables of the same columns."
    )
    source = (
        "Xiao, He, Zhang and Kifer, An Optimal and Scalable Matrix Mechanism for Noisy Marginals (2023); on a lattice "
        "by the proof of Canonne, Kamath and Steinke (2020), Theorem 4"
    )
    options = (
        ROWS,
        Option(
            name="least",
            help="What to make as small as possible over all answers: the largest error, or the total of the squares.",
            choices=("largest error", "total error"),
            default="largest error",
        ),
        LEVELS,
        ACCOUNTING,
    )
    uses_weights = True
    consistency = Consistency.NOISY_CELLS

    def _plan(self, request: PlanRequest) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        allowance = usable_allowance(request, spent_on=Allowance.of_fine_noise)
        if isinstance(allowance, Plan):
            return allowance
        workload, schema = request.counts_asked, request.schema
        if max(len(family.attributes) for family in workload.families) > _MAX_COLUMNS:
            return infeasible(request, _TOO_MANY)
        if sum(1 << len(names) for names in workload.marginals) > 8 * _MAX_RESIDUALS:
            return infeasible(request, _TOO_MANY)
        residuals = Residuals.of(schema.universe, workload.marginals)
        if len(residuals.sets) > _MAX_RESIDUALS or sum(residuals.cells) > _MAX_CELLS:
            return infeasible(request, _TOO_MANY)
        is_finer = allowance.is_one_event and sum(residuals.cells) <= _FEW_CELLS
        design = designed(request, residuals, least=_LEAST_OF_FEW if is_finer else _LEAST)
        moved = residuals.moved(design, schema)
        variance = lattice_variance(moved, allowance)
        while not is_fine(residuals, variance, is_exact=allowance.is_one_event):
            design, variance = _finer(design, residuals, request, allowance)
        if variance >= LARGEST_SCALE**2:
            return infeasible(request, TOO_NOISY)
        return self._planned(request, residuals, design, variance, allowance)

    def consistency_under(self, parameters: Mapping[str, str]) -> Consistency | None:
        agree = parameters.get("answers") == AGREEING_LEVELS
        return Consistency.LEVELS_MADE_TO_AGREE if agree else self.consistency

    def _planned(
        self,
        request: PlanRequest,
        residuals: Residuals,
        design: tuple[int, ...],
        variance: int,
        allowance: Allowance,
    ) -> Plan:
        workload = request.counts_asked
        quantile = normal_max_quantile(count=workload.size, beta=float(request.beta))
        spreads = answer_variances(workload, residuals, design, variance)
        half_widths = tuple(
            quantile * sqrt(spread) + extra
            for spread, extra in zip(spreads, lattice_slack(workload, residuals, design), strict=True)
        )
        levels = None
        if request.options[LEVELS.name] == "yes":
            levels, design, variance = _over_levels(
                request, residuals, design, variance, half_widths, quantile, allowance
            )
        if levels is not None:
            half_widths, spreads = levels.half_widths(quantile), levels.variances
        parts = described_parts(workload)
        cells = sum(residuals.cells)
        largest, least = sqrt(max(spreads)), sqrt(min(spreads))
        assert isinstance(request.budget, ApproxDP)
        return ResidualQueriesPlan(
            **request.inputs(),
            residuals=residuals,
            multipliers=design,
            lattice_variance=variance,
            variances=spreads,
            levels=levels,
            events=(allowance.fine_event,),
            parameters={
                "standard deviation of an answer": f"{largest:.4g}"
                if largest == least
                else f"{least:.4g} to {largest:.4g}, by table",
                "measured": f"{len(residuals.sets):,} residuals, {cells:,} numbers",
                "rho": decimal_text(allowance.amount),
                "answers": OWN_NOISE if levels is None else AGREEING_LEVELS,
                **({"synthetic rows": "fitted to the answers; no bound is proved for them"} if parts else {}),
                **GaussianNoise(rho=allowance.amount, l2_sensitivity_squared=1).beside(request.budget),
            },
            bound=Bound(
                beta=request.beta,
                half_widths=half_widths,
                proof=Proof.BEFORE,
                formula=_FORMULA if levels is None else _FORMULA_OF_LEVELS,
                source=self.source,
            ),
            work=Work(
                cells=cells,
                seconds=0.3
                + cells * 6e-7
                + len(residuals.sets) * 2e-4
                + fit_seconds(parts)
                + (0 if levels is None else levels.seconds),
                bytes=cells * 48 + sum(map(fit_bytes, parts)) + (0 if levels is None else levels.bytes),
            ),
        )


_FORMULA = (
    r"\alpha = u\,\sigma,\quad \Pr[|N| \le u]^k = 1 - \beta,\quad"
    r" \sigma^2 = \sum_{A \subseteq C} \sigma_A^2 \prod_{i \in A} \left(1 - \tfrac{1}{d_i}\right)"
    r" \prod_{i \in C \setminus A} \tfrac{1}{d_i^2}"
)
_FORMULA_OF_LEVELS = (
    r"\alpha = u\,\sigma,\quad \Pr[|N| \le u]^k = 1 - \beta,\quad"
    r" \sigma^2 = \sum_{U \subseteq S} \tfrac{|U|^2}{|S|^2} \left(G M_U^{-} G^{\top}\right)_{hh}"
    r" \prod_{i \in U} \left(1 - \tfrac{1}{d_i}\right)"
)


@dataclass(frozen=True, kw_only=True)
class ResidualQueriesPlan(AnswersPlan):
    """See the head of this file.

    Attributes:
        residuals: what is measured.
        multipliers: q_A of each; 0 for one that is public.
        lattice_variance: s².
        variances: the largest of an answer of each family.
        levels: how the residuals are put together where levels add up; None where they are not.
    """

    residuals: Residuals
    multipliers: tuple[int, ...]
    lattice_variance: int
    variances: tuple[float, ...]
    levels: ResidualLevels | None = None

    @property
    def answer_variances(self) -> Sequence[float]:
        return self.variances

    def noisy_answers(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return self.answered(self.measured(counts, rng))

    def measured(self, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
        return tuple(self._measured(self._exact(counts), rng).values())

    def answered(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        return self._answers(dict(zip(self.residuals.sets, measured, strict=True)))

    def released(self, measured: tuple[NDArray[np.float64], ...]) -> tuple[NDArray[np.float64], ...]:
        if self.levels is None:
            return self.answered(measured)
        return self.levels.combined(dict(zip(self.residuals.sets, measured, strict=True)))

    def _answers(self, found: dict[Names, NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
        answers = self.counts_asked.answer(lambda names: marginal_of(self.residuals, names, found))
        return tuple(np.asarray(each, dtype=np.float64) for each in answers)

    def _exact(self, counts: Counts) -> dict[Names, NDArray[np.int64]]:
        """The exact marginal over the attributes of each residual; those inside another are summed from it."""
        universe, sets = self.residuals.universe, self.residuals.sets
        inside = {part for names in sets for part in subsets(names) if part != names and len(part) == len(names) - 1}
        outer = [names for names in sets if names and names not in inside]
        found: dict[Names, NDArray[np.int64]] = {}
        if outer:
            asked = Workload(universe=universe, families=tuple(Marginal(attributes=names) for names in outer))
            tables = exact_answers(asked, counts)
            found = {n: table.reshape(self.residuals.shape(n)) for n, table in zip(outer, tables, strict=True)}
        else:
            only = universe.names[:1]
            found = {(): np.asarray(counts.marginal(only)).sum().reshape(())}
        for names in reversed(sets):
            for gone in range(len(names)):
                less = names[:gone] + names[gone + 1 :]
                if less not in found:
                    found[less] = found[names].sum(axis=gone)
        return found

    def _measured(self, exact: dict[Names, NDArray[np.int64]], rng: Randomness) -> dict[Names, NDArray[np.float64]]:
        """The residuals, with noise."""
        cells = self.residuals.cells
        noise = discrete_gaussian(variance=Fraction(self.lattice_variance), size=sum(cells), rng=rng)
        ends = np.cumsum(cells)[:-1]
        deviation = sqrt(self.lattice_variance)
        found: dict[Names, NDArray[np.float64]] = {}
        for names, multiplier, drawn in zip(self.residuals.sets, self.multipliers, np.split(noise, ends), strict=True):
            shape = self.residuals.shape(names)
            if not names and self.schema.total_is_public:
                found[names] = exact[names].astype(np.float64)
                continue
            kind = np.int64 if holds(shape, multiplier=multiplier, deviation=deviation) else object
            noisy = multiplier * exact[names].astype(kind) + drawn.reshape(shape).astype(kind)
            found[names] = np.asarray(whole_residual(noisy) / (multiplier * max(1, noisy.size)), dtype=np.float64)
        return found


def designed(request: PlanRequest, residuals: Residuals, *, least: int) -> tuple[int, ...]:
    """The multiplier of each residual, `least` of the least precise; 0 for the number of rows where that is public."""
    answers = Answers.of(request.counts_asked, residuals)
    costs = residuals.most_moved(request.schema)
    wanted = variances(answers, costs, is_largest=request.options["least"] == "largest error")
    return multipliers(wanted.tolist(), least=least, most=_MOST)


def _finer(
    design: Sequence[int], residuals: Residuals, request: PlanRequest, allowance: Allowance
) -> tuple[tuple[int, ...], int]:
    """Twice as large multipliers, and s² for these: variances stay as they are, and whole noise is nearer to normal."""
    finer = tuple(2 * each for each in design)
    return finer, lattice_variance(residuals.moved(finer, request.schema), allowance)


def _over_levels(
    request: PlanRequest,
    residuals: Residuals,
    design: tuple[int, ...],
    variance: int,
    half_widths: Sequence[float],
    quantile: float,
    allowance: Allowance,
) -> tuple[ResidualLevels | None, tuple[int, ...], int]:
    """How answers are made to add up over levels, the multipliers and s² for that; None, and those given, where they
    cannot be, or where no finer lattice keeps every half width as narrow as it is without."""
    finer, finer_variance = design, variance
    for _ in range(_MOST_DOUBLINGS + 1):
        levels = ResidualLevels(
            workload=replace(request.counts_asked, families=tuple(map(unweighted, request.counts_asked.families))),
            measured=residuals,
            multipliers=finer,
            lattice_variance=finer_variance,
        )
        if not levels.can_combine or finer_variance >= LARGEST_SCALE**2:
            break
        found = levels.half_widths(quantile)
        if all(own <= given * _ROUNDED for own, given in zip(found, half_widths, strict=True)):
            return levels, finer, finer_variance
        finer, finer_variance = _finer(finer, residuals, request, allowance)
    return None, design, variance


def lattice_variance(moved: Fraction, allowance: Allowance) -> int:
    """s² that costs no more than this, rounded up to a whole number."""
    return ceil(moved * allowance.fine_variance)


def is_fine(residuals: Residuals, variance: int, *, is_exact: bool = False) -> bool:
    """Whether eta, as at the head of this file, is at most 2^-102, and theta too, where that is asked (`is_exact`)."""
    if variance < 4 or (is_exact and not is_finely_given(variance, coordinates=sum(residuals.cells))):
        return False
    places = 4 * _FINE_BITS
    total = 0
    for names, cells in zip(residuals.sets, residuals.cells, strict=True):
        for size in residuals.shape(names):
            bits = 27 * variance // (len(names) * size)
            # Terms too small to matter are counted as if they were larger.
            total += (cells // size) << (places - min(bits, places))
    return total <= 1 << (places - _FINE_BITS)


def answer_variances(
    workload: Workload, residuals: Residuals, design: Sequence[int], variance: int
) -> tuple[float, ...]:
    """The largest variance of an answer of each family."""
    universe = residuals.universe
    found = []
    for family in workload.families:
        bins = accepted(family, universe)
        own = np.zeros(len(bins))
        for place, part in residuals.parts(family.attributes):
            if design[place]:
                own += variances_in(bins, family.attributes, part, universe) * (variance / design[place] ** 2)
        found.append(float(own.max()))
    return tuple(found)


def lattice_slack(workload: Workload, residuals: Residuals, design: Sequence[int]) -> tuple[float, ...]:
    """How far an answer of each family can be from that of normal noise."""
    universe = residuals.universe
    found = []
    for family in workload.families:
        bins = accepted(family, universe)
        own = np.zeros(len(bins))
        for place, part in residuals.parts(family.attributes):
            if design[place]:
                own += lengths_in(bins, family.attributes, part, universe) / design[place]
        found.append(float(own.max()))
    return tuple(found)
