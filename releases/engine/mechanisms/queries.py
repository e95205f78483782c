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
of the answers times their weights; ρ is the largest that is (ε, δ)-DP by `discrete_gaussian_delta`, or with the option
`accounting` of "rho" by their Corollary 13. Accuracy: the exact quantile of the largest of k draws, below
σ √(2 ln(k/β)) + 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import PureDP
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise, Noise, NoiseLaw
from releases.engine.mechanisms.agreement import (
    CONFIDENCE,
    TOGETHER,
    Agreement,
    answers_in_words,
    consistency_of,
    is_narrower,
    narrower,
    narrower_by_rules,
    of_each_table,
    of_tables_formula,
    said_of,
)
from releases.engine.mechanisms.answers import (
    COUNTED_BY_OWN,
    AnswersPlan,
    described_parts,
    noise_parameters,
    plan_work,
    with_noise,
)
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    OWN_ROWS,
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    infeasible,
    register,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, noise_within
from releases.engine.mechanisms.larger_tables import ASKED, JOINED, LARGER, MEASURED, NO_LARGER, plan_of_larger
from releases.engine.mechanisms.mixed_squares import Measuring
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Workload

#: The bound of weighted answers: all are allowed as many of their own scales.
_WEIGHTED_FORMULA = (
    r"\alpha_w = \lfloor u / w \rfloor,\quad"
    r" u = \min\left\{u : \prod_w \Pr[|X_w| \le u / w]^{k_w} \ge 1 - \beta\right\}"
)
#: The bound where each of t tables has an equal part of beta.
_TABLES_FORMULA = r"\alpha_T = \min\left\{m : \Pr[|X_T| \le m]^{k_T} \ge 1 - \tfrac{\beta}{t}\right\}"
_ROWS_OF_DIFFERENT = (
    "No synthetic rows can be made of tables that each count rows of their own. Leave their number empty, or choose "
    "that the tables count the same rows."
)


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
            formula = of_tables_formula(formula)
    return (kind or NoisyQueriesPlan)(
        **request.inputs(),
        noise=noise,
        together=together,
        events=(noise.weighted_event if workload.is_weighted else noise.event,),
        parameters={
            **noise_parameters(noise, weights),
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
        work=plan_work(answers, parts, laws=len(widths), together=together),
    )


def _of_tables(workload: Workload, noise: Noise, *, beta: float) -> tuple[float, ...]:
    """What the noise on a family of answers exceeds with probability at most beta / t, of each of t families."""
    share = beta / len(workload.families)
    sizes = [family.cells(workload.universe) for family in workload.families]
    of_alike = {
        (weight, size): noise.of_weight(weight).largest(count=size, beta=share)
        for weight, size in set(zip(workload.weights, sizes, strict=True))
    }
    return tuple(of_alike[each] for each in zip(workload.weights, sizes, strict=True))


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
        return with_noise(self.counts_asked, self.noise, counts, rng)


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

    def options_before(self, schema: Schema, options: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Where nobody chose it, tables that count rows of their own, and more than 100, once did not agree."""
        if options.get(TOGETHER.name) is None:
            yield {**options, TOGETHER.name: "no"}

    def _plan(self, request: PlanRequest) -> Plan:
        if request.schema.universe.own_rows and request.options[ROWS.name] is not None:
            return infeasible(request, _ROWS_OF_DIFFERENT)
        if self.law.needs_delta and isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        moved = request.counts_asked.weighted_sensitivity(request.schema)
        noise = noise_within(self.law, request.budget, moved, request.options.get(ACCOUNTING.name))
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

    def options_before(self, schema: Schema, options: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The only larger tables were once joined ones, and of tables that count the same rows."""
        wanted = options.get(MEASURED.name)
        if options.get(TOGETHER.name) is None and wanted is None:
            yield {**options, MEASURED.name: ASKED}
        if wanted in (None, LARGER):
            yield {**options, MEASURED.name: JOINED}
        yield from super().options_before(schema, options)

    def _plan(self, request: PlanRequest) -> Plan:
        plan, wanted = super()._plan(request), request.options[MEASURED.name]
        agree = request.options[TOGETHER.name]
        is_left = wanted is None and agree is None
        if plan.infeasible or wanted == ASKED or (wanted is None and not is_left):
            return plan
        larger = None if agree == "no" else plan_of_larger(request, is_joined=wanted == JOINED)
        if larger is None:
            return plan if is_left else infeasible(request, NO_LARGER)
        assert plan.bound is not None
        assert larger.bound is not None
        found, widths, weights = larger.bound.half_widths, plan.bound.half_widths, request.counts_asked.weights
        each_table = of_each_table(request.options)
        return larger if not is_left or is_narrower(found, widths, weights, each_table=each_table) else plan


@register
class GaussianQueries(_QueriesMechanism):
    name = "gaussian-queries"
    title = "Gaussian noise on each answer"
    summary = "Adds independent Gaussian noise to every count asked for; best when questions are many and overlap."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 4"
    law = GaussianNoise
    options = (*_QueriesMechanism.options, ACCOUNTING)
    formula = (
        r"\alpha = \min\left\{m : \Pr[|Z| \le m]^k \ge 1 - \beta\right\}"
        r" \le \frac{\Delta_2}{\sqrt{2\rho}} \sqrt{2 \ln\frac{k}{\beta}} + 1"
    )
