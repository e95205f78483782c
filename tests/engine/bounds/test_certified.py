"""Certified bounds: they hold the true value, and threads do not disturb one another."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

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
    round_down,
    round_up,
)
from releases.engine.errors import Unpriceable

rationals = st.fractions(min_value=Fraction(1, 10**6), max_value=50, max_denominator=10**8)


@given(rationals)
def test_an_interval_holds_the_true_value_of_every_elementary_function(value):
    with mp.workdps(120):
        x = mp.mpf(value.numerator) / value.denominator
        for computed, true in (
            (enclose(value), x),
            (intervals().exp(enclose(value)), mp.exp(x)),
            (intervals().exp(-enclose(value)), mp.exp(-x)),
            (intervals().log(enclose(value)), mp.log(x)),
            (intervals().sqrt(enclose(value)), mp.sqrt(x)),
        ):
            low, high = below(computed), above(computed)
            assert mp.mpf(low.numerator) / low.denominator <= true <= mp.mpf(high.numerator) / high.denominator
            assert high - low <= abs(high) / 10**50 + Fraction(1, 10**110)


@given(st.fractions(min_value=-5, max_value=5, max_denominator=10**15), st.integers(0, 12))
def test_rounding_goes_the_way_it_says(value, places):
    unit = Fraction(1, 10**places)
    assert value <= round_up(value, places=places) < value + unit
    assert value - unit < round_down(value, places=places) <= value
    assert ceiling(value, places=places) == round_up(value, places=places) / unit
    assert floor(value, places=places) == round_down(value, places=places) / unit


def test_what_is_too_small_or_too_large_to_write_is_bounded_or_refused():
    tiny = intervals().exp(-enclose(10**12))
    assert 0 < above(tiny) < Fraction(1, 10**100)
    assert below(tiny) <= 0
    with pytest.raises(Unpriceable, match="too large"):
        above(intervals().exp(enclose(10**9)))
    with pytest.raises(Unpriceable, match="not finite"):
        above(intervals().mpf("inf"))


def test_a_sixty_digit_number_is_bounded_from_above():
    value = reals().sqrt(number(Fraction(2)))
    with mp.workdps(100):
        bound = above_number(value)
        assert mp.mpf(bound.numerator) / bound.denominator > mp.sqrt(2)
    assert above_number(value) - Fraction(1414213562373095048801688724209698078570, 10**39) < Fraction(1, 10**38)


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
