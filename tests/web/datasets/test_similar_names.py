"""Which columns of two tables are proposed as the same: those whose names differ only in how they are written."""

from itertools import combinations, permutations

import pytest

from releases.schema.similar_names import similar_names

#: Names of one column each, in all the ways that are seen to be the same.
SPELLINGS = (
    ("age", "Age", "AGE", " age ", "_age"),
    ("birth date", "Birth_Date", "birth-date", "BIRTH  DATE", "birth_-date", "birth\tdate"),
    ("straße", "STRASSE", "Strasse"),
    ("größe", "GRÖSSE", "gro\u0308ße"),
    ("é id", "e\u0301-ID"),
)
#: All of them are other columns than those above, and than one another.
OTHERS = ("ages", "agé", "birthdate", "date birth", "birth.date", "age2", "a ge", "grosse", "")


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda names: names[0])
def test_every_two_spellings_of_a_name_are_paired_and_no_two_names(spellings):
    for there, here in permutations(spellings, 2):
        found = similar_names([there, "x", *OTHERS], ["y", here, *OTHERS])
        assert (found.pairs, found.unclear) == ({there: here}, ())
    for one, other in combinations([*OTHERS, spellings[0]], 2):
        assert similar_names([one], [other]).pairs == {}


def test_a_name_that_both_tables_have_is_of_no_other_column():
    found = similar_names(["age", "sex"], ["age", "Age", "sex"])
    assert (found.pairs, found.unclear) == ({}, ())
    found = similar_names(["age", "Age"], ["age"])
    assert (found.pairs, found.unclear) == ({}, ())


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (["age"], ["Age", "AGE"]),
        (["age", "Age"], ["AGE"]),
        (["birth date", "birth-date"], ["birth_date", "Birth date"]),
    ],
)
def test_of_several_names_that_are_written_alike_none_is_paired_and_all_are_named(there, here):
    found = similar_names([*there, "sex"], [*here, "Sex"])
    assert found.pairs == {"sex": "Sex"}
    assert found.unclear == ((tuple(there), tuple(here)),)


def test_a_name_twice_is_one_column():
    """A formula reads a column that is declared too."""
    assert similar_names(["age", "age"], ["Age"]).pairs == {"age": "Age"}
