"""Randomized response: every row's own category is told truly or not by a coin, and the counts are debiased.

The law (Warner 1965; for k categories the direct encoding of Wang, Blocki, Li and Jha 2017): the true category with
probability p = e^ε / (e^ε + k - 1), each other one with q = 1 / (e^ε + k - 1). p / q = e^ε, so one row's report is
ε-DP by itself, whoever collects it. With k = 2 it is the notes' first example, an answer told with probability P and
drawn by a fair coin otherwise: ε = ln(1 + 2 P / (1 - P)). (The notes' Lemma 7.13, its Rényi divergence, lacks a pair
of parentheses: the logarithm is of the whole sum.)

`randomize_answers` does to a table's rows what would be done where answers are given; `debias` reads what comes of it.

Who answered is public in the local model, so its neighbours replace an answer. A table is not always like that: its
number of counted rows is private where neighbours add a row, where a declared rule may drop one, and where people have
several. Then the reports of n rows would tell n. So a share of epsilon pays for a noisy count, and the release has N
reports, N a public number that is n or a little more with high probability:

    N = n + noise + b, from 0 to 2^27;   rows beyond N are left out, missing ones are made up with even categories.

Given N, neighbours differ in the answers of one of N respondents (or of g, for people with g rows): one row against
another, or against an evenly drawn one. An even mixture of reports is no further from one of them than the worst of
them is, in any Rényi divergence, which are quasi-convex; so the price is that of randomized response.

With truth c_j, the j-th report count is a sum of N independent coins with mean (p - q) (c_j - n/k) + N/k. Its exact
law, a convolution of binomials, is inverted for the interval of c_j: its tails are monotone in c_j and in n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, exp, expm1, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from releases.engine.accounting.events import DiscreteLaplaceEvent, Event, RandomizedResponseEvent, RepeatedEvent
from releases.engine.arithmetic.intervals import Interval, ceil_div, exp_interval
from releases.engine.bounds.accuracy import Bound, Proof, laplace_max_quantile
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import LARGEST_EPSILON, decimal_text
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.noise.discrete import discrete_laplace
from releases.engine.noise.randomness import CHUNK, Randomness, bernoulli, uniform_below
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.survey import SurveyStatistic

#: Beyond this many categories an answer says next to nothing.
_MAX_CATEGORIES = 1_000
#: Reports made at most, however large the noise on the number of rows: half a minute's work. Rows beyond it are left
#: out, and the interval of every category allows for all of them.
MAX_REPORTS = 1 << 27
#: Of epsilon, for the number of rows where that is private: it moves a count by its error over k only.
_SHARE_OF_COUNT = Fraction(1, 10)
#: Of beta, likewise.
_BETA_OF_COUNT = Fraction(1, 10)
#: What floating point may lose in a tail, far above what it does: relatively and, in a Fourier transform, absolutely.
_SLACK, _FLOOR = 1e-6, 1e-13
#: Estimates are doubles: their rounding is far below this share of any half width.
_ROUNDING = 1e-9
#: Convolutions of more products than this go by Fourier transform.
_DIRECT_PRODUCTS = 1 << 20

EXPECTED_ROWS = Option(
    name="expected_rows",
    help="About how many rows the table has, if you may say so; only used to estimate the error.",
    lowest=1,
    highest=10**9,
)


# One respondent


def truth_interval(epsilon: Fraction, categories: int, precision: int) -> Interval:
    """p 2**precision lies in [lo, hi], for p = e^ε / (e^ε + k - 1), which rises with e^ε."""
    lo, hi = exp_interval(epsilon, precision=precision)
    others = (categories - 1) << precision
    return (lo << precision) // (lo + others), ceil_div(hi << precision, hi + others)


def randomize_answers(
    answers: NDArray[np.int64], *, epsilon: Fraction, categories: int, rng: Randomness
) -> NDArray[np.int64]:
    """The reports of many respondents, independently: the answer with probability p, else any other one, evenly.

    The same draws are made whatever the answers.
    """
    _check(epsilon, categories)
    others = uniform_below(categories - 1, answers.size, rng)
    others += others >= answers
    told = _toss(partial(truth_interval, epsilon, categories), answers.size, rng)
    return np.where(told, answers, others)


def _toss(chance: Callable[[int], Interval], count: int, rng: Randomness) -> NDArray[np.bool_]:
    """`count` independent coins, true with exactly the chance enclosed: a word each decides nearly all of them."""
    words = rng.words(count)
    lo, hi = chance(64)
    heads = words < np.uint64(lo)
    # hi may be 2**64, which no word can hold.
    for index in np.flatnonzero(~heads & (words <= np.uint64(hi - 1))):
        heads[index] = bernoulli(chance, rng=rng, revealed=int(words[index]), bits=64)
    return heads


# What was collected


def debias(reports: NDArray[np.int64], *, epsilon: Fraction, respondents: float | None = None) -> NDArray[np.float64]:
    """Unbiased estimates of the true counts: n/k + (r_j - N/k) / (p - q), with N reports of n respondents.

    Without made-up reports n = N, and it is (r_j - N q) / (p - q), as k q = 1 - (p - q). The estimates add up to n;
    single ones may be below 0.

    Args:
        reports: how many reports name each category.
        epsilon: with which each was randomised.
        respondents: n, or an unbiased estimate of it; N where left out.

    Raises:
        InvalidInput: an argument is out of range.
    """
    _check(epsilon, reports.size)
    total = float(reports.sum())
    answered = total if respondents is None else respondents
    centred = reports.astype(np.float64) - total / reports.size
    return answered / reports.size + centred / _contrast(epsilon, reports.size)


def _contrast(epsilon: Fraction, categories: int) -> float:
    """p - q = (e^ε - 1) / (e^ε - 1 + k)."""
    growth = expm1(float(epsilon))
    return growth / (growth + categories)


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Report counts, and what is known of how many respondents they are of.

    Attributes:
        reports: how many of the N reports name each category.
        epsilon: with which each was randomised.
        fewest, most: the number of respondents lies between; most is N.
        estimate: of that number.
    """

    reports: NDArray[np.int64]
    epsilon: Fraction
    fewest: int
    most: int
    estimate: float

    @staticmethod
    def all_known(reports: NDArray[np.int64], *, epsilon: Fraction) -> Collected:
        """Reports of a survey in which who answered is public."""
        total = int(reports.sum())
        return Collected(reports=reports, epsilon=epsilon, fewest=total, most=total, estimate=float(total))

    def estimates(self) -> NDArray[np.float64]:
        return debias(self.reports, epsilon=self.epsilon, respondents=self.estimate)

    def intervals(self, *, beta: float) -> NDArray[np.int64]:
        """For each category the least and the largest true count, shape (k, 2): all hold with probability 1 - beta.

        A count c is left out where the probability of as many reports as there are, or more, is at most β' for every
        possible number of respondents, or that of as many or fewer is; β' is β over twice the number of categories, or
        over 2 where there are two categories, whose report counts add up to N.
        """
        categories = self.reports.size
        tests = 1 if categories == 2 else categories
        allowed = beta / (2 * tests)
        return np.array([self._interval(int(each), allowed) for each in self.reports], dtype=np.int64)

    def _interval(self, reported: int, allowed: float) -> tuple[int, int]:
        contrast, share = _contrast(self.epsilon, self.reports.size), 1 / self.reports.size
        centre = round(self.estimate * share + (reported - self.most * share) / contrast)
        centre = min(max(centre, 0), self.most)
        reach = -float(ndtri(allowed)) * self._deviation(centre) / contrast + 1
        # Either search ends on the outer side of the limit, so that nothing possible is left out.
        most = _last(
            lambda c: self._tail(reported, c, self.most, upper=False) > allowed,
            guess=round(centre + reach),
            step=reach,
            low=0,
            high=self.most,
        )
        least = -_last(
            lambda c: self._tail(reported, -c, max(-c, self.fewest), upper=True) > allowed,
            guess=-round(centre - reach),
            step=reach,
            low=-self.most,
            high=0,
        )
        return least, max(least, most)

    def _tail(self, reported: int, count: int, respondents: int, *, upper: bool) -> float:
        """Pr[reports >= reported], or <=, for a true count among so many respondents; rounded up.

        One more respondent of another category in place of a made-up one lowers the reports: for few of them the most
        respondents are the worst case, for many the fewest.
        """
        start, law = _law(self._coins(count, respondents))
        place = reported - start
        mass = law[max(place, 0) :].sum() if upper else law[: max(place + 1, 0)].sum()
        return float(mass) * (1 + _SLACK) + _FLOOR

    def _coins(self, count: int, respondents: int) -> tuple[tuple[int, float], ...]:
        """Number and log odds of the three kinds of coin that make up a report count."""
        epsilon, others = float(self.epsilon), self.reports.size - 1
        # q / (1 - q) = 1 / (e^ε + k - 2), with no overflow for the largest epsilon.
        false = -(epsilon + log1p((others - 1) * exp(-epsilon)))
        return (
            (count, epsilon - log(others)),
            (respondents - count, false),
            (self.most - respondents, -log(others)),
        )

    def _deviation(self, count: int) -> float:
        """The standard deviation of a report count with that truth, for a first guess."""
        chances = [(number, float(expit(odds))) for number, odds in self._coins(count, self.most)]
        return sqrt(sum(number * p * (1 - p) for number, p in chances))


