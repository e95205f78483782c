"""What a plan's synthetic rows give away of people, by a published attack on invented tables. Data-free.

**The game.** Invent people x_1, ..., x_m over the declared columns, toss a fair coin for each, and let those whose coin
b_i is 1 be the table. Run the plan on it: the same mechanism, epsilon, questions and options. The attack (`attack.py`)
gets the synthetic rows and all but one of the answers of x_i, for people inside and outside alike, and guesses the
answer that is missing. S_i is the share of columns in which it is right. Where neighbours differ by a person added or
removed, the coins are independent; where a person is replaced, one coin for each pair of people says which of the two
is inside. So the tables for b_i = 1 and b_i = 0 are neighbours, whatever the other coins are.

**The most that the guarantee allows.** Let p and q be the chances of a right guess of a person inside and outside.
Whether the guess is right follows from what the mechanism released, so by (epsilon, delta)-DP

    p <= e^epsilon q + delta    and    1 - q <= e^epsilon (1 - p) + delta.

Move delta to the left and add the two: 1 + (p - q) - 2 delta <= e^epsilon (1 - (p - q)), that is

    p - q <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)                                              (`most_allowed`).

It is the bound on the advantage of membership inference of Humphries et al. (2023), "Investigating membership inference
attacks under data dependencies", and no smaller one holds for all mechanisms: both inequalities can hold with equality
(Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy", Section 2). It holds for each
column, and so for their mean. Coins for all people of one table are the design of Steinke, Nasr and Jagielski (2023),
"Privacy auditing with one (1) training run".

**What is independent.** The people of one table share its synthetic rows, so their guesses are not independent, however
many they are. The coins are. The S_i follow from the people and the synthetic rows alone; call these, over all invented
tables, F. With s the mean of all S_i, take the differences

    D = (2/m) sum (2 b_i - 1) (S_i - s),  or with coins for pairs  D = (2/m) sum over pairs of S_inside - S_outside.

D is, up to the chance imbalance of the coins, the mean of S_i inside minus that outside: with independent coins it is
that times 4 m_1 m_0 / m^2, for m_1 people inside and m_0 outside. Order the coins. Given F and the coins before it, a
term of D takes two values that lie c_i apart, c_i = (4/m) |S_i - s|, or (4/m) |S_x - S_y| for a pair. So D minus the
sum of its terms' means given F and the coins before is a martingale with differences in intervals of length c_i, and by
Hoeffding's and Azuma's inequality (McDiarmid 1989, "On the method of bounded differences", Theorem 6.7)

    P(|D - A| >= sqrt(sum c_i^2 ln(2/alpha) / 2)) <= alpha.

A, what D estimates, is what the synthetic rows that were made say of who is inside: A = 0 where they say nothing of any
coin, and |A| <= tanh(epsilon/2) under epsilon-DP, since the posterior odds of a coin are within e^+-epsilon. No number
of people or law is assumed.

**What a leak looks like.** The same attack on every second row of the table itself, handed out (`Disclosure.leak`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.disclosure.attack import TREES, guess, most_frequent
from releases.engine.disclosure.invented import InventedCounts, invent_people
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyBudget
from releases.engine.domain.universe import Universe
from releases.engine.errors import Infeasible
from releases.engine.estimation.synthetic import synthetic_bins
from releases.engine.mechanisms.base import Plan, Progress
from releases.engine.noise.randomness import Randomness, uniform_bits
from releases.engine.run import rows_to_make

#: Invented people in and out of each table: few, since a release of few people says more about each of them.
PEOPLE = 2_000
#: Synthetic rows that the attack reads, columns that it guesses, and bins of a column that it guesses.
MOST_ROWS, MOST_HIDDEN, MOST_BINS = 5_000, 30, 1_000
#: Invented tables, and the predicted seconds on one core that all of them may take (`seconds_of`).
MOST_TABLES, MOST_SECONDS = 8, 600.0
#: Everything that is stated holds with this probability at once: of everybody, of unusual people, of each column.
CONFIDENCE = 0.95
_STATED = 3
#: Values that are looked at in a second.
_SPEED = 2e7


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How often a hidden answer is guessed right, as shares of tries.

    Attributes:
        inside, outside: of people in the table, and of people of the same law who are not.
        difference: D, see the head of this file.
        margin: D is this far from what it estimates at most, with the probability that is stated.
        people: whose answers were guessed.
    """

    inside: float
    outside: float
    difference: float
    margin: float
    people: int

    def to_json(self) -> dict[str, Any]:
        return {
            "inside": self.inside,
            "outside": self.outside,
            "difference": self.difference,
            "margin": self.margin,
            "people": self.people,
        }


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """The outcome of a test.

    Attributes:
        everybody, unusual: of all invented people, and of those whose values follow no pattern.
        columns: of everybody, by the column that was hidden.
        leak, leak_unusual: of everybody and of unusual people, where every second row of the table is handed out.
        most_frequent: right guesses by the most frequent value of the synthetic rows.
        allowed: the most that the guarantee allows for a difference.
        tables, people: how many tables were invented, and people for each: half of them are inside, up to chance.
        rows: synthetic rows read in all.
    """

    everybody: Difference
    unusual: Difference
    columns: dict[str, Difference]
    leak: Difference
    leak_unusual: Difference
    most_frequent: float
    allowed: float
    tables: int
    people: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "attack": "CoBP-RA, arXiv 2606.08372",
            "confidence": CONFIDENCE,
            "everybody": self.everybody.to_json(),
            "unusual": self.unusual.to_json(),
            "columns": {name: each.to_json() for name, each in self.columns.items()},
            "leak": self.leak.to_json(),
            "leak_unusual": self.leak_unusual.to_json(),
            "most_frequent": self.most_frequent,
            "allowed": self.allowed,
            "tables": self.tables,
            "people": self.people,
            "rows": self.rows,
        }


