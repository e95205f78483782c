"""What `laplace-queries` and `gaussian-queries` share: independent noise on every answer of the workload.

The noise is calibrated to what one privacy unit can change in the whole vector of answers of the actual workload
(`Workload.sensitivity`), not to the number of queries where these overlap less. The bound is the exact quantile of
the largest of k independent draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from releases.engine.accuracy import Bound, Proof
from releases.engine.additive import Noise
from releases.engine.histogram import Counts
from releases.engine.mechanisms.base import Plan, Progress, Request, Work
from releases.engine.randomness import Randomness
from releases.engine.result import Result


def plan_noisy_queries(request: Request, noise: Noise, *, formula: str, source: str) -> Plan:
    answers = request.counts_asked.size
    width = noise.largest(count=answers, beta=float(request.beta))
    return NoisyQueriesPlan(
        **request.inputs(),
        noise=noise,
        events=(noise.event,),
        parameters=noise.parameters,
        bound=Bound(
            beta=request.beta,
            half_widths=(width,) * len(request.counts_asked.families),
            proof=Proof.BEFORE,
            formula=formula,
            source=source,
        ),
        work=Work(cells=answers, seconds=0.2 + answers * 4e-7, bytes=answers * 24),
    )


@dataclass(frozen=True, kw_only=True)
class NoisyQueriesPlan(Plan):
    noise: Noise

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        exact = np.concatenate(self.counts_asked.answer(counts.marginal))
        progress("Adding noise", 0.5)
        noisy = exact + self.noise.draw(exact.shape, rng)
        assert self.bound is not None
        return Result(
            estimates=tuple(each.astype(np.float64) for each in self.counts_asked.split(noisy)),
            bound=self.bound,
            total=1.0,
        )
