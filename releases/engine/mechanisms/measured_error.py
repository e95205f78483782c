"""The largest error of what a release has published, measured with noise afterwards: a certificate that can be bought.

Let r be what the release gives for each query of its workload, public by now, and a the exact answers. The largest
error L = max |r_q - a_q|, rounded up to whole rows, moves by at most g for one privacy unit of g rows, under either
relation: each a_q does (coefficients are 0 or 1), and a maximum, and rounding up, keep it so. L + X is released:
discrete Laplace noise of scale g / ε (Dwork and Roth 2014, Theorem 3.6) for a pure budget, else discrete Gaussian noise
of variance g² / (2 ρ) (Canonne, Kamath and Steinke 2020, Theorem 4). Then, t being the least number with
Pr[X < -t] <= β, and M = max(0, L + X), because no error is below 0,

    L <= M + t   and   M + t <= L + 2 t,   each with probability 1 - β.

The first is what is certified, the second what the noise can add to it, known before anything is spent. It holds
however r was made, of the same table too, because r is fixed before X is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.errors import InvalidInput
from releases.engine.estimation.components import exact_answers
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Plan, Progress, Request, Work, register
from releases.engine.mechanisms.error_certificate import SOURCE, Certificate
from releases.engine.mechanisms.marginal_fit.common import refused_noise, usable_allowance
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.largest_error import HUNDREDTHS, RELEASED_ANSWERS, Hundredths, LargestError
from releases.engine.workload.questions import Inquiry

_FORMULA = r"\alpha = \max\{0, L + X\} + \min\left\{t : \Pr[X < -t] \le \beta\right\}"
_ADDED = r"\alpha \le L + 2 \min\left\{t : \Pr[X < -t] \le \beta\right\}"


@register
class MeasuredError(Mechanism):
    name = "measured-error"
    title = "Noise on the largest error"
    summary = "Measures how far published counts are from the truth, at worst, and adds noise to that one number."
    source = SOURCE
    options = ()
    answers = (LargestError,)
    is_offered = False

    def _plan(self, request: Request) -> Plan:
        statistic = request.statistic
        assert isinstance(statistic, LargestError)
        allowance = usable_allowance(request)
        if isinstance(allowance, Plan):
            return allowance
        certificate = Certificate.of(allowance, schema=request.schema, beta=request.beta)
        if (refusal := refused_noise(request, [certificate.noise])) is not None:
            return refusal
        # Rounding up adds less than a row; the counts of synthetic rows are whole, and need none.
        rounded = any(each.what == RELEASED_ANSWERS for each in statistic.released)
        added = 2 * ceil(certificate.tail) + rounded
        within = request.schema.counted.text(added)
        size = statistic.workload.size
        return MeasuredErrorPlan(
            **request.inputs(),
            certificate=certificate,
            given=statistic.written_out(),
            events=(certificate.noise.event,),
            parameters={
                **certificate.noise.parameters,
                "counts certified": f"{size:,}",
                "noise can add at most": within,
            },
            expectation=Bound(
                beta=request.beta,
                half_widths=(float(added),),
                proof=Proof.BEFORE,
                formula=_ADDED,
                source=SOURCE,
                says=f"the bound that will be certified is at most {within} above {statistic.in_words}.",
            ),
            work=Work(cells=size, seconds=0.3 + size * 1e-6, bytes=size * 24 * len(statistic.released)),
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredErrorPlan(Plan):
    """One number.

    Attributes:
        certificate: how it is measured.
        given: what is certified, by its name; that of files is given after planning, by `with_published`.
    """

    certificate: Certificate
    given: Mapping[str, Hundredths] = field(default_factory=dict, compare=False, repr=False)

    @property
    def statistic(self) -> LargestError:
        assert isinstance(self.workload, Inquiry)
        assert isinstance(self.workload.statistic, LargestError)
        return self.workload.statistic

    def with_published(self, what: str, numbers: Sequence[NDArray[np.float64]]) -> MeasuredErrorPlan:
        """The same plan with the numbers of a file whose SHA-256 the caller has found to be the plan's.

        Args:
            what: is certified, the synthetic rows or the released answers.
            numbers: for each family of the workload, in rows, with at most two decimals.

        Raises:
            InvalidInput: the plan certifies no such file, or the numbers are not those of its workload.
        """
        if what not in {each.what for each in self.statistic.released if each.sha256}:
            raise InvalidInput("what", what, "must be a file that the plan certifies")
        return replace(self, given={**self.given, what: self.statistic.in_hundredths(numbers, what=what)})

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        for each in self.statistic.released:
            if each.what not in self.given:
                raise InvalidInput(each.what, "nothing", "must be given before the table is looked at")
        progress("Counting the table", 0.0)
        exact = [HUNDREDTHS * each for each in exact_answers(self.statistic.workload, counts)]
        progress("Adding noise", 0.8)
        worst = max(
            int(np.abs(one - other).max(initial=0))
            for each in self.statistic.released
            for one, other in zip(self.given[each.what], exact, strict=True)
        )
        measured = max(0, self.certificate.measured(-(-worst // HUNDREDTHS), rng))
        most = measured + ceil(self.certificate.tail)
        bound = Bound(
            beta=self.beta,
            half_widths=(float(ceil(self.certificate.tail)),),
            proof=Proof.AFTER,
            formula=_FORMULA,
            source=SOURCE,
            says=f"{self.statistic.in_words} is at most {self.schema.counted.text(most)}.",
            is_one_sided=True,
        )
        return Result(
            estimates=(np.array([measured], dtype=np.float64),),
            bound=bound,
            total=0.0,
            notes={"measured": measured, "at most": most},
        )