def _law(coins: tuple[tuple[int, float], ...]) -> tuple[int, NDArray[np.float64]]:
    """Where the law of a sum of binomials starts, and its probabilities; what is left out has less than 1e-20."""
    start, law = 0, np.ones(1)
    for number, odds in coins:
        if number == 0:
            continue
        first, other = _binomial(number, odds)
        start += first
        law = np.convolve(law, other) if law.size * other.size <= _DIRECT_PRODUCTS else _long_product(law, other)
    return start, np.maximum(law, 0.0)


def _long_product(law: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    # Imported when it is needed: every process would wait a second for it.
    from scipy.signal import fftconvolve

    product: NDArray[np.float64] = fftconvolve(law, other)
    return product


def _binomial(number: int, odds: float) -> tuple[int, NDArray[np.float64]]:
    """The binomial law around its mean, from the ratios of neighbouring probabilities; it adds up to 1."""
    p = float(expit(odds))
    reach = 12 * sqrt(number * p * (1 - p)) + 60
    first, last = max(0, int(number * p - reach)), min(number, ceil(number * p + reach))
    values = np.arange(first, last, dtype=np.float64)
    steps = np.cumsum(np.log((number - values) / (values + 1)) + odds)
    logs = np.concatenate([[0.0], steps])
    weights = np.exp(logs - logs.max())
    return first, weights / weights.sum()


def _last(holds: Callable[[int], bool], *, guess: int, step: float, low: int, high: int) -> int:
    """A number not below the last one from low to high for which `holds`, which is true up to there and false after.

    Found to a 64th of `step`, and exactly where that is below 1; `low` where it holds nowhere.
    """
    stride, fine = max(1, round(step / 16)), max(1, int(step / 64))
    inside, outside = low - 1, high + 1
    probe = min(max(guess, low), high)
    while outside - inside > fine:
        if holds(probe):
            inside = probe
        else:
            outside = probe
        near = inside + stride if outside > high else outside - stride
        stride *= 2
        bracketed = inside >= low and outside <= high
        probe = (inside + outside) // 2 if bracketed else min(max(near, inside + 1), outside - 1)
    return max(low, outside - 1)


def _check(epsilon: Fraction, categories: int) -> None:
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, Fraction)) or not 0 < epsilon <= LARGEST_EPSILON:
        raise InvalidInput("epsilon", str(epsilon), f"must be an exact rational above 0, at most {LARGEST_EPSILON}")
    if isinstance(categories, bool) or not isinstance(categories, int) or categories < 2:
        raise InvalidInput("categories", categories, "must be a whole number, 2 or more")


