"""The universe: declared bins, and a named refusal for every way to declare them wrongly."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput

GENDER = {"name": "gender", "type": "categorical", "categories": ["female", "male"]}
AGE = {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}
WAGE = {"name": "wage", "type": "number", "edges": [0, 10.5, 20, 80]}


def schema(*columns, **others):
    return Schema.from_json({"version": 1, "columns": list(columns), **others})


def test_the_schema_of_the_formats_section_reads_as_it_says():
    region = {"name": "region", "type": "categorical", "categories": ["n"], "outside": "drop"}
    person = {"kind": "person", "id": "person_id", "max_rows": 2}
    read = schema(GENDER, AGE, WAGE, region, unit=person, neighbours="replace")
    assert (read.universe.shape, read.universe.size, read.unit.max_rows) == ((2, 5, 3, 1), 30, 2)
    assert (read.universe["age"].outside, read.universe["gender"].outside) == ("clamp", "drop")
    assert Schema.from_json(json.loads(json.dumps(read.to_json()))) == read


def test_bins_are_labelled_as_people_say_them():
    assert Attribute.from_json(AGE).labels == ("18 to 24", "25 to 34", "35 to 44", "45 to 54", "55 to 65")
    assert Attribute.from_json(WAGE).labels == ("[0, 10.5)", "[10.5, 20)", "[20, 80]")


@pytest.mark.parametrize(
    ("column", "field", "rule"),
    [
        ({**AGE, "edges": [18, 18]}, "columns[0] (age).edges", "must rise"),
        ({**AGE, "edges": [1]}, "columns[0] (age).edges", "must be 2"),
        ({**AGE, "edges": [1.5, 2]}, "columns[0] (age).edges", "whole numbers"),
        ({**AGE, "edges": "18,25"}, "columns[0] (age).edges", "must be a list"),
        ({**AGE, "edges": [0, float("nan")]}, "columns[0] (age).edges", "finite"),
        ({**AGE, "edges": [0, True]}, "columns[0] (age).edges", "must be a number"),
        ({**AGE, "outside": "female"}, "columns[0] (age).outside", '"clamp" or "drop"'),
        ({**GENDER, "categories": ["a", "a"]}, "columns[0] (gender).categories", "twice"),
        ({**GENDER, "categories": []}, "columns[0] (gender).categories", "1 to"),
        ({**GENDER, "categories": [1.5]}, "columns[0] (gender).categories", "must be text"),
        ({**GENDER, "outside": "other"}, "columns[0] (gender).outside", "one of the declared"),
        ({**GENDER, "edges": [1, 2]}, "columns[0] (gender).edges", "cannot be declared of a categorical column"),
        ({**AGE, "categories": ["x"]}, "columns[0] (age).categories", "cannot be declared of a column of numbers"),
        ({"name": "x", "type": "clock"}, "columns[0] (x).type", "must be one of"),
        ({"name": 3, "type": "integer"}, "columns[0].name", "must be text"),
        ({"name": " x", "type": "integer", "edges": [1, 2]}, "columns[0] ( x).name", "without spaces"),
        ({**AGE, "decimals": 1}, "columns[0] (age).decimals", "0 for whole numbers"),
        ({**WAGE, "decimals": 10}, "columns[0] (wage).decimals", "must be 1 to 9"),
        ({**WAGE, "decimals": -1}, "columns[0] (wage).decimals", "whole number"),
        ({**WAGE, "edges": [0, 1e14], "decimals": 4}, "columns[0] (wage).edges", "900,719,925,474 or less"),
        ({**GENDER, "decimals": 2}, "columns[0] (gender).decimals", "cannot be declared of a categorical column"),
        ({**AGE, "bins": 3}, "columns[0] (age).field", "not known"),
        ({**AGE, "missing": "-9"}, "columns[0] (age).missing", "must be a list"),
        ({**AGE, "missing": ["a\nb"]}, "columns[0] (age).missing", "printable"),
        ({**AGE, "missing": ["-9", "-9"]}, "columns[0] (age).missing", "twice"),
        ({**AGE, "missing": ["-9, NA"]}, "columns[0] (age).missing", "without a comma"),
        ({**AGE, "missing": ["-9;-99"]}, "columns[0] (age).missing", "semicolon"),
        ({**AGE, "missing": [str(i) for i in range(31)]}, "columns[0] (age).missing", "at most 30"),
        ({**GENDER, "missing_as": "unknown"}, "columns[0] (gender).missing_as", '"drop" or one of the declared'),
        ({**AGE, "missing_as": "none"}, "columns[0] (age).missing_as", '"drop" or "no number" in a numeric column'),
        ({**GENDER, "missing": ["NA", "male"]}, "columns[0] (gender).missing", "must not be a declared category"),
        ("age", "columns[0].column", "must be an object"),
        ({**AGE, "open": "last"}, "columns[0] (age).open", "must be a list"),
        ({**AGE, "open": ["last", "first"]}, "columns[0] (age).open", 'must be ["first"], ["last"] or'),
        ({**AGE, "open": ["last"], "outside": "drop"}, "columns[0] (age).open", 'the rule "clamp"'),
        ({**AGE, "edges": [0, 9], "open": ["first", "last"]}, "columns[0] (age).open", "two bins at least"),
        ({**GENDER, "open": ["last"]}, "columns[0] (gender).open", "is for columns of numbers"),
    ],
)
def test_a_wrong_column_is_refused_by_field_value_and_rule(column, field, rule):
    with pytest.raises(InvalidInput) as refusal:
        schema(column)
    assert refusal.value.field == field
    assert rule in refusal.value.rule


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "schema"),
        ({"version": 1, "columns": [AGE, GENDER], "missing": ["male"]}, "columns[1] (gender).missing"),
        ({"version": 1, "columns": [AGE], "missing": "NA"}, "missing"),
        ({"version": 2, "columns": [AGE]}, "schema.version"),
        ({"version": 1, "columns": []}, "columns"),
        ({"version": 1, "columns": [AGE, AGE]}, "columns[1].name"),
        ({"version": 1, "columns": [AGE], "neighbours": "both"}, "neighbours"),
        ({"version": 1, "columns": [AGE], "unit": {"kind": "household"}}, "unit.kind"),
        ({"version": 1, "columns": [AGE], "unit": {"kind": "person"}}, "unit.id"),
        ({"version": 1, "columns": [AGE], "unit": {"kind": "person", "id": "p", "max_rows": 0}}, "unit.max_rows"),
        ({"version": 1, "columns": [AGE], "unit": {"kind": "person", "id": "age"}}, "unit.id"),
        ({"version": 1, "columns": [AGE], "unit": {"kind": "row", "max_rows": 2}}, "unit"),
        ({"version": 1, "columns": [AGE], "epsilon": 1}, "schema"),
    ],
)
def test_a_wrong_schema_is_refused_by_field(value, field):
    with pytest.raises(InvalidInput) as refusal:
        Schema.from_json(value)
    assert refusal.value.field == field


@given(st.lists(st.decimals(-1000, 1000, places=2, allow_nan=False), min_size=2, max_size=12, unique=True).map(sorted))
def test_every_number_within_the_edges_has_exactly_one_label(edges):
    attribute = Attribute(name="x", kind=AttributeKind.NUMBER, edges=tuple(edges))
    assert len(attribute.labels) == len(edges) - 1
    assert len(set(attribute.labels)) == len(attribute.labels)
    assert attribute.labels[-1].endswith("]")
    assert all(label.endswith(")") for label in attribute.labels[:-1])
    assert Attribute.from_json(attribute.to_json()).edges == tuple(Decimal(repr(float(edge))) for edge in edges)


def test_missing_codes_are_part_of_a_column_and_a_column_without_any_is_described_as_before():
    coded = {**AGE, "missing": [-9, " NA "]}
    assert Attribute.from_json(coded).to_json() == {**AGE, "outside": "clamp", "missing": ["-9", "NA"]}
    assert schema(coded, WAGE) != schema(AGE, WAGE)
    assert schema({**AGE, "missing": []}).to_json()["columns"] == [{**AGE, "outside": "clamp"}]


def test_a_rule_for_missing_values_is_kept_where_it_is_another_than_that_of_other_values():
    kept = {**GENDER, "outside": "drop", "missing_as": "male"}
    assert Attribute.from_json(kept).to_json() == kept
    assert Attribute.from_json({**GENDER, "missing_as": "drop"}).to_json() == {**GENDER, "outside": "drop"}
    assert "missing_as" not in Attribute.from_json({**GENDER, "outside": "male", "missing_as": "male"}).to_json()


def test_what_is_no_number_has_a_bin_behind_the_others_that_lies_outside_of_the_order():
    age = Attribute.from_json({**AGE, "missing_as": "no number"})
    assert age.to_json() == {**AGE, "outside": "clamp", "missing_as": "no number"}
    assert age.labels == (*Attribute.from_json(AGE).labels, "no number")
    assert (age.size, age.ranges) == (6, 5)
    assert not age.may_drop
    assert age.ordered == Attribute.from_json(AGE) == Attribute.from_json({**AGE, "missing_as": "drop"})
    assert Attribute.from_json({**AGE, "missing_as": "no number", "outside": "drop"}).may_drop
    read = schema(GENDER, {**AGE, "missing_as": "no number"}).universe
    assert read.ordered(["gender"]) is read
    assert read.ordered(["age"]).shape == (2, 5)


def test_the_missing_codes_of_a_table_are_those_of_every_column_that_does_not_list_its_own():
    read = schema(GENDER, {**AGE, "missing": ["-1"]}, {**WAGE, "missing": []}, missing=["-9", "NA"])
    assert [each.missing for each in read.universe.attributes] == [("-9", "NA"), ("-1",), ()]
    assert "missing" not in read.to_json()
    assert Schema.from_json(read.to_json()) == read


def test_the_states_of_columns_are_columns_of_categories_that_drop_no_row():
    read = schema(AGE, GENDER).universe
    assert read.may_drop
    assert read.states.states == read.states
    assert not read.states.may_drop
    assert [each.labels for each in read.states.attributes] == [
        ("as declared", "outside", "unreadable", "missing"),
        ("as declared", "outside", "missing"),
    ]
    for each in read.states.attributes:
        assert Attribute.from_json(each.to_json()) == each
    described = read.states.attributes[0].to_json()
    for wrong in ({"name": "other"}, {"outside": "drop"}, {"categories": ["as declared"]}, {"state_of": described}):
        with pytest.raises(InvalidInput, match="state_of"):
            Attribute.from_json({**described, **wrong})
