"""What a certificate proves of synthetic rows beside the released counts, from receipts alone."""

import pytest

from releases.presentation.results.closer import rows_are_closer
from tests.engine import telling

SCHEMA = telling.schema_of(telling.categories([2, 3, 2])).to_json()
NAMES = [each["name"] for each in SCHEMA["columns"]]
PAIRS = [[NAMES[0], NAMES[1]], [NAMES[0], NAMES[2]], [NAMES[1], NAMES[2]]]


def receipt(apart=900.0, tables=PAIRS, alpha=80.0, **more):
    beside = {} if apart is None else {"synthetic_beside": {"outside": 0, "mean_distance": apart}}
    return {
        "schema": SCHEMA,
        "workload": {"version": 1, "queries": [{"marginal": each} for each in tables]},
        "bound": {"alpha": alpha, "proof": "proved before the release", "beta": "1/20"},
        **beside,
        **more,
    }


def certificate(means, *, what=("synthetic rows",), worst=60, columns=NAMES, epsilon="0.05"):
    asked = {
        "workload": {"version": 1, "queries": []},
        "released": {each: {"sha256": "0" * 64} for each in what},
        "means": list(means),
        "columns": list(columns),
    }
    notes = {"at most": worst, "mean errors": {word: {"tables": 3, "at most": most} for word, most in means.items()}}
    return {
        "workload": {"version": 1, "queries": [{"largest_error": asked}]},
        "notes": notes,
        "bound": {"beta": "1/20"},
        "budget": {"epsilon": epsilon},
    }


def test_rows_are_closer_where_twice_what_is_certified_is_below_the_distance_and_not_a_row_before():
    assert rows_are_closer(receipt(apart=900.0), [certificate({"asked": 450.0})]) is None
    said = rows_are_closer(receipt(apart=900.5), [certificate({"asked": 450.0})])
    assert said.sentence == (
        "At 95% confidence the synthetic rows are within 450 rows of the true table, on average over the 3 tables "
        "asked about, and the released counts are at least 450 rows away."
    )
    assert (
        said.worst == "None of their counts is off by more than 60 rows; released counts may be off by up to 80 rows."
    )


def test_which_of_several_certificates_speaks_does_not_depend_on_what_they_found():
    """The smallest of twenty numbers that are each at least the truth in 19 of 20 cases often is below it."""
    lucky, dear = certificate({"asked": 10.0}), certificate({"asked": 500.0}, epsilon="0.1")
    assert rows_are_closer(receipt(), [lucky]) is not None
    assert rows_are_closer(receipt(), [lucky, dear]) is None
    first, second = certificate({"asked": 30.0}), certificate({"asked": 20.0})
    assert "within 30 rows" in rows_are_closer(receipt(), [first, second]).sentence


def test_the_largest_error_is_named_where_it_is_narrower_and_the_other_is_proved():
    assert not rows_are_closer(receipt(alpha=60.0), [certificate({"asked": 10.0})]).worst
    expected = {"alpha": 80.0, "proof": "expected, not proved", "beta": "1/20"}
    assert not rows_are_closer(receipt(bound=expected), [certificate({"asked": 10.0})]).worst


@pytest.mark.parametrize(
    ("means", "tables", "is_shown"),
    [
        ({"pairs": 10.0}, PAIRS, True),
        ({"triples": 10.0}, PAIRS, False),
        ({"triples": 10.0}, [NAMES], True),
        # The mean over all pairs is none over some of them.
        ({"pairs": 10.0}, PAIRS[:2], False),
        ({"pairs": 10.0}, [*PAIRS, PAIRS[0][::-1]], False),
        ({"asked": 10.0}, PAIRS[:2], True),
    ],
)
def test_a_mean_says_something_of_the_tables_it_is_over_alone(means, tables, is_shown):
    assert (rows_are_closer(receipt(tables=tables), [certificate(means)]) is not None) == is_shown


def test_nothing_is_said_without_a_certificate_of_the_rows_alone_or_without_the_distance():
    assert rows_are_closer(receipt(), []) is None
    assert rows_are_closer(receipt(), [certificate({"asked": 10.0}, what=("released answers",))]) is None
    assert (
        rows_are_closer(receipt(), [certificate({"asked": 10.0}, what=("synthetic rows", "released answers"))]) is None
    )
    assert rows_are_closer(receipt(apart=None), [certificate({"asked": 10.0})]) is None
    assert rows_are_closer(receipt(tables=[]), [certificate({"asked": 10.0})]) is None
