"""The page on which columns are declared: a row for each, opened one at a time where there are many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from releases.engine.domain.attribute import DROP
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.levels import levels_in_words
from releases.engine.domain.universe import Universe
from releases.forms.bulk_columns import Problem
from releases.forms.columns import ColumnForm, DescriptionForm
from releases.models import Dataset
from releases.planning import comparison, universe_size
from releases.schema import learned
from releases.schema.bin_edges import bins_in_words, ends_in_words
from releases.schema.file_codebook import columns_of_dates

#: More columns than this are opened one at a time.
MAX_OPEN = 12
#: Characters of the categories or edges in the line of a column that is not opened.
_MAX_SAID = 60
#: Columns that a message names; of more, how many there are.
_MAX_NAMED = 10
#: Columns named that leave rows out.
_MAX_DROPPING = 12
_TITLES: dict[str, str] = {str(value): str(title) for value, title in ColumnForm.base_fields["kind"].choices}  # type: ignore[attr-defined]
_DATES: dict[AttributeKind | None, str] = {AttributeKind.DATE: "dates", AttributeKind.DATETIME: "dates and times"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRow:
    """One column.

    Attributes:
        id: what the identifiers of its fields begin with.
        can_learn_range, can_learn_categories: what of its declaration can be learned from the data.
        origins: by which releases it was.
        dates: which dates the file says that it holds; empty where it does not.
        kind, values: what is typed of it, in short.
        is_open: whether it is the one opened of many.
    """

    form: Any
    id: str
    name: str
    can_learn_range: bool
    can_learn_categories: bool
    origins: Sequence[learned.Learned]
    dates: str
    kind: str
    values: str
    is_ticked: bool
    is_open: bool

    @property
    def is_learnable(self) -> bool:
        return self.can_learn_range or self.can_learn_categories


@dataclass(frozen=True, kw_only=True, slots=True)
class BinsRead:
    """How the bins of a column of numbers or dates were read, in words."""

    name: str
    are: str
    ends: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredUniverse:
    """What is declared comes to.

    Attributes:
        columns, cells: how many, with the noun.
        left_out: which rows and persons do not count, and in which tables; empty where all do.
        levels: which columns are levels of others, a sentence each.
        bins: of the columns that have some; `has_few_bins` where all are shown at once.
        fits: what its size means for each mechanism, and `fitting`, how many can hold it, in a sentence.
    """

    columns: str
    cells: str
    left_out: str
    levels: Sequence[str]
    bins: tuple[BinsRead, ...]
    has_few_bins: bool
    fits: Sequence[universe_size.MechanismSize]
    fitting: str
    all_fit: bool


def declared_universe(universe: Universe, fits: Sequence[universe_size.MechanismSize]) -> DeclaredUniverse:
    number = len(universe.names)
    # Rows and persons are counted apart.
    size, apart = universe.largest_population.size, len(universe.populations[-1].names)
    fitting, cells = sum(not each.why_not for each in fits), comparison.cells_text(size)
    bins = tuple(
        BinsRead(name=each.name, are=bins_in_words(each), ends=ends_in_words(each))
        for each in universe.attributes
        if each.has_grammar
    )
    return DeclaredUniverse(
        columns=f"{number} column{'' if number == 1 else 's'}"
        + (f", {apart} of them with one value a person," if apart < number else ""),
        cells=f"{'at most ' if apart < number else ''}{cells} cell{'' if size == 1 else 's'}",
        left_out=left_out_in_words(universe),
        levels=levels_in_words(universe.hierarchies),
        bins=bins,
        has_few_bins=len(bins) <= MAX_OPEN,
        fits=fits,
        fitting="Every mechanism can hold it: memory and time"
        if fitting == len(fits)
        else f"{fitting} of {len(fits)} mechanisms can hold it",
        all_fit=fitting == len(fits),
    )


def left_out_in_words(universe: Universe) -> str:
    """Which rows and persons do not count, and in which tables; empty where all do."""
    said = [each for population in universe.populations for each in _left_out_of(population)]
    if not said:
        return ""
    return f"Left out of every table of a release about these columns: {'; '.join(said)}."


def _left_out_of(population: Universe) -> Iterator[str]:
    missing = [each.name for each in population.attributes if each.drops_missing]
    others = [each.name for each in population.attributes if each.outside == DROP]
    for names, what in ((missing, "without a value of"), (others, "with another value than declared of")):
        if names:
            listed = ", ".join(names[:_MAX_DROPPING]) + (", …" if len(names) > _MAX_DROPPING else "")
            yield f"{population.counted.many} {what} {listed}"


def column_rows(formset: Any, dataset: Dataset, *, ticked: Collection[str] = ()) -> list[ColumnRow]:
    universe, found = dataset.universe, learned.origins(dataset, dataset.universe)
    declared = {each.name: each for each in universe.attributes} if universe is not None else {}
    id_column = dataset.budget.privacy_unit.id_column if dataset.budget is not None else None
    forms, typed_dates = list(formset), columns_of_dates(dataset)
    opened = _opened(forms)
    rows = []
    for form in forms:
        name = form["name"].value() or ""
        is_there = universe is not None and name != id_column and (name in declared or not form.is_made)
        attribute = declared.get(name)
        kind, values = (form[field].value() or "" for field in ("kind", "values"))
        rows.append(
            ColumnRow(
                form=form,
                id=f"id_{form.prefix}",
                name=name,
                can_learn_range=is_there and attribute is not None and attribute.is_numeric,
                can_learn_categories=is_there
                and (attribute is None or (not attribute.has_grammar and attribute.per_person is None)),
                origins=[each for each in found if each.column == name],
                dates=_DATES.get(typed_dates.get(name), "") if name not in declared else "",
                kind=_TITLES.get(kind, kind) if kind or not form.is_made else "",
                values=_shortened(values) if kind else "",
                is_ticked=not form.is_made and name in ticked,
                is_open=form is opened,
            )
        )
    return rows


def problems_of(formset: Any, about: DescriptionForm) -> list[Problem]:
    """What is wrong with what is typed, each with the field to go to."""
    found = [Problem(column="", field="", message=str(message)) for message in formset.non_form_errors()]
    found += problems_in(about)
    for form in formset:
        found += problems_in(form, column=form["name"].value() or "")
    return found


def problems_in(form: Any, *, column: str = "") -> list[Problem]:
    """What is wrong with one form."""
    return [
        Problem(column=column, field=form[name].id_for_label if name in form.fields else "", message=str(message))
        for name, messages in form.errors.items()
        for message in messages
    ]


def filled_in_text(names: Sequence[str]) -> str:
    """For which columns something was filled in; empty for none."""
    if not names:
        return ""
    named = ", ".join(names[:_MAX_NAMED]) + (
        f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    )
    return f"Filled in for {len(names):,} column{'' if len(names) == 1 else 's'}: {named}."


def _opened(forms: Sequence[Any]) -> Any:
    """The first that something is wrong with; else the first without a type."""
    wrong = [form for form in forms if form.is_bound and form.errors]
    free = (form for form in forms if not form.is_made and not form["kind"].value())
    return wrong[0] if wrong else next(free, None)


def _shortened(values: str) -> str:
    said = " ".join(", ".join(line.strip() for line in values.strip().splitlines()).split())
    return said if len(said) <= _MAX_SAID else f"{said[: _MAX_SAID - 1]}…"
