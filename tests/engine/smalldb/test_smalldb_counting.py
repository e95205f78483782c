"""Small databases are counted right, drawn by layers of levels, and workloads are recognised as the shape they have.

The laws of whole draws are in `test_smalldb`; here are the numbers that they rest on, each against enumeration or
arithmetic of any precision.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb, factorial, log

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from releases.engine.noise.randomness import StreamRandomness
from releases.engine.smalldb import kernels, level_sampler
from releases.engine.smalldb.candidates import (
    Databases,
    all_candidates,
    draw_evenly,
    exact_number,
    log_share_of_worst,
    scaled,
    ways,
    weight_table,
)
from releases.engine.smalldb.enumeration import read_signatures
from releases.engine.smalldb.forest_sampler import ForestCounter
from releases.engine.smalldb.strategies import Forests, Layered
from releases.engine.smalldb.tree import read_forest
from tests.engine.goodness import FALSE_ALARM, Words, p_value
from tests.engine.small_databases import (
    CASES,
    CASES_AND_DATABASES,
    A,
    Everything,
    asked,
    flat,
    kinds_of,
    matrix,
    outcome,
    predicate,
    setting,
    shape_for,
    tables_of,
)

LAYERED = [
    (name, databases)
    for name, databases in CASES_AND_DATABASES
    if isinstance(shape_for(CASES[name], databases), Layered)
]


def forest_counter(sizes, queries, *, counts, databases=Databases.MULTISETS, outside=1, **given_):
    workload = asked(sizes, queries)
    forest = read_forest(workload.families, workload.universe)
    counts = np.array(counts, dtype=np.int64)
    return ForestCounter(forest=forest, databases=databases, outside=outside, counts=counts, **given_)


def a_table(draw, universe, *, most=12):
    return draw(st.lists(st.integers(0, most), min_size=universe.size, max_size=universe.size))


@given(st.sampled_from(Databases), st.integers(1, 10**12), st.integers(1, 300))
@settings(max_examples=40)
def test_a_stored_weight_is_never_too_low_and_hardly_too_high(databases, cells, most):
    f, e = weight_table(databases, cells=cells, most=most)
    for count in {0, 1, most // 2, most}:
        stored, true = exact_number(f[count], e[count]), ways(databases, cells=cells, count=count)
        assert true <= stored <= true * (1 + Fraction(1, 2**51))
        mantissa, exponent = scaled(f[count], e[count])
        assert mantissa * Fraction(2) ** exponent == stored


@pytest.mark.parametrize("databases", list(Databases))
def test_the_worst_share_is_that_of_the_rarest_counts(databases):
    """ln(all / least g) against all vectors of counts of three kinds with 2, 3 and 5 cells."""
    cells, most = (2, 3, 5), 6
    shares = log_share_of_worst(databases, cells=10, fewest=2, kinds=3, most=most)
    for size in range(1, most + 1):
        vectors = [each for each in product(range(size + 1), repeat=3) if sum(each) == size]
        constant = factorial(size) if databases is Databases.SEQUENCES else 1
        weights = [
            constant * np.prod([ways(databases, cells=w, count=y) for w, y in zip(cells, each, strict=True)])
            for each in vectors
        ]
        assert sum(weights) == all_candidates(databases, cells=10, kinds=3, size=size)
        assert shares[size - 1] == pytest.approx(float(mpmath.log(sum(weights) / min(weights))))


@pytest.mark.parametrize("databases", list(Databases))
def test_an_even_draw_is_even(databases):
    """Chi-square of 4000 draws; a right sampler fails with probability 1e-6."""
    cells, size, rng = (1, 3, 2), 3, StreamRandomness(b"even")
    drawn = Counter(tuple(draw_evenly(databases, cells=cells, size=size, rng=rng).tolist()) for _ in range(4000))
    vectors = [each for each in product(range(size + 1), repeat=3) if sum(each) == size]

    def law(kind):
        return np.array(
            [
                float(np.prod([ways(kind, cells=w, count=y) for w, y in zip(cells, each, strict=True)]))
                for each in vectors
            ]
        )

    observed = np.array([drawn[each] for each in vectors])
    assert p_value(observed, law(databases)) > FALSE_ALARM
    for other in set(Databases) - {databases}:
        assert p_value(observed, law(other)) < FALSE_ALARM


@pytest.mark.parametrize(("name", "databases"), LAYERED)
def test_the_number_within_every_level_is_that_of_enumeration_and_never_too_low(name, databases):
    case, shape = CASES[name], shape_for(CASES[name], databases)
    everything = Everything.of(case, databases)

    @settings(max_examples=8, database=None, derandomize=True)
    @given(st.data())
    def counted(data):
        cells = a_table(data.draw, case.workload.universe)
        tables = tables_of(case.workload, shape, cells)
        rows = data.draw(st.integers(1, 60))
        counter = shape.counted(kinds_of(shape, tables), setting(case.size, rows=rows))
        levels = everything.within(flat(tables), rows=rows)
        before = 0
        for level, true in levels:
            # One below a level nothing of it counts yet.
            for at, expected in ((level - 1, before), (level, true)):
                mantissa, exponent = counter.within(at) if at >= 0 else (0, 0)
                found = mantissa * Fraction(2) ** exponent
                assert expected <= found <= expected * (1 + Fraction(1, 2**40))
            before = true
        mantissa, exponent = counter.everything()
        assert mantissa * Fraction(2) ** exponent == sum(everything.weights) == before

    counted()


def test_numbers_past_the_range_of_a_double_are_counted():
    """The prefixes of 40 cells of 10^30 each: C(40 * 10^30 + 299, 300) databases of 300 rows, some 10^8870."""
    counter = forest_counter((40,), [A], outside=10**30, size=300, rows=780, counts=range(40))
    mantissa, exponent = counter.within(780 * 300)
    whole = comb(40 * 10**30 + 299, 300)
    assert 0 <= Fraction(mantissa * 2**exponent, whole) - 1 < Fraction(1, 2**30)
    drawn = counter.draw(780 * 20, StreamRandomness(b"large"))
    assert drawn.sum() == 300
    assert counter.error(drawn) <= 780 * 20


def test_counts_far_above_the_rows_released_overflow_nothing():
    """A noisy number of rows may be 1 where the table has 2^31: four times that is 0 to 32 bits."""
    counts, size = np.array([2**30, 2**30, 7], dtype=np.int64), 4
    for queries in ([A], [{"marginal": ["a"]}]):
        workload = asked((3,), queries)
        counter = forest_counter((3,), queries, size=size, rows=1, counts=counts)
        rows = matrix(workload.families, workload.universe)
        errors = {
            each: max(abs(int(row @ np.array(each)) - size * int(row @ counts)) for row in rows)
            for each in product(range(size + 1), repeat=3)
            if sum(each) == size
        }
        for level in (0, 2**31, min(errors.values()) - 1):
            assert counter.within(level)[0] == 0
        for level in set(errors.values()):
            mantissa, exponent = counter.within(level)
            assert round(mantissa * 2.0**exponent) == sum(error <= level for error in errors.values())
        drawn = counter.draw(max(errors.values()), StreamRandomness(b"far"))
        assert counter.error(drawn) == errors[tuple(drawn.tolist())]


FOREST_CASES = [
    (name, databases)
    for name, databases in LAYERED
    if isinstance(shape_for(CASES[name], databases), Forests) and len(shape_for(CASES[name], databases).parts) == 1
]


def _walk_probability(counter, made, counts):
    """The probability that the walk down a forest's tables comes to these counts, exactly."""
    probability = Fraction(1)
    for slot in range(counter.forest.kinds, counts.size):
        low, shares = counter._shares(made.tables, counts, slot)
        (left,), _ = counter._parts(slot, slot + 1)
        probability *= shares[int(counts[left]) - low] / sum(shares)
    if made.chain:
        running = np.cumsum(counts[counter.forest.chain]).tolist()
        for first, offset, f, e in counter._segments(made.chain, made.tables):
            for k in range(first + offset.size - 1, first - 1, -1):
                low, high = (int(made.chain.low[k - 1]), int(made.chain.high[k - 1])) if k else (0, 0)
                at = int(offset[k - first])
                row = low, [exact_number(f[at + i], e[at + i]) for i in range(high - low + 1)]
                least, shares = counter._chain_shares(made.chain, made.tables, k, running[k], row)
                probability *= shares[(running[k - 1] if k else 0) - least] / sum(shares)
    return probability


