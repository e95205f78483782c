"""What `laplace-queries` and `gaussian-queries` share: independent noise on every answer of the workload.

The noise is calibrated to what one privacy unit can change in the whole vector of answers of the actual workload
(`Workload.sensitivity`), not to the number of queries where these overlap less. The bound is the exact quantile of
the largest of k independent draws. Noisy answers disagree with one another; synthetic rows, whose answers agree, are
made from a distribution fitted to the noisy marginals (`fit`), which is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from releases.engine.accuracy import Bound, Proof
from releases.engine.additive import Noise
from releases.engine.fit import Measurement, measured_rows
from releases.engine.histogram import Counts
from releases.engine.mechanisms.base import Plan, Progress, Request, Work
from releases.engine.mechanisms.fitted_tables import BYTES_EACH, fit_parts, fit_seconds, within
from releases.engine.parts import Part, connected_parts, distribution
from releases.engine.randomness import Randomness
from releases.engine.result import Distribution, Result
from releases.engine.workload import Count, Prefix, Workload

#: Synthetic rows are made of noisy answers where fitting takes less than about half a minute.
_MOST_FITTED_CELLS = 10_000_000


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
        work=_work(answers, described_parts(request.counts_asked)),
    )


def described_parts(workload: Workload) -> tuple[Part, ...]:
    """The parts that marginals and prefixes describe, small enough to be fitted; none where one is too large."""
    tables = tuple(family for family in workload.families if not isinstance(family, Count))
    if not tables:
        return ()
    parts = connected_parts(Workload(universe=workload.universe, families=tables))
    return parts if max(part.universe.size for part in parts) <= _MOST_FITTED_CELLS else ()


def _work(answers: int, parts: Sequence[Part]) -> Work:
    cells = sum(part.universe.size for part in parts)
    return Work(
        cells=max(answers, cells),
        seconds=0.2 + answers * 4e-7 + fit_seconds(parts),
        bytes=answers * 24 + cells * BYTES_EACH,
    )


@dataclass(frozen=True, kw_only=True)
class NoisyQueriesPlan(Plan):
    noise: Noise

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        exact = np.concatenate(self.counts_asked.answer(counts.marginal))
        progress("Adding noise", 0.3)
        noisy = self.counts_asked.split(exact + self.noise.draw(exact.shape, rng))
        assert self.bound is not None
        estimates = tuple(each.astype(np.float64) for each in noisy)
        total, described = self._described(estimates, within(progress, "Fitting synthetic rows", 0.4, 0.95))
        return Result(estimates=estimates, bound=self.bound, total=total, distribution=described)

    def _described(
        self, estimates: Sequence[NDArray[np.float64]], progress: Callable[[float], None]
    ) -> tuple[float, Distribution | None]:
        """The number of rows that the noisy tables add up to, and the distribution fitted to them.

        A prefix is the table of its steps, with the noise of two answers in each.
        """
        universe, parts = self.schema.universe, described_parts(self.counts_asked)
        if not parts:
            return 1.0, None
        measured: list[list[Measurement]] = [[] for _ in parts]
        for family, estimate in zip(self.counts_asked.families, estimates, strict=True):
            if isinstance(family, Count):
                continue
            position = next(i for i, part in enumerate(parts) if family.attributes in part.asked)
            shape = tuple(universe[name].size for name in family.attributes)
            is_prefix = isinstance(family, Prefix)
            measured[position].append(
                Measurement(
                    axes=parts[position].universe.axes(family.attributes),
                    table=np.diff(estimate, prepend=0.0) if is_prefix else estimate.reshape(shape),
                    variance=self.noise.variance * (2 if is_prefix else 1),
                )
            )
        rows = measured_rows([each for tables in measured for each in tables], None, None)
        weights = fit_parts(parts, measured, rows, progress)
        return float(round(rows)), distribution([part.universe for part in parts], weights)
