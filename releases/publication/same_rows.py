"""Whether two releases of one table count the same rows, or the same persons."""

from __future__ import annotations

from releases.engine.domain.schema import Schema


def count_the_same_rows(one: Schema, other: Schema) -> bool:
    """Whether the true counts are the same in two releases whose columns are declared alike, whatever is in the table:
    a column of one alone leaves no row out. Which of a person's rows are kept depends on all columns, except where
    persons are counted, each of all their rows.
    """
    if (one.unit, one.neighbours) != (other.unit, other.neighbours):
        return False
    if one.universe.left_out != other.universe.left_out:
        return False
    alone = set(one.universe.attributes) ^ set(other.universe.attributes)
    keeps_all = one.unit.kind == "row" or (one.counts_persons and other.counts_persons)
    return not alone or (keeps_all and not any(each.may_drop for each in alone))