@pytest.mark.parametrize("grain", [0, 4], ids=["all bits", "four bits"])
@pytest.mark.parametrize(("name", "databases"), FOREST_CASES)
def test_walk_and_correction_together_have_exactly_the_claimed_probability(name, databases, grain):
    """q(y) r(y) = g(y) / B for every y within the level, in fractions, however coarse the tables are."""
    case, shape = CASES[name], shape_for(CASES[name], databases)
    everything = Everything.of(case, databases)
    universe = case.workload.universe
    tables = tables_of(case.workload, shape, [3 * cell % 7 for cell in range(universe.size)])
    rows = int(tables[0].sum())
    counter = ForestCounter(
        forest=shape.forests[0],
        databases=databases,
        outside=shape.outside,
        size=case.size,
        rows=rows,
        counts=kinds_of(shape, tables)[0],
        grain=grain,
    )
    errors = everything.errors(flat(tables), rows=rows)
    level = sorted(errors)[len(errors) // 2]
    made = counter._level(level)
    mantissa, exponent = counter.within(level)
    bound = mantissa * Fraction(2) ** exponent
    total, corrections = Fraction(0), []
    for outcome_of, weight, error in zip(everything.outcomes, everything.weights, errors, strict=True):
        if error > level:
            continue
        (table,) = outcome_of
        own = shape.parts[0].of_kinds(np.array(table))[counter._kind_of_leaf]
        counts = shape.forests[0].sums(own)
        q = _walk_probability(counter, made, counts)
        factors = list(counter._factors(made, counts))
        assert all(0 < factor <= 1 for factor in factors)
        r = Fraction(1)
        for factor in factors:
            r *= factor
        assert q * r == Fraction(weight) / bound
        if not grain:
            assert 1 - r <= Fraction(counter._loss)
        total += q
        corrections.append(r)
    assert total == 1
    # With few bits there is something to correct.
    assert not grain or min(corrections) < Fraction(99, 100)


def test_without_the_correction_coarse_tables_give_another_law(monkeypatch):
    """Tables of one bit: with the correction the law within a level is right, without it chi-square sees that.

    1000 draws each; a right draw fails with probability 1e-6.
    """
    case, databases = CASES["one marginal"], Databases.SEQUENCES
    counter = forest_counter(
        case.sizes, case.queries, databases=databases, size=4, rows=16, counts=[9, 0, 4, 2, 1], grain=1
    )
    vectors = [each for each in product(range(5), repeat=5) if sum(each) == 4]
    within = [each for each in vectors if counter.error(np.array(each)) <= 32]
    law = np.array([float(np.prod([ways(Databases.SEQUENCES, cells=1, count=y) for y in each])) for each in within])

    def drawn(seed):
        rng, found = StreamRandomness(seed), Counter()
        while found.total() < 1000:
            if (candidate := counter.draw(32, rng)) is not None:
                found[tuple(candidate.tolist())] += 1
        assert set(found) <= set(within)
        return np.array([found[each] for each in within])

    assert p_value(drawn(b"kept"), law) > FALSE_ALARM
    monkeypatch.setattr(ForestCounter, "_keeps", lambda self, made, counts, rng: True)
    assert p_value(drawn(b"all"), law) < FALSE_ALARM


@given(
    st.lists(st.integers(1, 2**53 - 1), min_size=2, max_size=9),
    st.lists(st.tuples(st.integers(1, 2**53 - 1), st.integers(-200, 200)), min_size=9, max_size=9),
    st.data(),
)
@settings(max_examples=60)
def test_a_word_decides_only_where_all_that_it_may_begin_falls_to_one_count(mantissas, others, data):
    """The kernel against fractions, at words around every boundary between two counts."""
    count = len(mantissas)
    exponents = data.draw(st.lists(st.integers(-1, 1), min_size=2 * count, max_size=2 * count))
    left = np.array(mantissas, dtype=np.float64)
    right = np.array([np.ldexp(float(mantissa), power) for mantissa, power in others[:count]])
    f, e = np.concatenate([left, right]), np.array(exponents, dtype=np.int32)
    shares = [exact_number(f[i], e[i]) * exact_number(f[2 * count - 1 - i], e[2 * count - 1 - i]) for i in range(count)]
    total, ends = sum(shares), [Fraction(0)]
    for share in shares:
        ends.append(ends[-1] + share / total)
    start, low, size = np.array([0, count]), np.array([0, 0]), np.array([count, count])
    words = {0, 2**64 - 1} | {
        min(max(int(end * 2**64) + step, 0), 2**64 - 1) for end in ends for step in (-(2**14), -1, 0, 1, 2**14)
    }
    for word in sorted(words):
        counts = np.array([0, 0, count - 1])
        which = np.array([0, 1, 2])
        slot = kernels.split_counts(
            f, e, start, low, size, which, np.array([0]), np.array([1]), 2, counts, np.array([word], np.uint64), 2, 3
        )
        if slot < 2:
            chosen = int(counts[0])
            assert ends[chosen] <= Fraction(word, 2**64)
            assert Fraction(word + 1, 2**64) <= ends[chosen + 1]
        else:
            # Undecided only near a boundary.
            assert min(abs(Fraction(word, 2**64) - end) for end in ends) < Fraction(1, 2**44)


def test_a_word_that_does_not_decide_is_followed_by_as_many_as_it_takes():
    """Three equal shares, and words at the end of the first: what comes after them says on which side it is."""
    counter = forest_counter((2,), [{"marginal": ["a"]}], size=2, rows=2, counts=[1, 1])
    third, most = 2**64 // 3, 2**64 - 1
    for words, expected in (
        ([third - 2**20], [0, 2]),
        ([third, 0], [0, 2]),
        ([third, most], [1, 1]),
        ([third, third, 0], [0, 2]),
        ([third, third, most], [1, 1]),
        ([2 * third + 2**20], [2, 0]),
    ):
        # The last word is that of the correction, which keeps all below one minus 2**-45 or so.
        given = Words([*words, 0])
        assert counter.draw(10, given).tolist() == expected
        assert given.left.size == 0


# Layers of levels


@given(st.fractions(min_value=0, max_value=5000), st.integers(20, 200))
@settings(max_examples=60)
def test_a_decay_is_enclosed_as_closely_as_it_says(exponent, bits):
    low, high, shift = level_sampler.decay(exponent, bits=bits)
    assert (high - low) << bits <= low
    with mpmath.workprec(8 * bits + 16000):
        true = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** shift
        assert low <= true <= high


class _Listed:
    """`CountedLevels` of candidates that are listed with their weights and errors; B is `slack` times F, rounded up."""

    def __init__(self, weights, errors, slack=Fraction(1)) -> None:
        self.weights, self.errors, self.slack = weights, errors, slack

    def everything(self):
        return sum(self.weights), 0

    def draw_any(self, rng):
        return self._any_of(range(len(self.weights)), sum(self.weights), rng)

    def within(self, level):
        inside = sum(weight for weight, error in zip(self.weights, self.errors, strict=True) if error <= level)
        return -int(-(inside * self.slack) // 1), 0

    def draw(self, level, rng):
        inside = [index for index, error in enumerate(self.errors) if error <= level]
        return self._any_of(inside, self.within(level)[0], rng)

    def error(self, candidate):
        return self.errors[candidate]

    def _any_of(self, inside, bound, rng):
        point = level_sampler.random_below(bound, rng)
        for index in inside:
            point -= self.weights[index]
            if point < 0:
                return index
        return None


WEIGHTS, ERRORS = [5, 1, 30, 40, 100, 7], [0, 3, 11, 4, 40, 4]


@pytest.mark.parametrize("far", [0, 5, 60, 10**9])
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 2000), Fraction(3, 4)])
def test_a_draw_by_layers_has_its_law_wherever_the_layers_are_cut(far, rate):
    """Chi-square of 1200 draws; a right draw fails with probability 1e-6."""
    listed = _Listed(WEIGHTS, ERRORS, slack=Fraction(5, 4))
    drawn = level_sampler.Layers(listed, rate=rate, far=far)
    rng = StreamRandomness(b"layers")
    observed = np.bincount([drawn.draw(rng) for _ in range(1200)], minlength=len(WEIGHTS))
    exponents = -float(rate) * np.array(ERRORS, dtype=float)
    law = np.array(WEIGHTS) * np.exp(exponents - exponents.max())
    assert p_value(observed, law) > FALSE_ALARM
    if rate == Fraction(1, 3):
        assert p_value(observed, law * np.exp(exponents / 2)) < FALSE_ALARM
        assert p_value(observed, law / np.array([1, 1, 1, 2, 1, 1])) < FALSE_ALARM


