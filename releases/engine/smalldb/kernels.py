"""Counting and walking loops of `forest_sampler`, compiled by numba. Import it in a function: it imports numba.

Numbers of databases pass the range of a double by thousands of digits, so a number is a pair: f * 2**(512 e), with f in
[2**-256, 2**256). Such a number is never 0. Only positive numbers are added and multiplied, so that the relative error
of a sum of n products is at most (n + 3) u with u = 2**-53, in whatever order it is taken; what is left out of a sum
for its exponent is below 2**-490 of the sum. `_up` then multiplies by 1 + 2 (n + 8) u: what is stored is at least the
exact sum of what was stored before, and at most 1 + 4 (n + 8) u times it.

A table holds one number for each count from `low` to `low + size - 1`, flat in `f` and `e` from `start`; `after[i]` is
the first place after i, and `before[i]` the last place before i, where the exponent is another than at i.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, frexp, ldexp
from typing import Any

import numba
import numpy as np

_Function = Callable[..., Any]

#: Sums may be reassociated and contracted, which the error bound above allows; nothing else is given up.
_FAST = {"reassoc", "contract", "nsz"}

_RADIX = 2.0**512
_SHRINK = 2.0**-512
_TOP = 2.0**256
_BOTTOM = 2.0**-256
#: 2 u.
_ULP = 2.0**-52


def _compiled(function: _Function, *, fastmath: set[str] | bool) -> _Function:
    try:
        # Without the interpreter's lock: the thread that keeps a worker's lease must not wait for the end of a loop.
        kernel: _Function = numba.njit(cache=True, fastmath=fastmath, nogil=True)(function)
    except RuntimeError:  # nowhere to write a cache: compile again in each process
        kernel = numba.njit(fastmath=fastmath, nogil=True)(function)
    return kernel


def _jit(function: _Function) -> _Function:
    return _compiled(function, fastmath=False)


def _fast_jit(function: _Function) -> _Function:
    return _compiled(function, fastmath=_FAST)


def _inline(function: _Function) -> _Function:
    kernel: _Function = numba.njit(inline="always")(function)
    return kernel


@_inline
def _up(s: float, exponent: int, terms: int, grain: int) -> tuple[float, int]:
    """A stored number that is at least the sum s * 2**(512 exponent) of `terms` products is meant to be."""
    if s >= _TOP:
        s *= _SHRINK
        exponent += 1
    elif s < _BOTTOM:
        s *= _RADIX
        exponent -= 1
    s *= 1.0 + (terms + 8) * _ULP
    if grain > 0:
        mantissa, power = frexp(s)
        s = ldexp(ceil(ldexp(mantissa, grain)), power - grain)
    return s, exponent


@_inline
def _run(f: Any, from_a: int, from_b: int, length: int) -> float:
    s = 0.0
    for q in range(length):
        s += f[from_a + q] * f[from_b - q]
    return s


@_inline
def _convolved(f: Any, e: Any, after: Any, before: Any, a: int, b: int, terms: int) -> tuple[float, int]:
    """Sum over q < terms of number[a + q] * number[b - q], as s * 2**(512 exponent), 2**-512 <= s < terms * 2**512.

    Within a run both exponents stand still. Of runs with other exponents, those one and two lower are kept apart and
    added at the end; a product three lower is below 2**-1024 of 2**512 beside one that is at least 2**-512.
    """
    s0 = s1 = s2 = 0.0
    top = -(1 << 40)
    while terms > 0:
        length = min(terms, after[a] - a, b - before[b])
        exponent = e[a] + e[b]
        s = _run(f, a, b, length)
        if exponent > top:
            if exponent == top + 1:
                s2, s1 = s1, s0
            elif exponent == top + 2:
                s2, s1 = s0, 0.0
            else:
                s2, s1 = 0.0, 0.0
            s0, top = s, exponent
        elif exponent == top:
            s0 += s
        elif exponent == top - 1:
            s1 += s
        elif exponent == top - 2:
            s2 += s
        a += length
        b -= length
        terms -= length
    return s0 + (s1 + s2 * _SHRINK) * _SHRINK, top


@_inline
def _mark_runs(e: Any, after: Any, before: Any, start: int, size: int) -> None:
    before[start] = start - 1
    for i in range(start + 1, start + size):
        before[i] = before[i - 1] if e[i] == e[i - 1] else i - 1
    after[start + size - 1] = start + size
    for i in range(start + size - 2, start - 1, -1):
        after[i] = after[i + 1] if e[i] == e[i + 1] else i + 1


@_jit
def mark_runs(e: Any, after: Any, before: Any, start: Any, size: Any, first: int, last: int) -> None:
    """Fill `after` and `before` of the tables first ... last - 1."""
    for t in range(first, last):
        _mark_runs(e, after, before, start[t], size[t])


@_fast_jit
def merge_tables(
    f: Any, e: Any, after: Any, before: Any, start: Any, low: Any, size: Any, pairs: Any, first: int, grain: int
) -> None:
    """Tables first, first + 1, ...: each the convolution of the pair of tables named, over its own counts."""
    for p in range(pairs.shape[0]):
        t, left, right = first + p, pairs[p, 0], pairs[p, 1]
        for i in range(size[t]):
            j = low[t] + i
            a = max(low[left], j - low[right] - size[right] + 1)
            terms = min(low[left] + size[left] - 1, j - low[right]) - a + 1
            from_a, from_b = start[left] + a - low[left], start[right] + j - a - low[right]
            s, exponent = _convolved(f, e, after, before, from_a, from_b, terms)
            f[start[t] + i], e[start[t] + i] = _up(s, exponent, terms, grain)
        _mark_runs(e, after, before, start[t], size[t])


@_inline
def _spot(f: Any, e: Any, a: int, b: int, terms: int, word: Any) -> int:
    """The q < terms in whose share of [0, 1) all of [word, word + 1) / 2**64 surely lies, or -1.

    Shares are those of number[a + q] * number[b - q]. Every partial sum computed is off by less than `doubt`.
    """
    top = e[a] + e[b]
    for q in range(1, terms):
        top = max(top, e[a + q] + e[b - q])
    whole = 0.0
    for q in range(terms):
        whole += _scaled(f[a + q] * f[b - q], e[a + q] + e[b - q] - top)
    doubt = (terms + 16) * _ULP * whole
    target = np.float64(word) * 2.0**-64 * whole
    so_far = 0.0
    for q in range(terms):
        if target - doubt < so_far and q > 0:
            return -1
        so_far += _scaled(f[a + q] * f[b - q], e[a + q] + e[b - q] - top)
        if target + doubt < so_far:
            return q
    return -1


@_inline
def _scaled(product: float, exponent: int) -> float:
    if exponent == 0:
        return product
    if exponent == -1:
        return product * _SHRINK
    if exponent == -2:
        return product * _SHRINK * _SHRINK
    return 0.0


@_jit
def split_counts(
    f: Any,
    e: Any,
    start: Any,
    low: Any,
    size: Any,
    table: Any,
    left: Any,
    right: Any,
    leaves: int,
    counts: Any,
    words: Any,
    first: int,
    last: int,
) -> int:
    """Divide the count of each slot last - 1, ..., first between its two parts, by one word each.

    Returns:
        The slot whose word does not decide, all after it being done; first - 1 where all are.
    """
    for slot in range(last - 1, first - 1, -1):
        one, two = left[slot - leaves], right[slot - leaves]
        t, u, j = table[one], table[two], counts[slot]
        a = max(low[t], j - low[u] - size[u] + 1)
        terms = min(low[t] + size[t] - 1, j - low[u]) - a + 1
        chosen = 0
        if terms > 1:
            from_a, from_b = start[t] + a - low[t], start[u] + j - a - low[u]
            chosen = _spot(f, e, from_a, from_b, terms, words[slot - leaves])
            if chosen < 0:
                return slot
        counts[one], counts[two] = a + chosen, j - a - chosen
    return first - 1


@_jit
def chain_windows(low: Any, high: Any, item: Any, item_low: Any, item_high: Any) -> bool:
    """Narrow the windows of cumulative counts to what can be reached from 0 and can reach the last. False: nothing."""
    last = low.size - 1
    from_low, from_high = 0, 0
    for k in range(last + 1):
        t = item[k]
        low[k] = max(low[k], from_low + item_low[t])
        high[k] = min(high[k], from_high + item_high[t])
        if low[k] > high[k]:
            return False
        from_low, from_high = low[k], high[k]
    for k in range(last - 1, -1, -1):
        t = item[k + 1]
        low[k] = max(low[k], low[k + 1] - item_high[t])
        high[k] = min(high[k], high[k + 1] - item_low[t])
        if low[k] > high[k]:
            return False
    return True


@_jit
def chain_rows(
    f: Any,
    e: Any,
    start: Any,
    item_low: Any,
    item_high: Any,
    plain: Any,
    item: Any,
    low: Any,
    high: Any,
    first: int,
    last: int,
    row_f: Any,
    row_e: Any,
    offset: Any,
    kept_f: Any,
    kept_e: Any,
    grain: int,
) -> None:
    """Rows first ... last - 1 of a chain: row k has, for each cumulative count j in its window, the number of ways.

    row[k][j] = sum over i of row[k - 1][i] * item_k[j - i], where row[-1] is 1 at 0. Item t of `plain` is 1 everywhere
    from 0 on, so that its row is a running sum.

    Args:
        row_f, row_e: two rows to work in, shape (2, widest); row (first - 1) % 2 holds that before the first.
        offset: where row k is to be kept, at k - first; -1 for nowhere.
    """
    for k in range(first, last):
        here, there = k & 1, (k + 1) & 1
        from_low, from_high = (low[k - 1], high[k - 1]) if k > 0 else (0, 0)
        old_f, old_e, new_f, new_e = row_f[there], row_e[there], row_f[here], row_e[here]
        t = item[k]
        if plain[t]:
            _running_row(old_f, old_e, from_low, from_high, new_f, new_e, low[k], high[k], grain)
        else:
            at, least, most = start[t], item_low[t], item_high[t]
            _item_row(f, e, at, least, most, old_f, old_e, from_low, from_high, new_f, new_e, low[k], high[k], grain)
        at = offset[k - first]
        if at >= 0:
            for i in range(high[k] - low[k] + 1):
                kept_f[at + i] = new_f[i]
                kept_e[at + i] = new_e[i]


@_inline
def _running_row(
    old_f: Any, old_e: Any, from_low: int, from_high: int, new_f: Any, new_e: Any, low: int, high: int, grain: int
) -> None:
    """new[j] = sum over i <= j of old[i]."""
    s, exponent, i = 0.0, 0, from_low
    for j in range(low, high + 1):
        while i <= min(j, from_high):
            s, exponent = _add(s, exponent, old_f[i - from_low], old_e[i - from_low])
            i += 1
        new_f[j - low], new_e[j - low] = _up(s, exponent, i - from_low, grain)


@_inline
def _item_row(
    f: Any,
    e: Any,
    start: int,
    least: int,
    most: int,
    old_f: Any,
    old_e: Any,
    from_low: int,
    from_high: int,
    new_f: Any,
    new_e: Any,
    low: int,
    high: int,
    grain: int,
) -> None:
    """new[j] = sum over i of old[i] * item[j - i], the item's counts being `least` to `most`."""
    for j in range(low, high + 1):
        s, exponent, terms = 0.0, 0, 0
        for i in range(max(from_low, j - most), min(from_high, j - least) + 1):
            at = start + j - i - least
            one, power = old_f[i - from_low] * f[at], old_e[i - from_low] + e[at]
            if one < _BOTTOM:
                one, power = one * _RADIX, power - 1
            elif one >= _TOP:
                one, power = one * _SHRINK, power + 1
            s, exponent = _add(s, exponent, one, power)
            terms += 1
        new_f[j - low], new_e[j - low] = _up(s, exponent, terms, grain)


