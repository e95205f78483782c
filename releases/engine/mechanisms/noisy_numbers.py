"""What `laplace-numbers` and `gaussian-numbers` share: independent noise on the exact sums that an answer is read off.

Each sum is rounded to a public lattice where its sensitivity is so large that the noise would not fit 64 bits, and gets
noise in proportion to its own sensitivity. How the budget is shared out is decided by the declared ranges alone; for
whatever shares, the noise is such that the worst change by one privacy unit costs exactly the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import floor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from releases.engine.accounting.events import Event
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import decimal_text
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Option, Plan, Progress, Request, Work, infeasible
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.row_sums import (
    Ballots,
    Means,
    Measured,
    Measurement,
    OfColumns,
    Reading,
    Sharing,
    measurements,
    within,
)
from releases.engine.workload.sensitivity import Changes

#: A sum that can move by more than this is rounded to this many steps of what it can move by: that leaves room for any
#: noise in 64 bits, and costs a 30-millionth of the sensitivity in accuracy.
_STEPS = 1 << 24
#: A release of more numbers than this is a mistake.
_MOST_NUMBERS = 5_000
#: Of how many sums the noise is written out in a plan.
_DESCRIBED = 12

EXPECTED_ROWS = Option(
    name="expected_rows",
    help="How many rows are counted at least, if you may say so; only used to foretell the error of a mean.",
    lowest=1,
    highest=10**9,
)


class Law(Sharing, Protocol):
    """A law of integer noise within a budget, for sums that need different amounts of it."""

    @property
    def event(self) -> Event:
        """What adding it is, for the accountant."""
        ...

    @property
    def quantile(self) -> tuple[str, str]:
        """What one sum's noise stays within, and its closed upper bound, in LaTeX."""
        ...

    def spreads(self, moved: Changes, shares: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Each sum's scale or variance for these shares of the budget, such that the worst change costs all of it."""
        ...

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        """What noise of these spreads costs, over the budget."""
        ...

    def can_draw(self, spread: Fraction) -> bool: ...

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]: ...

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        """An m with Pr[|X| <= m]^count >= 1 - beta."""
        ...

    def deviation(self, spread: Fraction) -> float:
        """The standard deviation of a draw, for people."""
        ...


@dataclass(frozen=True, kw_only=True)
class Noised:
    """A measurement with the noise on it.

    Attributes:
        measurement: which sums.
        law: of the noise.
        units: of each sum's lattice, in the sum's own units.
        spreads: of each sum's noise, on its lattice.
        reach: what each noisy sum is within of the truth, all at once, with probability 1 - beta; in its own units.
    """

    measurement: Measurement
    law: Law
    units: tuple[Fraction, ...]
    spreads: tuple[Fraction, ...]
    reach: tuple[Fraction, ...]

    @staticmethod
    def within(measurement: Measurement, law: Law, *, beta: Fraction) -> Noised:
        exact = measurement.moved
        units = tuple(max(Fraction(1), Fraction(most, _STEPS)) for most in exact.most)
        moved = exact.on_lattice(units)
        spreads = law.spreads(moved, measurement.shares(law))
        assert law.cost(moved, spreads) <= 1, "the noise would cost more than the budget"
        drawn = {spread: law.largest(spread, count=len(spreads), beta=float(beta)) for spread in set(spreads)}
        # Rounding to a lattice coarser than the sums are adds half a step.
        reach = tuple(
            unit * drawn[spread] + (unit / 2 if unit > 1 else 0) for unit, spread in zip(units, spreads, strict=True)
        )
        return Noised(measurement=measurement, law=law, units=units, spreads=spreads, reach=reach)

    def exactly(self, counts: Counts) -> list[int]:
        """The exact sums, rounded to their lattices: what noise is added to. Private."""
        totals = self.measurement.totals(counts)
        return [floor(total / unit + Fraction(1, 2)) for total, unit in zip(totals, self.units, strict=True)]

    def noise(self, rng: Randomness) -> Iterator[int]:
        """One draw for each sum, on its lattice."""
        for spread, equal in groupby(self.spreads):
            yield from self.law.draw(spread, len(list(equal)), rng).tolist()

    def read(self, noisy: Sequence[int]) -> Reading:
        values = tuple(unit * step for unit, step in zip(self.units, noisy, strict=True))
        return self.measurement.read(Measured(values=values, reach=self.reach))

    @property
    def parameters(self) -> dict[str, str]:
        """The noise of each sum, in units of its columns."""
        form = self.measurement
        described = {"measured": form.form} if form.form else {}
        listed = list(zip(form.coordinates, form.moved.most, self.units, self.spreads, strict=True))
        for coordinate, most, unit, spread in listed[:_DESCRIBED]:
            deviation = self.law.deviation(spread) * float(unit) / coordinate.places
            described[f"sensitivity of {coordinate.label}"] = decimal_text(Fraction(most, coordinate.places))
            described[f"standard deviation of the noise on {coordinate.label}"] = f"{deviation:.6g}"
        if isinstance(form, Ballots):
            whole = form.moved.sensitivity()
            described |= {"l1 sensitivity": str(whole.l1), "l2 sensitivity, squared": str(whole.l2_squared)}
        return described


