"""A formula of columns that a table calls otherwise."""

import pytest

from releases.engine.domain.formulas import formula_of
from releases.engine.domain.impossible import Combination
from releases.engine.domain.privacy import PrivacyUnit

NUMBER = {"type": "integer"}


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("age / 10", {"age": "Age"}, "[Age] / 10"),
        ("[age] / [age of child] + child", {"age of child": "a]b", "child": "x y"}, "[age] / [a]]b] + [x y]"),
        # Two columns that change their names.
        ("a - b", {"a": "b", "b": "a"}, "[b] - [a]"),
        # A text, a function and a word of the language are no columns.
        (
            'if(prefix = "prefix", prefix(town, 2), "town")',
            {"prefix": "P"},
            'if([P] = "prefix", prefix(town, 2), "town")',
        ),
        ('recode(town, {"town": "a"}, "town")', {"town": "Town"}, 'recode([Town], {"town": "a"}, "town")'),
        ("sum_per_person(wage, 0, 100)", {"wage": "Wage"}, "sum_per_person([Wage], 0, 100)"),
        ("age", {"sex": "Sex"}, "age"),
    ],
)
def test_each_mention_of_a_column_gets_the_other_name_and_nothing_else_changes(text, names, expected):
    kinds = {"age": NUMBER, "age of child": NUMBER, "child": NUMBER, "a": NUMBER, "b": NUMBER, "wage": NUMBER}
    reads = [{"name": name, **kind} for name, kind in kinds.items()]
    formula = formula_of(text, reads, {})
    renamed = formula.of_columns(names)
    assert renamed.text == expected
    assert [each.name for each in renamed.reads] == [names.get(each.name, each.name) for each in formula.reads]
    assert [each.kind for each in renamed.reads] == [each.kind for each in formula.reads]
    back = {new: old for old, new in names.items()}
    assert renamed.of_columns(back).tree == formula.tree


def test_the_dates_that_a_formula_names_are_listed_once_each():
    reads = [{"name": "birth", "type": "date"}]
    text = (
        'if(birth < 2000-01-01, "before 1999-01-01", if(birth > 2019-12-31, "late", if(birth = 2000-01-01, "a", "b")))'
    )
    assert formula_of(text, reads, {}).dates_named == ("2000-01-01", "2019-12-31")
    assert formula_of("age + 1", [{"name": "age", **NUMBER}], {}).dates_named == ()


def test_combinations_and_people_go_with_the_names_too():
    combination = Combination(bins=(("age", ("0 to 14",)), ("status", ("married",))))
    assert combination.of_columns({"age": "Age"}).bins == (("Age", ("0 to 14",)), ("status", ("married",)))
    assert PrivacyUnit(kind="person", id_column="id", max_rows=3).of_columns({"id": "ID"}) == PrivacyUnit(
        kind="person", id_column="ID", max_rows=3
    )
    assert PrivacyUnit().of_columns({"id": "ID"}) == PrivacyUnit()
