"""Every claimed enclosure, against mpmath at a much higher precision, and every rounding."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from releases.engine.arithmetic.intervals import (
    CertifiedSums,
    ceil_div,
    ceil_shift,
    exp_interval,
    log_interval,
    sqrt_interval,
)
from releases.engine.arithmetic.rounding import (
    above,
    above_number,
    below,
    ceiling,
    enclose,
    floor,
    intervals,
    number,
    reals,
    round_up,
)
from releases.engine.errors import InvalidInput

precisions = st.integers(1, 300)
exponents = st.fractions(-400, 400, max_denominator=10**12)
positive = st.fractions(Fraction(1, 10**15), 10**15, max_denominator=10**15)


def value_in_units(function, value: Fraction, precision: int) -> mpmath.mpf:
    """function(value) * 2**precision, right to far more digits than the interval claims."""
    mpmath.mp.prec = precision + 1000
    return function(mpmath.mpf(value.numerator) / value.denominator) * mpmath.mpf(2) ** precision


@settings(max_examples=300)
@given(exponents, precisions)
@example(Fraction(0), 64)
@example(Fraction(-1, 2**60), 128)
@example(Fraction(-7, 10) * 64, 64)
@example(Fraction(-(10**30)), 256)
def test_the_interval_of_exp_encloses_the_value_and_is_two_units_wide_at_most(exponent, precision):
    lo, hi = exp_interval(exponent, precision=precision)
    assert lo <= value_in_units(mpmath.exp, exponent, precision) <= hi
    assert 0 <= lo <= hi <= lo + 2


@settings(max_examples=200)
@given(positive, precisions)
@example(Fraction(1), 64)
@example(Fraction(1, 2**70), 64)
@example(Fraction(3, 2), 1)
@example(Fraction(9, 4), 1)
@example(Fraction(2), 200)
def test_the_intervals_of_log_and_sqrt_enclose_the_value_and_are_two_units_and_one_wide_at_most(value, precision):
    lo, hi = log_interval(value, precision=precision)
    assert lo <= value_in_units(mpmath.log, value, precision) <= hi
    assert lo <= hi <= lo + 2
    lo, hi = sqrt_interval(value, precision=precision)
    assert lo * lo <= value * 4**precision <= hi * hi
    assert 0 <= lo <= hi <= lo + 1


@settings(max_examples=200)
@given(st.fractions(Fraction(1, 2), 2, max_denominator=10**6), st.integers(20, 60))
def test_the_enclosure_does_not_rest_on_the_spare_bits(value, precision):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("releases.engine.arithmetic.intervals._SPARE_BITS", 0)
        lo, hi = log_interval(value, precision=precision)
        assert lo <= value_in_units(mpmath.log, value, precision) <= hi
        lo, hi = exp_interval(-value, precision=precision)
        assert lo <= value_in_units(mpmath.exp, -value, precision) <= hi


def test_an_exact_value_has_an_interval_of_no_width():
    assert exp_interval(0, precision=10) == (1024, 1024)
    assert log_interval(1, precision=10) == (0, 0)
    assert sqrt_interval(Fraction(9, 4), precision=10) == (1536, 1536)
    assert sqrt_interval(0, precision=10) == (0, 0)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6), st.integers(0, 40))
def test_rounding_up_gives_the_smallest_integer_not_below(number, denominator, bits):
    assert ceil_div(number, denominator) - 1 < Fraction(number, denominator) <= ceil_div(number, denominator)
    assert ceil_shift(number, bits) - 1 < Fraction(number, 2**bits) <= ceil_shift(number, bits)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=6), st.integers(0, 5), st.data())
def test_a_located_draw_is_right_for_every_law_within_the_intervals(pairs, tail, data):
    sums = CertifiedSums.of([(lo, lo + width) for lo, width in pairs], tail=tail)
    true = [lo + Fraction(data.draw(st.integers(0, 8)), 8) * width for lo, width in pairs]
    total = sum(true) + Fraction(data.draw(st.integers(0, 8)), 8) * tail
    for drawn in range(64):
        index = sums.locate(drawn, bits=6)
        if index is not None:
            assert sum(true[:index]) <= Fraction(drawn, 64) * total
            assert Fraction(drawn + 1, 64) * total <= sum(true[: index + 1])


def test_weights_of_which_none_is_surely_above_zero_locate_nothing():
    assert CertifiedSums.of([(0, 0), (0, 0)]).locate(0, bits=8) is None
    assert CertifiedSums.of([(0, 3)]).locate(0, bits=8) is None


@pytest.mark.parametrize(
    ("function", "value", "precision", "rule"),
    [
        *((each, Fraction(1, 2), 0, "at least 1 bit") for each in (exp_interval, log_interval, sqrt_interval)),
        *((log_interval, value, 8, "must be above 0 to have a logarithm") for value in (Fraction(0), Fraction(-1, 3))),
        (sqrt_interval, Fraction(-1), 8, r"^value: -1 must not be below 0 to have a square root$"),
    ],
)
def test_what_has_no_interval_is_refused(function, value, precision, rule):
    with pytest.raises(InvalidInput, match=rule):
        function(value, precision=precision)


rationals = st.fractions(min_value=Fraction(1, 10**6), max_value=50, max_denominator=10**8)


@given(rationals)
def test_an_interval_holds_the_true_value_of_every_elementary_function(value):
    with mpmath.workdps(120):
        x = mpmath.mpf(value.numerator) / value.denominator
        for computed, true in (
            (enclose(value), x),
            (intervals().exp(enclose(value)), mpmath.exp(x)),
            (intervals().exp(-enclose(value)), mpmath.exp(-x)),
            (intervals().log(enclose(value)), mpmath.log(x)),
            (intervals().sqrt(enclose(value)), mpmath.sqrt(x)),
        ):
            low, high = below(computed), above(computed)
            assert mpmath.mpf(low.numerator) / low.denominator <= true <= mpmath.mpf(high.numerator) / high.denominator
            assert high - low <= abs(high) / 10**50 + Fraction(1, 10**110)


@given(st.fractions(min_value=-5, max_value=5, max_denominator=10**15), st.integers(0, 12))
def test_rounding_goes_the_way_it_says(value, places):
    unit = Fraction(1, 10**places)
    assert value <= round_up(value, places=places) < value + unit
    assert value - unit < unit * floor(value, places=places) <= value
    assert ceiling(value, places=places) == round_up(value, places=places) / unit


def test_threads_that_compute_at_once_do_not_take_digits_from_one_another():
    # mpmath's erfinv raises its context's precision while it runs. In a shared context these would differ.
    def both(index: int) -> tuple[Fraction, Fraction]:
        x = Fraction(index % 7 + 1, 9)
        return above_number(reals().erfinv(number(x))), above(intervals().exp(enclose(x)))

    alone = [both(index) for index in range(7)]
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(max_workers=8) as pool:
            together = list(pool.map(both, range(350)))
    finally:
        sys.setswitchinterval(patience)
    assert together == alone * 50