@dataclass(frozen=True, kw_only=True)
class NoisyNumbersPlan(Plan):
    noised: Noised

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Adding up the table", 0.0)
        steps = self.noised.exactly(counts)
        progress("Adding noise", 0.7)
        noisy = [step + noise for step, noise in zip(steps, self.noised.noise(rng), strict=True)]
        reading = self.noised.read(noisy)
        return Result(
            estimates=reading.estimates,
            bound=self.bound or self._bound(reading),
            total=reading.total,
            notes=reading.notes,
        )

    def _bound(self, reading: Reading) -> Bound:
        return Bound(
            beta=self.beta,
            half_widths=reading.half_widths,
            proof=Proof.AFTER,
            formula=self.formula,
            source=self.source,
            says=reading.says,
        )


def plan_noisy_numbers(request: Request, law: Law, *, source: str, parameters: Mapping[str, str]) -> Plan:
    """Plan a statistic with noise of this law, in the form that makes its bound least."""
    parts = len(request.workload.families)
    if parts > _MOST_NUMBERS:
        reason = f"It would release {parts:,} numbers; the most is {_MOST_NUMBERS:,}. Ask for fewer columns."
        return infeasible(request, reason)
    forms = measurements(request.statistic, request.schema)
    noised = min((Noised.within(form, law, beta=request.beta) for form in forms), key=_total_width)
    if not all(map(law.can_draw, noised.spreads)):
        return infeasible(request, "Its noise would not fit 64 bits at so small an epsilon. Spend more.")
    numbers = len(noised.spreads)
    return NoisyNumbersPlan(
        **request.inputs(),
        noised=noised,
        formula=noised.measurement.formula(*law.quantile),
        source=source,
        events=(law.event,),
        parameters={**parameters, **noised.parameters},
        bound=_bound_before(noised, request.beta, source),
        expectation=_expectation(noised, request, source),
        work=Work(cells=numbers, seconds=0.3 + numbers * 3e-2, bytes=1 << 26),
    )


def _total_width(noised: Noised) -> Fraction:
    """The half widths, each over the largest size of its column, added up: what the forms of a sum compete in."""
    form = noised.measurement
    widths = form.widths(noised.reach)
    if widths is None or not isinstance(form, OfColumns):
        return Fraction(0)
    return sum((width / size for width, size in zip(widths, form.sizes, strict=True)), Fraction(0))


def _bound_before(noised: Noised, beta: Fraction, source: str) -> Bound | None:
    if noised.measurement.widths(noised.reach) is None:
        return None
    # What such a reading says and how wide it is do not depend on what comes out, so zeros will do.
    reading = noised.read([0] * len(noised.spreads))
    return Bound(
        beta=beta,
        half_widths=reading.half_widths,
        proof=Proof.BEFORE,
        formula=noised.measurement.formula(*noised.law.quantile),
        source=source,
        says=reading.says,
    )


def _expectation(noised: Noised, request: Request, source: str) -> Bound | None:
    """For means, what the noise comes to on a table of as many rows as the curator says it has."""
    form, rows = noised.measurement, request.options[EXPECTED_ROWS.name]
    if not isinstance(form, Means) or rows is None:
        return None
    widths = form.foretold(noised.reach, rows=int(rows))
    labels = tuple(f"the mean of {name}" for name in form.names)
    return Bound(
        beta=request.beta,
        half_widths=tuple(map(float, widths)),
        proof=Proof.ASSUMED,
        formula=r"\alpha_j = \frac{a_j + \frac{U_j - L_j}{2}\, b}{n - b}",
        source=source,
        says=f"if at least {int(rows):,} rows are counted, {within(labels, widths, clamped=form.columns)}",
    )
