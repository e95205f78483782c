"""The largest error of what is released, itself released with noise: a bound that holds whatever was done before.

Let a be the exact answers and r whole numbers made without further look at the data. The largest error
L = max |r_q - a_q| is a whole number, and one privacy unit of g rows moves every counting answer by at most g, so L by
at most g, under either neighbouring relation. L + X with noise X of that sensitivity is released, and

    L <= L + X + t   with probability 1 - β,   t the least number with Pr[X < -t] <= β.

One number of small sensitivity: its noise does not grow with the number of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.additive_noise import Noise
from releases.engine.mechanisms.base import Option
from releases.engine.mechanisms.budget_split import Allowance
from releases.engine.noise.randomness import Randomness
from releases.engine.workload.queries import Sensitivity

MEASURE = Option(
    name="measure",
    help="Percent of the budget spent on measuring the largest error of what is released, which is the bound.",
    lowest=1,
    highest=50,
    default=10,
)

FORMULA = r"\alpha = \tilde{L} + \min\left\{t : \Pr[X < -t] \le \beta\right\},\quad \tilde{L} = L + X"
SOURCE = "Dwork and Roth (2014), Theorem 3.6, for the largest error as one query; the tail of its noise"


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """How the largest error will be measured.

    Attributes:
        noise: on it.
        beta: probability that the bound made of it fails.
    """

    noise: Noise
    beta: Fraction

    @staticmethod
    def of(allowance: Allowance, *, schema: Schema, beta: Fraction, tables: int = 1) -> Certificate:
        """Of one largest error; or of the sum over so many tables of a distance that a row moves by at most 1. Of
        tables of rows and of persons, one unit moves those of rows the most."""
        rows = max(each.rows_of_unit for each in schema.apart) * tables
        return Certificate(noise=allowance.noise(Sensitivity(l1=rows, l2_squared=rows * rows)), beta=beta)

    @property
    def tail(self) -> float:
        """t above: noise is below -t as often as it is above t, half as often as it is beyond t."""
        return self.noise.largest(count=1, beta=min(2 * float(self.beta), 1 - 1e-9))

    def measured(self, largest: int, rng: Randomness) -> int:
        """L + X: a largest error that one unit moves by at most `rows`, with noise."""
        return largest + int(self.noise.draw(1, rng)[0])

    def proves(self, largest: int, rng: Randomness) -> float:
        """What is at least the largest error with probability 1 - β, once that has been released with noise."""
        return max(0.0, self.measured(largest, rng) + self.tail)

    def bound(
        self, released: Sequence[NDArray[np.int64]], exact: Sequence[NDArray[np.int64]], rng: Randomness
    ) -> Bound:
        """Measure the largest error, over all families, and state what that proves."""
        largest = max(int(np.abs(one - other).max(initial=0)) for one, other in zip(released, exact, strict=True))
        width = self.proves(largest, rng)
        return Bound(
            beta=self.beta, half_widths=(width,) * len(exact), proof=Proof.AFTER, formula=FORMULA, source=SOURCE
        )
