"""Formulas of columns that are made from others: a small language, row by row, and its typed syntax tree.

It has no clock and no randomness, and no expression can fail on a row: what has no value is missing. What each
operation means is said in ``docs/reference/counting.md``.

A formula may also have functions of all rows of a person, such as ``count_per_person()``, whose argument is a formula
of a row. It then gives each person one value, and names columns within these functions alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.domain.formula_parser import dates_named, names_in, shortened, tree_of, with_names
from releases.engine.domain.formula_tree import Node, PerPerson, Type, functions_in
from releases.engine.errors import InvalidInput

_MAX_SHOWN = 300
#: The result that a declaration of each type reads.
_WANTED = {
    AttributeKind.INTEGER: (Type.NUMBER,),
    AttributeKind.NUMBER: (Type.NUMBER,),
    AttributeKind.CATEGORICAL: (Type.TEXT, Type.TRUTH),
    AttributeKind.DATE: (Type.DATE, Type.MOMENT),
    AttributeKind.DATETIME: (Type.MOMENT,),
}


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A formula, checked.

    Attributes:
        text: as it was written, without spaces around it.
        reads: the columns that it reads, in the order of their first mention.
        tree: what it means.
    """

    text: str
    reads: tuple[FileColumn, ...]
    tree: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = names_in(self.text)
        if tuple(each.name for each in self.reads) != names:
            raise InvalidInput("reads", [each.name for each in self.reads], f"must be the columns {', '.join(names)}")
        object.__setattr__(self, "tree", tree_of(self.text, self.reads))
        if not self.reads and self.per_person is None:
            raise InvalidInput("formula", self.text, "must name a column of the table")

    @cached_property
    def functions(self) -> tuple[PerPerson, ...]:
        """Those of all rows of a person, each once."""
        return functions_in(self.tree)

    @property
    def per_person(self) -> Node | None:
        """What is made of all rows of a person; None where each row has a value of its own."""
        return self.tree if self.functions else None

    def check_gives(self, kind: AttributeKind) -> None:
        """Refuse a declaration that cannot read what the formula gives.

        Raises:
            InvalidInput: naming both types.
        """
        if self.tree.type not in _WANTED[kind]:
            wanted = " or a ".join(_WANTED[kind])
            raise InvalidInput(
                "formula", self.shown, f"gives a {self.tree.type}; a column of the type {kind} needs a {wanted}"
            )

    def of_columns(self, names: Mapping[str, str]) -> Formula:
        """The same of columns that are called otherwise: by the name that it reads, the other one."""
        reads = tuple(replace(each, name=names.get(each.name, each.name)) for each in self.reads)
        return Formula(text=with_names(self.text, names), reads=reads)

    @property
    def dates_named(self) -> tuple[str, ...]:
        """The fixed dates in it, as they are written there."""
        return dates_named(self.text)

    @property
    def shown(self) -> str:
        """The formula as people read it: of a long table the first entries, and how many more there are."""
        return self.text if len(self.text) <= _MAX_SHOWN else shortened(self.text)


def formula_of(text: object, listed: object, declared: Mapping[str, FileColumn | None]) -> Formula:
    """Read a formula; a column that is neither declared nor listed is text.

    Args:
        text: the formula.
        listed: the columns that it reads, as JSON, for those that are not declared.
        declared: how columns of the table are read; None of those that are made by a formula.

    Raises:
        InvalidInput: naming what is wrong, and where.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("formula", text, "must be text, such as years_between(birth, 2026-01-01)")
    if not isinstance(listed, list):
        raise InvalidInput("reads", listed, "must be a list")
    known = {each.name: each for each in map(FileColumn.from_json, listed)} | dict(declared)
    # On one line, as it is shown; no text in it can hold a line end.
    line = " ".join(part.strip() for part in text.strip().splitlines())
    names = names_in(line)
    for name in names:
        if name in known and known[name] is None:
            raise InvalidInput("formula", name, "is itself made by a formula; a formula reads columns of the table")
    return Formula(text=line, reads=tuple(known.get(name) or FileColumn(name=name) for name in names))


def formula_fields(formula: Formula) -> dict[str, Any]:
    """The fields of a column's declaration."""
    return {"formula": formula.text, "reads": [each.to_json() for each in formula.reads]}