# The plan


@register
class RandomizedResponse(Mechanism):
    name = "randomized-response"
    title = "Randomized response"
    summary = "Lets a coin decide for every row whether it tells its own answer, then corrects the counts for that."
    source = "Warner, Randomized Response (1965); Wang, Blocki, Li and Jha (2017), direct encoding"
    options = (EXPECTED_ROWS,)
    answers = (SurveyStatistic,)

    def _plan(self, request: PlanRequest) -> Plan:
        (name,) = request.statistic.attributes
        categories = request.schema.universe[name].size
        if categories > _MAX_CATEGORIES:
            reason = f"It is for at most {_MAX_CATEGORIES:,} categories, and {name} has {categories:,}."
            return infeasible(request, reason)
        rows, budget = request.schema.rows_of_unit, request.budget.epsilon
        of_count = Fraction(0) if request.schema.total_is_public else budget * _SHARE_OF_COUNT
        coins = Coins(
            epsilon=(budget - of_count) / rows,
            categories=categories,
            count_scale=rows / of_count if of_count else None,
            beta=request.beta,
        )
        if coins.margin > MAX_REPORTS // 4:
            return infeasible(
                request, "The noise on the number of rows would be larger than a table at so small an epsilon."
            )
        one = RandomizedResponseEvent(epsilon=coins.epsilon, categories=categories)
        events: tuple[Event, ...] = (one if rows == 1 else RepeatedEvent(event=one, times=rows),)
        if of_count:
            events = (DiscreteLaplaceEvent(noise_multiplier=1 / of_count), *events)
        return SurveyPlan(
            **request.inputs(),
            column=name,
            coins=coins,
            formula=_FORMULA,
            source=self.source,
            events=events,
            parameters=coins.parameters(request.schema.counted),
            expectation=_expectation(coins, request, self.source),
            work=Work(cells=categories, seconds=0.5 + categories * 1e-2, bytes=1 << 24),
        )


