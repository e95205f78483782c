"""The inner loop of `possible_rows`, compiled by numba. Importing this imports numba: do it late."""

from __future__ import annotations

from typing import Any

import numpy as np

from releases.engine.estimation.mixture_kernels import _jit, _uniform


@_jit
def settle(
    rows: Any,
    columns: Any,
    counts: Any,
    others: Any,
    starts: Any,
    own: Any,
    strides: Any,
    sizes: Any,
    excess: Any,
    rules: Any,
    named_at: Any,
    named: Any,
    order: Any,
    temperature: float,
    state: Any,
) -> None:
    """Move rows along some columns to the value that lowers the sum of squares of `excess` the most, among those with
    which the row has no impossible combination.

    Moving a row from u to v changes half of that sum by m + r(v) - r(u), with m the number of pairs that hold the
    column and r the sum of their excess at the row.

    Args:
        rows: shape (rows, d), changed in place, and `excess`, rows minus expected rows in every cell, with them.
        columns: along which rows move, k of them.
        counts: how many pairs hold each of them.
        others, starts, own, strides: shape (k, most pairs), for each pair of such a column the other one, where its
            table begins, and the strides of both.
        sizes: bins of the columns.
        rules: shape (combinations, longest): their columns, -1 behind them.
        named_at: where the bins of each begin in `named`, which says which a combination names.
        order: of the rows.
        temperature: in units of m: how much a move may raise the sum.
    """
    base = np.empty(others.shape[1], np.int64)
    for place in range(len(order)):
        row = order[place]
        for k in range(len(columns)):
            axis, pairs = columns[k], counts[k]
            now, here = rows[row, axis], 0.0
            for one in range(pairs):
                base[one] = starts[k, one] + rows[row, others[k, one]] * strides[k, one]
                here += excess[base[one] + now * own[k, one]]
            best = now
            least = -temperature * pairs * np.log(_uniform(state)) if temperature > 0 else 0.0
            for value in range(sizes[k]):
                if value != now:
                    change = pairs - here
                    for one in range(pairs):
                        change += excess[base[one] + value * own[k, one]]
                    if change < least:
                        rows[row, axis] = value
                        is_possible = True
                        for rule in range(len(rules)):
                            has = True
                            for member in range(rules.shape[1]):
                                if rules[rule, member] >= 0:
                                    at = named_at[rule, member] + rows[row, rules[rule, member]]
                                    if not named[at]:
                                        has = False
                                        break
                            if has:
                                is_possible = False
                                break
                        if is_possible:
                            best, least = value, change
            rows[row, axis] = best
            if best != now:
                for one in range(pairs):
                    excess[base[one] + now * own[k, one]] -= 1
                    excess[base[one] + best * own[k, one]] += 1
