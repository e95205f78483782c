"""Next year's table: what another one declares is taken in one step, each part by the service that declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db import transaction

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.dates import Dates
from releases.engine.domain.impossible import Combination, combinations_to_json
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, Dataset, LedgerEntry
from releases.schema.descriptions import LONGEST, Notes
from releases.schema.taken_columns import columns_to_take, impossible_to_take, merged_universe, similar_columns
from releases.services.boundaries import take_boundaries
from releases.services.codebooks import describe_dataset
from releases.services.datasets import declare_protection, declare_universe, join_population, locked_with_budget

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def why_not_taken_over(dataset: Dataset) -> str:
    """Why a table takes nothing over from another; empty where it can."""
    if LedgerEntry.objects.filter(release__dataset=dataset).exists():
        return "Privacy was charged for this table already. Change what it declares on the page of its columns."
    return ""


@transaction.atomic
def take_over(
    *,
    dataset: Dataset,
    source: Dataset,
    is_same_people: bool | None,
    by: User,
    pairs: Mapping[str, str] | None = None,
    dates: Mapping[str, Dates] | None = None,
) -> InvalidInput | None:
    """Take another table's declared columns, their maps, protection, and texts for readers; no row of it is looked at.

    Own texts and maps stay. A column that is declared here and there is declared as there. Tables about the same people
    share one budget; else the protection is declared for this table alone.

    Args:
        is_same_people: None where nobody was asked; then no protection is taken.
        pairs: by the name there, that of a column here whose name is only written in another way, as a person said.
        dates: by name, the range of a column of dates here where it is not that of the other table.

    Returns:
        why the protection was not taken; None where it was.

    Raises:
        InvalidInput: the table was charged for, has none of the columns, or they break a rule of its own declaration;
            or a pair is of columns whose names differ in more. Nothing is taken then.
    """
    locked_with_budget(dataset, source)
    here, there = (Dataset.objects.select_related("budget").get(pk=each.pk) for each in (dataset, source))
    if why_not := why_not_taken_over(here):
        raise InvalidInput("table", here.title, f"takes nothing over. {why_not}")
    paired, similar = dict(pairs or {}), similar_columns(here, there).pairs
    for name, own in paired.items():
        if similar.get(name) != own:
            raise InvalidInput("pairs", own, f"cannot be taken for {name}: their names differ, or there are several")
    columns = columns_to_take(here, there, paired)
    if not columns.taken:
        raise InvalidInput("table", there.title, "declares no column that can be taken for this table")
    said = "".join(f"; {own} as {name} there" for name, own in paired.items())
    audit_log.record(AuditAction.DECLARE, actor=by, on=here, detail=f"as {there.title} declares it{said}")
    universe = merged_universe(here, {name: _ranged(each, dates or {}) for name, each in columns.taken.items()})
    both = (*_impossible(here), *impossible_to_take(here, there, columns, paired))
    declare_universe(
        dataset=here,
        columns=[each.to_json() for each in universe.attributes],
        impossible=combinations_to_json(both),
        by=by,
    )
    take_boundaries(dataset=here, source=there, columns=columns.taken, pairs=paired)
    problem = _take_protection(here, there, is_same_people=is_same_people, pairs=paired, by=by)
    about = here.description or there.description
    describe_dataset(dataset=here, notes=_notes_to_take(here, there, paired), description=about, by=by)
    dataset.refresh_from_db()
    dataset.__dict__.pop("universe", None)
    return problem


def _impossible(dataset: Dataset) -> tuple[Combination, ...]:
    return dataset.universe.impossible if dataset.universe is not None else ()


def _ranged(attribute: Attribute, dates: Mapping[str, Dates]) -> Attribute:
    if attribute.dates is None or attribute.name not in dates:
        return attribute
    return replace(attribute, dates=dates[attribute.name])


def _take_protection(
    here: Dataset, there: Dataset, *, is_same_people: bool | None, pairs: Mapping[str, str], by: User
) -> InvalidInput | None:
    if there.budget is None:
        return InvalidInput("protection", there.title, "has not said whom it protects")
    if here.budget == there.budget:
        return None
    if is_same_people is None:
        return InvalidInput("people", None, "must be said: whether both tables are about the same people")
    unit, neighbours = there.budget.privacy_unit.of_columns(pairs), there.budget.relation
    try:
        with transaction.atomic():
            if is_same_people:
                join_population(dataset=here, other=there, by=by)
                return None
            if here.budget is not None and here.budget.datasets.exclude(pk=here.pk).exists():
                rest = "is about the people of another table too, so its protection stays as it is"
                raise InvalidInput("protection", here.title, rest)
            declare_protection(dataset=here, unit=unit, neighbours=neighbours, by=by)
    except InvalidInput as error:
        here.refresh_from_db(fields=["budget"])
        return error
    return None


def _notes_to_take(here: Dataset, there: Dataset, pairs: Mapping[str, str]) -> Notes:
    """What the other table says of columns that are here, where nothing is said of them here."""
    columns = {*here.columns, *here.made_columns}
    said_here = {pairs.get(name, name): said for name, said in there.column_notes.items()}
    return {
        name: {field: said.get(field, "") for field in LONGEST if not here.column_notes.get(name, {}).get(field)}
        for name, said in said_here.items()
        if name in columns
    }