@dataclass(frozen=True, kw_only=True)
class Coins:
    """The randomness of a survey, all of it public.

    Attributes:
        epsilon: with which each row is randomised.
        categories: k.
        count_scale: of the noise on the number of rows; None where that is public.
        beta: of the whole bound.
    """

    epsilon: Fraction
    categories: int
    count_scale: Fraction | None
    beta: Fraction

    @property
    def margin(self) -> int:
        """b: the noise on the number of rows passes it with probability beta/10 at most."""
        if self.count_scale is None:
            return 0
        return laplace_max_quantile(scale=self.count_scale, count=1, beta=float(self.beta * _BETA_OF_COUNT))

    @property
    def beta_of_reports(self) -> float:
        return float(self.beta if self.count_scale is None else self.beta * (1 - _BETA_OF_COUNT))

    def parameters(self, counted: Counted) -> dict[str, str]:
        lo, _ = truth_interval(self.epsilon, self.categories, 64)
        truth = lo / 2**64
        described = {
            f"epsilon of each {counted.one}": decimal_text(self.epsilon),
            f"chance that a {counted.one} tells its own category": f"{truth:.6g}",
            "chance of each other category": f"{(1 - truth) / (self.categories - 1):.6g}",
        }
        if self.count_scale is not None:
            described[f"noise scale of the number of {counted.many}"] = decimal_text(self.count_scale, places=6)
            described[f"reports beyond the noisy number of {counted.many}"] = str(self.margin)
        return described