def test_a_guess_of_the_last_level_that_is_far_too_near_is_mended():
    """One candidate fits at level 10^6, a thousand million others at ten times that: no patience would find it."""
    listed = _Listed([1, 10**9], [10**6, 10**7])
    asked_for = []
    drawn = level_sampler.Layers(listed, rate=Fraction(1, 1000), far=0, pause=lambda: asked_for.append(1))
    assert drawn.draw(StreamRandomness(b"near")) == 0
    assert len(asked_for) < 200


@given(st.integers(0, 80), st.fractions(min_value=Fraction(1, 10**6), max_value=4), st.integers(10, 90))
@settings(max_examples=40)
def test_the_masses_of_the_blocks_are_enclosed_at_every_precision(far, rate, precision):
    drawn = level_sampler.Layers(_Listed(WEIGHTS, ERRORS), rate=rate, far=far)
    sums = drawn._sum_masses(precision)
    with mpmath.workprec(600):
        q = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        masses = [
            block.bound[0] * (q**block.first - (0 if block.last is None else q ** (block.last + 1)))
            for block in drawn.blocks
        ]
        total = sum(masses)
        low, high = sums.total
        assert low <= high
        running = mpmath.mpf(0)
        for index, mass in enumerate(masses):
            running += mass
            # Whatever the unit, every running sum lies between the shares that its ends enclose.
            assert mpmath.mpf(sums.below[index]) / high <= running / total * (1 + mpmath.mpf(2) ** -500)
            assert running / total <= mpmath.mpf(sums.above[index]) / low * (1 + mpmath.mpf(2) ** -500)
    assert [block.first for block in drawn.blocks] == sorted({block.first for block in drawn.blocks})
    assert drawn.blocks[-1].last is None


