"""The schema: what a curator declares of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from releases.engine.domain.attribute import DROP, Attribute, listed
from releases.engine.domain.columns import FileColumn
from releases.engine.domain.counted import Counted
from releases.engine.domain.impossible import combinations_to_json, read_combinations
from releases.engine.domain.population import Population
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.universe import MAX_NAMED, Universe
from releases.engine.errors import InvalidInput

SCHEMA_VERSION = 1
#: What a plan's schema says where each table leaves out only what the rules of its own columns leave out.
OWN_ROWS = "by own columns"
#: What changes of a statistic are measured in.
Changed = TypeVar("Changed")


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a curator declares about a table: its universe, whom to protect, and against which neighbours."""

    universe: Universe
    unit: PrivacyUnit
    neighbours: NeighbouringRelation

    def __post_init__(self) -> None:
        if self.unit.id_column in self.universe.names:
            raise InvalidInput("unit.id", self.unit.id_column, "is also declared as a column; an id has no bins")

    def project(self, names: Iterable[str]) -> Schema:
        """The schema of some of the columns alone: what other columns hold leaves no row out."""
        return replace(self, universe=self.universe.project(names))

    @property
    def names_read(self) -> set[str]:
        """The columns of a table that are read under this schema: those declared, those of formulas, and the id."""
        found = {read.name for each in self.universe.attributes for read in each.reads}
        return found if self.unit.id_column is None else found | {self.unit.id_column}

    def check_unit(self) -> None:
        """See that persons are protected where some columns have one value a person.

        Raises:
            InvalidInput: a row is protected, so that nothing says which rows are of one person.
        """
        of_persons = [each.name for each in self.universe.attributes if each.per_person is not None]
        if of_persons and self.unit.kind != "person":
            rule = "have one value a person, so a person must be protected, by the column that tells people apart"
            raise InvalidInput("columns", ", ".join(of_persons[:MAX_NAMED]), rule)

    @cached_property
    def counts_persons(self) -> bool:
        """Whether each counted row is a person, made from all rows that the table has of them.

        Such a row is a function of that person's rows alone: rows are grouped by the id, and no group sees another. So
        tables that differ in all rows of one person differ, once grouped, in one row: it is there or not under
        ADD_REMOVE; under REPLACE it changes, or is there in one of them alone where the person has no row in the other.
        Every row of a person takes part, and none has to be left out for privacy, however many there are. Counted by
        its bins, the row moves a vector of counts by 1 (L1 and L2) where it is added or removed, and by at most 2 (L1)
        and the root of 2 (L2) where it changes.

        Raises:
            InvalidInput: columns of rows and of persons are mixed; or a row is protected.
        """
        self.check_unit()
        return self.universe.is_of_persons

    @property
    def rows_of_unit(self) -> int:
        """The most counted rows of one unit: all of a person's rows are one where persons are counted.

        Raises:
            InvalidInput: as of `counts_persons`.
        """
        return 1 if self.counts_persons else self.unit.max_rows

    @property
    def counted(self) -> Counted:
        """What its releases count."""
        self.check_unit()
        return self.universe.counted

    @property
    def apart(self) -> tuple[Schema, ...]:
        """Of rows, and behind it of persons, where its columns are of both; else itself alone."""
        if not self.universe.counts_apart:
            return (self,)
        return tuple(replace(self, universe=each) for each in self.universe.populations)

    @property
    def unit_in_words(self) -> str:
        """Whom this protects, and as how many rows they count; for columns of both kinds, in releases about either."""
        if self.universe.counts_apart:
            rows = self.unit.in_words().removesuffix(")")
            return f"{rows}; where a release counts persons, all rows of one count as one)"
        if not self.counts_persons:
            return self.unit.in_words()
        return f"one person (column {self.unit.id_column}, all of whose rows count as one)"

    @cached_property
    def population(self) -> Population:
        """What is counted by all columns together; where some count persons, that of rows, with that of persons beside
        it.

        Raises:
            InvalidInput: some columns have one value a person, and a row is protected.
        """
        of_rows, *of_persons = self.apart
        if of_persons:
            return replace(of_rows.population, beside=of_persons[0].population)
        by_name = sorted(self.universe.attributes, key=lambda each: each.name)
        is_bounded = self.unit.kind == "person" and not self.counts_persons
        return Population(
            counted=self.counted,
            unit=self.unit,
            neighbours=self.neighbours,
            dropping=tuple(each for each in by_name if each.may_drop),
            left_out=self.universe.left_out,
            bounded_by=tuple(by_name) if is_bounded else (),
            is_bounded_first=is_bounded and self.universe.own_rows,
        )

    def population_of(self, names: Iterable[str]) -> Population:
        """What a table over some of the columns counts.

        Raises:
            InvalidInput: some of them count rows, and others persons.
        """
        chosen = set(names)
        if self.universe.counts_apart:
            is_of_persons = self.project(chosen).counts_persons
            return self.apart[is_of_persons].population_of(chosen)
        if not self.universe.own_rows:
            return self.population
        dropping = tuple(each for each in self.population.dropping if each.name in chosen)
        return replace(self.population, dropping=dropping)

    @property
    def rows_may_vanish(self) -> bool:
        """As of its population."""
        return self.population.rows_may_vanish

    def changes_of_a_row(self, *, added: Changed, replaced: Callable[[], Changed]) -> tuple[Changed, ...]:
        """What one of a unit's rows can do to a statistic between neighbours: the largest of these is its sensitivity.

        The statistic is a sum over counted rows. Order a unit's rows in both tables so that as many as possible have a
        partner. Under ADD_REMOVE no row has one, and each adds or takes away its own part. Under REPLACE a row with a
        partner changes into it. A row without one is there in one table alone, which happens only where
        `rows_may_vanish`: a declared rule drops the other, or a person has fewer rows there. Its change is that of a
        row added or removed, which may be more than that of any row replaced: in prefixes over two bins, a row added to
        the first changes both, and a row moved changes one. So both kinds count, and neither bounds the other. A unit
        of g rows has at most g such pairs or single rows, so its change is in any norm at most g times the largest.

        Args:
            added: by a row added or removed.
            replaced: by a row replaced by another counted row; called under REPLACE only.
        """
        if self.neighbours is NeighbouringRelation.ADD_REMOVE:
            return (added,)
        return (replaced(), added) if self.rows_may_vanish else (replaced(),)

    @property
    def total_is_public(self) -> bool:
        """As of its population."""
        return self.population.total_is_public

    def to_json(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "unit": self.unit.to_json(),
            "neighbours": self.neighbours.value,
            "columns": [attribute.to_json() for attribute in self.universe.attributes],
            **(
                {"impossible": combinations_to_json(self.universe.impossible, self.universe.attributes)}
                if self.universe.impossible
                else {}
            ),
            **({"impossible_rows": DROP} if self.universe.left_out else {}),
            **({"rows_counted": OWN_ROWS} if self.universe.own_rows else {}),
        }

    @staticmethod
    def from_json(value: object) -> Schema:
        """Read a schema of format version 1.

        Raises:
            InvalidInput: naming the field (``columns[2].edges``), the value and the rule.
        """
        if not isinstance(value, dict):
            raise InvalidInput("schema", value, "must be a JSON object")
        check_version(value, SCHEMA_VERSION, what="schema")
        unknown = set(value) - {
            *("version", "unit", "neighbours", "missing", "columns", "impossible", "impossible_rows", "rows_counted")
        }
        if unknown:
            raise InvalidInput("schema", ", ".join(sorted(map(str, unknown))), "is not a known field")
        columns = value.get("columns")
        if not isinstance(columns, list) or not columns:
            raise InvalidInput("columns", columns, "must be a list with at least one column")
        neighbours = value.get("neighbours", NeighbouringRelation.ADD_REMOVE.value)
        missing = listed(value, "missing")
        if neighbours not in list(NeighbouringRelation):
            raise InvalidInput("neighbours", neighbours, 'must be "add_remove" or "replace"')
        if value.get("impossible_rows", DROP) != DROP:
            raise InvalidInput("impossible_rows", value["impossible_rows"], f'must be "{DROP}", or left out')
        if value.get("rows_counted", OWN_ROWS) != OWN_ROWS:
            raise InvalidInput("rows_counted", value["rows_counted"], f'must be "{OWN_ROWS}", or left out')
        attributes = Universe(attributes=_columns(columns, missing)).attributes
        return Schema(
            universe=Universe(
                attributes=attributes,
                impossible=read_combinations(value.get("impossible", []), attributes),
                drops_impossible="impossible_rows" in value,
                own_rows="rows_counted" in value,
            ),
            unit=PrivacyUnit.from_json(value.get("unit", {"kind": "row"})),
            neighbours=NeighbouringRelation(neighbours),
        )