def most_allowed(budget: PrivacyBudget) -> float:
    """(e^epsilon - 1 + 2 delta) / (e^epsilon + 1): see the head of this file. At most 1."""
    ratio, delta = exp(-float(budget.epsilon)), float(budget.delta)
    return min(1.0, (1 - ratio + 2 * delta * ratio) / (1 + ratio))


def difference_of(
    right: NDArray[np.float64], is_inside: NDArray[np.bool_], *, is_paired: bool, miss: float
) -> Difference:
    """D of people with shares S_i of right guesses, and how far it can be off.

    Args:
        right: S_i, shape (people,).
        is_inside: b_i; where `is_paired`, of the people at 2k and 2k + 1 one is inside.
        miss: alpha, the probability that D is further off.
    """
    signs = np.where(is_inside, 1.0, -1.0)
    if is_paired:
        terms, apart = signs * right, np.abs(right[0::2] - right[1::2])
    else:
        middle = right - _mean(right)
        terms, apart = signs * middle, np.abs(middle)
    return Difference(
        inside=_mean(right[is_inside]),
        outside=_mean(right[~is_inside]),
        difference=2 * _mean(terms),
        margin=4 / max(1, len(right)) * sqrt(float((apart**2).sum()) * log(2 / miss) / 2),
        people=len(right),
    )


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean()) if len(numbers) else 0.0


def seconds_of(plan: Plan) -> float:
    """What one invented table takes, predicted from the plan: its run, and the attack on its rows and on a leak."""
    sizes = plan.schema.universe.shape
    pairs, hidden = len(sizes) * (len(sizes) - 1) / 2, min(len(sizes), MOST_HIDDEN)
    rows = min(plan.most_synthetic_rows, MOST_ROWS)
    return plan.work.seconds + 2 * rows * (pairs + hidden * TREES * (sqrt(len(sizes)) + 2) * log(rows + 1)) / _SPEED


def tables_of(plan: Plan) -> int:
    """How many tables are invented: as many as the allowance has room for.

    Raises:
        Infeasible: there is nothing to attack, or no room for one.
    """
    if not plan.makes_synthetic_rows:
        raise Infeasible("The plan makes no synthetic rows, so there is nothing to attack.")
    if (seconds := seconds_of(plan)) > MOST_SECONDS:
        raise Infeasible(
            f"One run on an invented table takes about {seconds:,.0f} seconds; the test allows {MOST_SECONDS:,.0f}."
        )
    return min(MOST_TABLES, int(MOST_SECONDS / seconds))


