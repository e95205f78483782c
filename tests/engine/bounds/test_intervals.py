"""Every claimed enclosure, against mpmath at a much higher precision."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from releases.engine.arithmetic import intervals
from releases.engine.arithmetic.intervals import (
    CertifiedSums,
    ceil_div,
    ceil_shift,
    exp_interval,
    log_interval,
    sqrt_interval,
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


@pytest.mark.parametrize("precision", [1, 8, 64, 200])
def test_a_power_just_too_large_to_be_left_out_is_not(precision):
    """ln 2 is 0.693...: exponents between 0.6 and 0.72 times the precision, around the early way out of exp."""
    for step in range(600, 720, 4):
        exponent = -Fraction(step, 1000) * precision
        lo, hi = exp_interval(exponent, precision=precision)
        assert lo <= value_in_units(mpmath.exp, exponent, precision) <= hi


@settings(max_examples=200)
@given(st.fractions(Fraction(1, 2), 2, max_denominator=10**6), st.integers(20, 60))
def test_the_enclosure_does_not_rest_on_the_spare_bits(value, precision):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_SPARE_BITS", 0)
        lo, hi = log_interval(value, precision=precision)
        assert lo <= value_in_units(mpmath.log, value, precision) <= hi
        lo, hi = exp_interval(-value, precision=precision)
        assert lo <= value_in_units(mpmath.exp, -value, precision) <= hi


def test_an_exact_value_has_an_interval_of_no_width():
    assert exp_interval(0, precision=10) == (1024, 1024)
    assert log_interval(1, precision=10) == (0, 0)
    assert sqrt_interval(Fraction(9, 4), precision=10) == (1536, 1536)
    assert sqrt_interval(0, precision=10) == (0, 0)


@pytest.mark.parametrize("function", [exp_interval, log_interval, sqrt_interval])
def test_a_precision_below_one_bit_is_refused(function):
    with pytest.raises(InvalidInput, match=r"^precision: 0 must be at least 1 bit$"):
        function(Fraction(1, 2), precision=0)


@pytest.mark.parametrize(
    ("function", "value", "rule"),
    [
        (log_interval, Fraction(0), "must be above 0 to have a logarithm"),
        (log_interval, Fraction(-1, 3), "must be above 0 to have a logarithm"),
        (sqrt_interval, Fraction(-1), r"^value: -1 must not be below 0 to have a square root$"),
    ],
)
def test_what_has_no_logarithm_or_no_square_root_is_refused(function, value, rule):
    with pytest.raises(InvalidInput, match=rule):
        function(value, precision=8)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6), st.integers(0, 40))
def test_rounding_up_gives_the_smallest_integer_not_below(number, denominator, bits):
    assert ceil_div(number, denominator) - 1 < Fraction(number, denominator) <= ceil_div(number, denominator)
    assert ceil_shift(number, bits) - 1 < Fraction(number, 2**bits) <= ceil_shift(number, bits)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), st.integers(1, 9))
def test_exactly_known_weights_are_located_where_their_share_lies(weights, bits):
    sums = CertifiedSums.of([(weight, weight) for weight in weights])
    total = sum(weights)
    for drawn in range(2**bits):
        ends = (Fraction(drawn, 2**bits) * total, Fraction(drawn + 1, 2**bits) * total)
        holding = [
            index
            for index in range(len(weights))
            if sum(weights[:index]) <= ends[0] and ends[1] <= sum(weights[: index + 1])
        ]
        located = sums.locate(drawn, bits=bits)
        assert located == (holding[0] if holding else None)


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