def check_version(value: dict[str, Any], version: int, *, what: str) -> None:
    if value.get("version") != version:
        raise InvalidInput(f"{what}.version", value.get("version"), f"must be {version}")


def _columns(columns: list[Any], missing: list[Any]) -> tuple[Attribute, ...]:
    """Those of the table first: formulas read them as they are declared."""
    is_made = [isinstance(each, dict) and "formula" in each for each in columns]
    read = {i: _column(i, each, missing, {}) for i, each in enumerate(columns) if not is_made[i]}
    declared: dict[str, FileColumn | None] = {
        each.name: None if (each.state_of or each).formula is not None else each.reads[0] for each in read.values()
    }
    declared |= {str(each.get("name")): None for i, each in enumerate(columns) if is_made[i]}
    read |= {i: _column(i, each, [], declared) for i, each in enumerate(columns) if is_made[i]}
    return tuple(read[i] for i in range(len(columns)))


def _column(position: int, value: object, missing: list[Any], declared: Mapping[str, FileColumn | None]) -> Attribute:
    """A column; with the missing codes of the table, where these are any and it does not say its own."""
    if missing and isinstance(value, dict):
        value = {"missing": missing, **value}
    try:
        return Attribute.from_json(value, declared=declared)
    except InvalidInput as error:
        name = value.get("name") if isinstance(value, dict) else None
        where = f"columns[{position}]" + (f" ({name})" if isinstance(name, str) and name else "")
        raise InvalidInput(f"{where}.{error.field}", error.value, error.rule) from None