@dataclass(frozen=True, kw_only=True)
class SurveyPlan(Plan):
    column: str
    coins: Coins

    @property
    def limits(self) -> dict[str, str]:
        return {"most reports": f"{MAX_REPORTS:,}"}

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        truth = counts.marginal((self.column,))
        progress("Randomising every answer", 0.2)
        rows, margin = int(truth.sum()), self.coins.margin
        if self.coins.count_scale is not None:
            rows += int(discrete_laplace(scale=self.coins.count_scale, size=1, rng=rng)[0])
        most = min(max(0, rows + margin), MAX_REPORTS)
        collected = Collected(
            reports=self.reports(truth, total=most, rng=rng),
            epsilon=self.coins.epsilon,
            fewest=min(max(0, rows - margin), most),
            most=most,
            estimate=float(min(max(0, rows), most)),
        )
        progress("Correcting the counts", 0.8)
        return self._result(collected, beyond=max(0, rows + margin - most))

    def reports(self, truth: NDArray[np.int64], *, total: int, rng: Randomness) -> NDArray[np.int64]:
        """How many of `total` reports name each category; the work depends on `total` alone."""
        categories, ends = truth.size, np.cumsum(truth)
        reports = np.zeros(categories, dtype=np.int64)
        for start in range(0, total, CHUNK):
            slots = np.arange(start, min(start + CHUNK, total))
            answers = np.searchsorted(ends, slots, side="right")
            if self.coins.count_scale is not None:
                # Every slot draws, so that the number of draws does not tell how many are made up.
                even = uniform_below(categories, slots.size, rng)
                answers = np.where(slots < ends[-1], answers, even)
            told = randomize_answers(answers, epsilon=self.coins.epsilon, categories=categories, rng=rng)
            reports += np.bincount(told, minlength=categories)
        return reports

    def _result(self, collected: Collected, *, beyond: int) -> Result:
        """The corrected counts.

        Args:
            beyond: how many rows there can be that no report was made for. Each category may have all of them.
        """
        estimates = collected.estimates()
        intervals = collected.intervals(beta=self.coins.beta_of_reports)
        intervals[:, 1] += beyond
        width = float(np.abs(intervals - estimates[:, None]).max()) * (1 + _ROUNDING)
        counts = "both counts are" if estimates.size == 2 else f"every one of the {estimates.size:,} counts is"
        known = "number of rows" if self.coins.count_scale is None else "noisy number of rows"
        return Result(
            estimates=(estimates,),
            bound=Bound(
                beta=self.beta,
                half_widths=(width,),
                proof=Proof.AFTER,
                formula=_FORMULA,
                source=self.source,
                says=f"{counts} within {self.schema.counted.text(max(1, ceil(width)))} of the truth, all at once.",
            ),
            total=collected.estimate,
            notes={
                "reports": collected.reports.tolist(),
                known: collected.estimate,
                "intervals": intervals.tolist(),
            },
        )


_FORMULA = (
    r"\alpha = \max_j \max\left\{|c - \hat c_j| : \Pr_c[R_j \le r_j] > \beta',\ \Pr_c[R_j \ge r_j] > \beta'\right\},"
    r"\quad \hat c_j = \frac{n}{k} + \frac{r_j - N / k}{p - q}"
)
_EXPECTED_FORMULA = (
    r"\alpha = \frac{b}{k} + \frac{e^\varepsilon + k - 1}{e^\varepsilon - 1}"
    r"\left(\sqrt{2 \left(n v + 2 b \tfrac{k - 1}{k^2}\right) \ln\tfrac{1}{\beta'}}"
    r" + \tfrac{2}{3}\ln\tfrac{1}{\beta'}\right)"
)


def _expectation(coins: Coins, request: PlanRequest, source: str) -> Bound | None:
    """What the error is at most on a table of so many rows, by Bernstein's inequality.

    A report count is a sum of independent coins: n of rows, with variance at most v each, and up to 2 b even ones. Its
    deviation t has t² <= 2 (V + t/3) ln(1/β'), so that t <= √(2 V ln(1/β')) + (2/3) ln(1/β').
    """
    rows = request.options[EXPECTED_ROWS.name]
    if rows is None:
        return None
    categories, contrast = coins.categories, _contrast(coins.epsilon, coins.categories)
    false = (1 - contrast) / categories
    of_rows = max(chance * (1 - chance) for chance in (contrast + false, false))
    made_up = 2 * coins.margin * (categories - 1) / categories**2
    tests = 1 if categories == 2 else categories
    odds = log(2 * tests / coins.beta_of_reports)
    width = coins.margin / categories + (sqrt(2 * (int(rows) * of_rows + made_up) * odds) + 2 * odds / 3) / contrast
    counted = request.schema.counted
    counts = "both counts are" if categories == 2 else f"every one of the {categories:,} counts is"
    return Bound(
        beta=request.beta,
        half_widths=(width,),
        proof=Proof.ASSUMED,
        formula=_EXPECTED_FORMULA,
        source=source,
        says=f"if the table has {int(rows):,} {counted.many}, {counts} within {counted.text(max(1, ceil(width)))} of "
        "the truth, all at once.",
    )