def disclosure_test(plan: Plan, *, rng: Randomness, progress: Progress | None = None) -> Disclosure:
    """Run a plan on invented tables, attack its synthetic rows, and compare people inside with people outside.

    Data-free: the plan holds public inputs alone, and no table of people is within reach. Nothing is charged, for
    nothing of a person is in it.

    Args:
        plan: of a release, or one that is not released yet.
        rng: the operating system's randomness; a stream only in tests.
        progress: called between steps.

    Raises:
        Infeasible: there is nothing to attack, or it would take too long (`tables_of`).
    """
    report = progress or (lambda step, share: None)
    tables = tables_of(plan)
    made = []
    for number in range(tables):
        report(f"Table {number + 1} of {tables}", number / (tables + 1))
        made.append(_Game.played(plan, rng))
    names = [name for name in plan.schema.universe.names if all(name in each.synthetic for each in made)]
    hidden = _hidden(plan.schema.universe, names, rng)
    report("Attacking", tables / (tables + 1))
    attacked = [_attacked(each, names, hidden, rng) for each in made]
    right, leaked, usual, is_inside, is_unusual = (np.concatenate(each) for each in zip(*attacked, strict=True))
    is_paired = plan.schema.neighbours is NeighbouringRelation.REPLACE
    miss = (1 - CONFIDENCE) / _STATED

    def compared(shares: NDArray[np.float64], some: NDArray[np.bool_] | slice = slice(None), of: int = 1) -> Difference:
        return difference_of(shares[some], is_inside[some], is_paired=is_paired, miss=miss / of)

    return Disclosure(
        everybody=compared(right.mean(axis=1)),
        unusual=compared(right.mean(axis=1), is_unusual),
        columns={names[column]: compared(right[:, place], of=len(hidden)) for place, column in enumerate(hidden)},
        leak=compared(leaked.mean(axis=1)),
        leak_unusual=compared(leaked.mean(axis=1), is_unusual),
        most_frequent=float(usual.mean()),
        allowed=most_allowed(plan.budget),
        tables=tables,
        people=PEOPLE,
        rows=sum(each.rows for each in made),
    )


@dataclass(frozen=True, kw_only=True)
class _Game:
    """One invented table, and the synthetic rows that the plan made of it."""

    universe: Universe
    bins: NDArray[np.int64]
    is_unusual: NDArray[np.bool_]
    is_inside: NDArray[np.bool_]
    synthetic: dict[str, NDArray[np.int64]]
    rows: int

    @staticmethod
    def played(plan: Plan, rng: Randomness) -> _Game:
        universe = plan.schema.universe
        people = invent_people(universe, PEOPLE, rng)
        if plan.schema.neighbours is NeighbouringRelation.REPLACE:
            is_first = uniform_bits(1, PEOPLE // 2, rng) == 1
            is_inside = np.stack([is_first, ~is_first], axis=1).reshape(-1)
        else:
            is_inside = uniform_bits(1, PEOPLE, rng) == 1
        result = plan.run(InventedCounts(universe=universe, bins=people.bins[is_inside]), rng=rng)
        if result.distribution is None:
            raise Infeasible("The plan made no synthetic rows of an invented table, so there is nothing to attack.")
        rows = min(rows_to_make(plan, result), MOST_ROWS)
        synthetic = synthetic_bins(universe, result.distribution, rows=rows, rng=rng)
        return _Game(
            universe=universe,
            bins=people.bins,
            is_unusual=people.is_unusual,
            is_inside=is_inside,
            synthetic=synthetic,
            rows=rows,
        )


def _hidden(universe: Universe, names: Sequence[str], rng: Randomness) -> list[int]:
    """Places of the columns that are guessed: all with few enough bins, or some of them by chance."""
    found = [place for place, name in enumerate(names) if 1 < universe[name].size <= MOST_BINS]
    if len(names) < 2 or not found:
        raise Infeasible(
            f"An attack needs two columns, and one of them with 2 to {MOST_BINS:,} values that can be guessed."
        )
    return sorted(found[place] for place in np.argsort(rng.words(len(found)))[:MOST_HIDDEN])


def _attacked(game: _Game, names: Sequence[str], hidden: Sequence[int], rng: Randomness) -> tuple[NDArray[Any], ...]:
    """Whether each guess is right, of the synthetic rows, of a leak and of the most frequent value, each of shape
    (people, hidden columns); who is inside; and who is unusual."""
    sizes = [game.universe[name].size for name in names]
    targets = game.bins[:, list(game.universe.axes(names))]
    truth = targets[:, hidden]
    rows = np.stack([game.synthetic[name] for name in names], axis=1)
    leak = targets[game.is_inside][::2]
    return (
        (guess(rows, targets, sizes, hidden, rng) == truth).astype(np.float64),
        (guess(leak, targets, sizes, hidden, rng) == truth).astype(np.float64),
        most_frequent(rows, sizes, hidden) == truth,
        game.is_inside,
        game.is_unusual,
    )
