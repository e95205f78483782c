"""What plans of noisy answers share: the noise, its words, and the distribution that is fitted to the answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.population import Population
from releases.engine.estimation.components import (
    ConnectedAttributes,
    connected_parts,
    distribution,
    exact_answers,
    joined_by_levels,
)
from releases.engine.estimation.fit import NoisyMarginal, measured_rows
from releases.engine.estimation.result import Distribution, Result
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.agreement import Agreement
from releases.engine.mechanisms.base import ROWS_OF_TABLES, Plan, Progress, Work
from releases.engine.mechanisms.marginal_fit.common import fit_bytes, fit_parts, fit_seconds, within
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.queries import Count, Prefix, Workload

#: Synthetic rows are made of noisy answers where fitting takes less than about half a minute.
_MAX_FITTED_CELLS = 10_000_000
#: No measurement counts as more than so much surer than another: beyond, the fit stops before it has used the less sure
#: ones (measured: off by 14,000 rows of 200,000 where they are within 1), and the surest is met as well without it.
_MAX_APART = 1e4
#: To make the table of a sampler: measured, 0.05 at the most.
_SECONDS_A_LAW = 0.05
#: What a plan says of tables that count rows of their own.
COUNTED_BY_OWN = "in each table those that its own columns keep; totals may differ, and no synthetic rows are made"
#: Weights whose noise is said one by one; of more, the least and the greatest.
_MAX_SAID = 6


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


def plan_work(answers: int, parts: Sequence[ConnectedAttributes], *, laws: int, together: Agreement | None) -> Work:
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


def noise_parameters(noise: Noise, weights: Sequence[int], *, of_weight: str = "at importance") -> dict[str, str]:
    """The noise of each weight, where these differ. Sensitivities are of the answers times their weights.

    Args:
        of_weight: what a weight is, before its number.
    """
    different = sorted(set(weights))
    if len(different) == 1:
        return noise.parameters
    said = different if len(different) <= _MAX_SAID else [different[0], different[-1]]
    laws = [(weight, noise.of_weight(weight).parameters) for weight in said]
    parameters = {}
    for name, value in laws[0][1].items():
        values = {weight: parts[name] for weight, parts in laws}
        if len(set(values.values())) == 1:
            parameters[f"weighted {name}" if "sensitivity" in name else name] = value
        else:
            parameters[name] = "; ".join(f"{each} {of_weight} {weight:,}" for weight, each in values.items())
    return parameters


def with_noise(workload: Workload, noise: Noise, counts: Counts, rng: Randomness) -> tuple[NDArray[np.float64], ...]:
    """Each answer, with noise of its weight."""
    exact = np.concatenate(exact_answers(workload, counts))
    noisy = workload.split(exact + noise_on(workload, noise, rng))
    return tuple(each.astype(np.float64) for each in noisy)


def noise_on(workload: Workload, noise: Noise, rng: Randomness) -> NDArray[np.int64]:
    """Noise on all answers; those of one weight are drawn together, for a sampler's table is made for each law."""
    if not workload.is_weighted:
        return noise.draw(workload.size, rng)
    cells = [family.cells(workload.universe) for family in workload.families]
    weight_of = np.repeat(np.array(workload.weights, dtype=np.int16), cells)
    drawn = np.empty(workload.size, dtype=np.int64)
    for weight in sorted(set(workload.weights)):
        places = np.flatnonzero(weight_of == weight)
        drawn[places] = noise.of_weight(weight).draw(places.size, rng)
    return drawn