@_inline
def _add(s: float, exponent: int, one: float, power: int) -> tuple[float, int]:
    """s * 2**(512 exponent) + one * 2**(512 power), s being 0 or at least 2**-256."""
    if s == 0.0:
        return one, power
    if power == exponent:
        s += one
    elif power == exponent - 1:
        s += one * _SHRINK
    elif power == exponent + 1:
        s, exponent = one + s * _SHRINK, power
    elif power > exponent:
        s, exponent = one, power
    if s >= _TOP:
        s, exponent = s * _SHRINK, exponent + 1
    return s, exponent


@_jit
def chain_walk(
    f: Any,
    e: Any,
    start: Any,
    item_low: Any,
    item_high: Any,
    plain: Any,
    item: Any,
    low: Any,
    high: Any,
    first: int,
    k: int,
    j: int,
    offset: Any,
    kept_f: Any,
    kept_e: Any,
    counts: Any,
    words: Any,
    scratch_f: Any,
    scratch_e: Any,
) -> tuple[int, int]:
    """From cumulative count j after position k back to position `first`: counts[k] = j - i, i drawn by its share.

    `offset[k - first]` is where row k - 1 is kept. Returns (k, j) where a word does not decide, else (first - 1, j).
    """
    while k >= first:
        t = item[k]
        old_low, old_high = (low[k - 1], high[k - 1]) if k > 0 else (0, 0)
        i = max(old_low, j - item_high[t])
        terms = min(old_high, j - item_low[t]) - i + 1
        chosen = 0
        if terms > 1:
            base = offset[k - first] + i - old_low
            for q in range(terms):
                scratch_f[q], scratch_e[q] = kept_f[base + q], kept_e[base + q]
                at = start[t] + j - i - q - item_low[t]
                # The item backwards, after the row: `_spot` reads the one forwards and the other backwards.
                scratch_f[2 * terms - 1 - q] = 1.0 if plain[t] else f[at]
                scratch_e[2 * terms - 1 - q] = 0 if plain[t] else e[at]
            chosen = _spot(scratch_f, scratch_e, 0, 2 * terms - 1, terms, words[k])
            if chosen < 0:
                return k, j
        counts[k] = j - i - chosen
        j = i + chosen
        k -= 1
    return k, j