# Shapes of workloads


@st.composite
def workloads(draw):
    """A few families over three bins by two, or six bins."""
    sizes = draw(st.sampled_from([(3, 2), (6,), (2, 2, 2)]))
    names = "abc"[: len(sizes)]
    marginals = [{"marginal": list(chosen)} for k in (1, 2, 3) for chosen in combinations(names, k)]
    prefixes = [{"prefix": name} for name in names]

    def spans(name, size):
        start = st.integers(0, size - 1)
        return start.flatmap(lambda first: st.integers(first + 1, size).map(lambda stop: {name: (first, stop)}))

    one = st.one_of(*(spans(name, size) for name, size in zip(names, sizes, strict=True)))
    counts = st.lists(one, min_size=1, max_size=2).map(
        lambda parts: predicate(**{name: span for part in parts for name, span in part.items()})
    )
    family = st.one_of(st.sampled_from(marginals + prefixes), counts, counts)
    return asked(sizes, draw(st.lists(family, min_size=1, max_size=4)))


def _cross(one, other):
    return bool((one & other).any() and (one & ~other).any() and (other & ~one).any())


@given(workloads())
@settings(max_examples=100)
def test_a_workload_is_a_forest_exactly_where_no_two_of_its_sets_cross(workload):
    names = sorted({name for family in workload.families for name in family.attributes})
    universe = workload.universe.project(tuple(names))
    sets = matrix(workload.families, universe).astype(bool)
    crossing = any(_cross(one, other) for one, other in combinations(sets, 2))
    forest = read_forest(workload.families, universe)
    assert (forest is None) == crossing
    signatures = read_signatures(workload.families, universe)
    distinct = {tuple(row) for row in sets.tolist()}
    alike = [tuple(column) for column in sets.T.tolist()]
    for found in (forest, signatures):
        if found is None:
            continue
        # Cells are of one kind exactly where the same queries count them.
        assert len(set(zip(alike, found.kind_of_cell.tolist(), strict=True))) == len(set(alike)) == found.kinds
        assert np.bincount(found.kind_of_cell).tolist() == found.cells_of_kind.tolist()
    assert {tuple(row) for row in signatures.incidence[:, signatures.kind_of_cell].tolist()} == distinct
    assert len(signatures.incidence) == len(distinct)
    if forest is not None:
        assert forest.answers == len(distinct)


@pytest.mark.parametrize(("name", "databases"), CASES_AND_DATABASES)
def test_every_case_has_the_shape_it_is_tried_for(name, databases):
    case, shape = CASES[name], shape_for(CASES[name], databases)
    assert shape.title == case.title
    everything = Everything.of(case, databases)
    distinct = [len({tuple(row) for row in rows.tolist()}) for rows in everything.queries]
    assert shape.answers == sum(distinct)
    most = log(sum(everything.weights) / min(everything.weights))
    assert shape.log_ratios(case.size)[-1] >= most * (1 - 1e-9)
    drawn = shape.draw(
        kinds_of(shape, tables_of(case.workload, shape, [1] * case.workload.universe.size)),
        setting(case.size, rows=case.workload.universe.size),
        StreamRandomness(b"shape"),
        lambda: None,
    )
    assert outcome(shape, drawn) in everything.outcomes
