"""The exponential mechanism over candidates that can be counted level by level, drawn exactly.

Candidates y have a weight g(y) and a whole-numbered error L(y) >= 0; wanted is P(y) proportional to
g(y) e^(-rate L(y)).
Let F(t) be the weight of all y with L(y) <= t. Since the sum of e^(-rate t) over whole t >= L is e^(-rate L) / (1 -
e^-rate), P is the law of y in the pair (t, y) with

    P(t, y) proportional to g(y) e^(-rate t) [L(y) <= t],      t = 0, 1, 2, ...

The pair is drawn by rejection. Levels are cut into blocks first ... last, and `CountedLevels` offers for each a number
B >= F(last) and a draw that gives y with probability g(y) / B if L(y) <= last (and nothing with the rest). Then

    1. choose a block with probability proportional to B * (sum of e^(-rate t) over the block)   `randomness.choose`
    2. choose t in the block with probability proportional to e^(-rate t)                        `_level_in`
    3. draw y; if there is none, or L(y) > t, begin again at 1.

A round ends in (t, y) with probability proportional to B G * e^(-rate t) / G * g(y) / B = g(y) e^(-rate t) wherever
L(y) <= t, which is what was wanted; that t <= last ensures that y was among those that could be drawn. Steps 1 and 2
use certified intervals of the exponential function, B is a dyadic number known exactly, and step 3 compares integers:
nothing here is rounded. Where blocks are cut decides how many rounds it takes and nothing else, so floating point
decides that (`Layers._cut`): the block whose bound is loosest is halved until a round has a fair chance.

The last block has no end; there F is the number of all candidates, which need not be counted.

How many rounds and blocks there are depends on the data, and so does the time taken: by a factor of about two from one
draw to the next, and by three or four between a table that small databases fit well and one that they fit badly (seven
was met, with 40 times the rows that the theorem asks for). Whoever can time a run learns that much beside what was paid
for; times are therefore not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import exp, expm1, inf, log, log2
from typing import Protocol

from releases.engine.arithmetic.intervals import CertifiedSums, Interval, ceil_div, ceil_shift, exp_interval
from releases.engine.noise.randomness import Randomness, bernoulli, choose, random_below
from releases.engine.smalldb.candidates import Candidate, Scaled

#: A round of rejection succeeds about this often; to halve more blocks would cost more than it saves.
_FAIR_CHANCE = 0.15
#: Blocks are halved at most so often. More would only be needed for a count that leaps at thousands of levels.
_MAX_BLOCKS = 2000
#: Rounds that may fail before blocks are halved, or begun again further out, where rounds fail.
_PATIENCE = 10


class CountedLevels(Protocol):
    """Weighted candidates that can be counted and drawn within a level of error."""

    def everything(self) -> Scaled:
        """The weight of all candidates."""
        ...

    def draw_any(self, rng: Randomness) -> Candidate:
        """A candidate with probability g(y) / everything."""
        ...

    def within(self, level: int) -> Scaled:
        """A number B that is at least F(level); 0 only where that is 0."""
        ...

    def draw(self, level: int, rng: Randomness) -> Candidate | None:
        """A candidate y with L(y) <= level, each with probability g(y) / B; None with the rest."""
        ...

    def error(self, candidate: Candidate) -> int:
        """L(y)."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    """Levels first ... last (None: without end), and B at the last."""

    first: int
    last: int | None
    bound: Scaled

    @property
    def can_be_halved(self) -> bool:
        return self.last is None or self.first < self.last

    def log_mass(self, rate: float) -> float:
        """ln of B * (sum of e^(-rate t) over the block), up to the same constant for all blocks."""
        if self.last is None:
            return log_of(self.bound) - rate * self.first
        length = self.last - self.first + 1
        return log_of(self.bound) - rate * self.first + log(-expm1(-rate * length))


class Layers:
    """Draws from the exponential mechanism over the candidates of a `CountedLevels`.

    Args:
        counted: the candidates and their errors.
        rate: above 0; the factor of the error in the exponent.
        far: a level beyond which little probability lies (a guess: it decides about time alone).
        pause: called before each count of candidates and each round, so that a run can be stopped.
    """

    def __init__(
        self, counted: CountedLevels, *, rate: Fraction, far: int, pause: Callable[[], None] = lambda: None
    ) -> None:
        self.counted, self.rate, self._pause = counted, rate, pause
        self.blocks = self._cut(max(0, far))
        self._masses = lru_cache(maxsize=1)(self._sum_masses)

    def draw(self, rng: Randomness) -> Candidate:
        """A candidate y with probability proportional to g(y) e^(-rate L(y))."""
        failures = 0
        while True:
            self._pause()
            index = choose(self._masses, rng=rng)
            candidate = self._round(self.blocks[index], rng)
            if candidate is not None:
                return candidate
            # Every round has the right law whatever the blocks, so they may be cut again after some that failed.
            failures += 1
            if failures > _PATIENCE and self.blocks[index].can_be_halved:
                self.blocks[index : index + 1] = self._halves(self.blocks[index])
                self._masses.cache_clear()

    def _round(self, block: _Block, rng: Randomness) -> Candidate | None:
        """Steps 2 and 3."""
        if block.last is None:
            level = block.first + _level_in(None, self.rate, rng)
            candidate: Candidate | None = self.counted.draw_any(rng)
        else:
            level = block.first + _level_in(block.last - block.first + 1, self.rate, rng)
            candidate = self.counted.draw(block.last, rng)
        if candidate is None or self.counted.error(candidate) > level:
            return None
        return candidate

    def _cut(self, far: int) -> list[_Block]:
        """Blocks that cover all levels, those that hold nothing left out."""
        blocks = [self._block(0, far), _Block(first=far + 1, last=None, bound=self.counted.everything())]
        blocks = [block for block in blocks if block.bound[0]]
        while True:
            loosest = _loosest(blocks, float(self.rate))
            if loosest is None or len(blocks) > _MAX_BLOCKS:
                return blocks
            blocks[loosest : loosest + 1] = self._halves(blocks[loosest])

    def _halves(self, block: _Block) -> list[_Block]:
        # Of levels without end, as many as lie before them are taken: so a guess that was too near is soon mended.
        middle = 2 * block.first + 1 if block.last is None else (block.first + block.last) // 2
        later = _Block(first=middle + 1, last=block.last, bound=block.bound)
        earlier = self._block(block.first, middle)
        return [earlier, later] if earlier.bound[0] else [later]

    def _block(self, first: int, last: int) -> _Block:
        self._pause()
        return _Block(first=first, last=last, bound=self.counted.within(last))

    def _sum_masses(self, precision: int) -> CertifiedSums:
        """Running sums of the blocks' masses, in a unit that makes the largest about 2**precision."""
        bits = precision + 16
        rate = float(self.rate)
        unit = bits - int(max(block.log_mass(rate) for block in self.blocks) / log(2))
        masses: list[Interval] = []
        for block in self.blocks:
            low, high, shift = decay(self.rate * block.first, bits=bits)
            mantissa, exponent = block.bound
            up = unit + exponent - shift
            low, high = _shifted(low * mantissa, high * mantissa, up)
            if block.last is not None:
                length = block.last - block.first + 1
                least, most = exp_interval(-self.rate * length, precision=bits)
                low, high = low * ((1 << bits) - most) >> bits, ceil_shift(high * ((1 << bits) - least), bits)
            masses.append((low, high))
        return CertifiedSums.of(masses)


def _loosest(blocks: list[_Block], rate: float) -> int | None:
    """The block to halve: the one with most mass that no round will use; None if a round has a fair chance."""
    highest = max(block.log_mass(rate) for block in blocks)
    masses = [exp(block.log_mass(rate) - highest) for block in blocks]
    logs = [-inf, *(log_of(block.bound) for block in blocks)]
    growths = [high - low for low, high in pairwise(logs)]
    used = [mass * _filled(block, rate, growth) for mass, block, growth in zip(masses, blocks, growths, strict=True)]
    if sum(used) >= _FAIR_CHANCE * sum(masses):
        return None
    return max(range(len(blocks)), key=lambda index: masses[index] - used[index])


def decay(exponent: Fraction, *, bits: int) -> tuple[int, int, int]:
    """(lo, hi, shift) with lo <= e^-exponent * 2**shift <= hi and hi - lo <= lo / 2**bits, for exponent >= 0.

    e^-(exponent / 2**s) is above a half, and is squared s times, each time rounded outwards; a squaring doubles the
    relative width and adds one unit of the last place.
    """
    squarings = max(0, (2 * exponent.numerator // exponent.denominator).bit_length())
    kept = bits + squarings + 8
    low, high = exp_interval(-exponent / (1 << squarings), precision=kept)
    shift = kept
    for _ in range(squarings):
        low, high, shift = low * low, high * high, 2 * shift
        spare = low.bit_length() - kept
        low, high, shift = low >> spare, ceil_shift(high, spare), shift - spare
    return low, high, shift


def _shifted(low: int, high: int, up: int) -> Interval:
    if up >= 0:
        return low << up, high << up
    return low >> -up, ceil_shift(high, -up)


def log_of(number: Scaled) -> float:
    """The natural logarithm, in floating point; -inf of 0."""
    mantissa, exponent = number
    return (log2(mantissa) + exponent) * log(2) if mantissa else -inf


def _filled(block: _Block, rate: float, growth: float) -> float:
    """What part of a block's mass is used, if ln F grows by `growth` over it, in a straight line."""
    if block.last is None or not block.can_be_halved or growth <= 0:
        return 1.0
    if growth == inf:
        growth = 100.0
    width = rate * (block.last - block.first + 1)
    # The mean of e^(growth (u - 1)) under the weight e^(-width u), 0 <= u <= 1.
    rise = growth - width
    if abs(rise) < 1e-9:
        above = exp(-growth)
    elif rise > 0:
        above = exp(-width) * -expm1(-rise) / rise
    else:
        above = exp(-growth) * expm1(rise) / rise
    return above / (-expm1(-width) / width)


def _level_in(length: int | None, rate: Fraction, rng: Randomness) -> int:
    """k in 0 ... length - 1 (or on without end) with probability exactly proportional to e^(-rate k).

    Short blocks: an even k, kept with probability e^(-rate k) >= 1/e. Others: k = stretch * d + part, where e^(-rate
    stretch) <= 1/e; an even part, kept with probability e^(-rate part); d goes on with probability e^(-rate stretch).
    """
    if length is not None and rate * length <= 1:
        while True:
            k = random_below(length, rng)
            if _survives(rate * k, rng):
                return k
    stretch = ceil_div(rate.denominator, rate.numerator)
    while True:
        k = random_below(stretch, rng)
        if not _survives(rate * k, rng):
            continue
        while _survives(rate * stretch, rng):
            k += stretch
        if length is None or k < length:
            return k


def _survives(exponent: Fraction, rng: Randomness) -> bool:
    """True with probability e^-exponent."""
    return bernoulli(lambda precision: exp_interval(-exponent, precision=precision), rng=rng)
