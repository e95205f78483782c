"""What a table can take from another, or has taken, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from releases.engine.domain.attribute import Attribute
from releases.models import Budget, Dataset, SavedWorkload
from releases.publication.receipt import protection_text
from releases.schema.similar_names import SimilarNames
from releases.schema.taken_columns import ColumnsToTake, impossible_to_take

#: Names in one sentence; of more, how many there are.
_MAX_NAMED = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class TakeOverPage:
    """Two tables side by side.

    Attributes:
        taken, replaced, alike: columns declared there alone, in another way here, or alike in both.
        pairs: by the name here, what is said of a column that is proposed as the same as one of another spelling.
        unclear: names of which several are written alike, so that nothing is proposed.
        dated: columns to take that have a fixed range of dates.
        fixed_dates: columns here, or to take, whose dates are to be looked at on the page of the columns.
        learned: those whose declaration a release learned from the other table's rows, by the title of the release.
        impossible: combinations of these columns that are declared impossible there and not here.
        lacking, undeclared: declared there without a column here, and columns here that neither declares.
        protection, own_protection: what each promises; empty where it has not said.
        has_same_protection, shares_budget: whether they are alike, and one.
        description, own_description: what each table is, where the other's words differ; this one's stay.
        workloads: names and addresses of those that the other table was asked with.
    """

    taken: str
    replaced: str
    alike: str
    pairs: Mapping[str, str]
    unclear: Sequence[str]
    dated: Sequence[Attribute]
    fixed_dates: Sequence[str]
    learned: Sequence[tuple[str, str]]
    impossible: Sequence[str]
    lacking: str
    undeclared: str
    protection: str
    own_protection: str
    has_same_protection: bool
    shares_budget: bool
    description: str
    own_description: str
    workloads: Sequence[tuple[str, str]]

    @property
    def has_something(self) -> bool:
        """Whether anything is left to take."""
        takes_protection = bool(self.protection) and not self.has_same_protection
        takes_description = bool(self.description) and not self.own_description
        takes_columns = bool(self.taken or self.replaced or self.pairs or self.impossible)
        return takes_columns or takes_protection or takes_description


def take_over_page(
    dataset: Dataset, source: Dataset, columns: ColumnsToTake, similar: SimilarNames, workloads: Iterable[SavedWorkload]
) -> TakeOverPage:
    """
    Args:
        columns: what can be taken if all pairs of similar names are of the same columns.
        similar: names of columns there that are written in another way here.
    """
    own = {each.name: each for each in dataset.universe.attributes} if dataset.universe is not None else {}
    differing = {name: each for name, each in columns.taken.items() if own.get(name) != each}
    pairs = {
        here: said
        for there, here in similar.pairs.items()
        if (said := _pair(here, there, differing, own, id_column=_id_column(source, dataset, similar.pairs)))
    }
    sure = [name for name, each in differing.items() if not pairs.keys() & {name, *(one.name for one in each.reads)}]
    ours, theirs = (protection_text(each.budget) if each.budget is not None else "" for each in (dataset, source))
    address = f"?dataset={dataset.pk}"
    return TakeOverPage(
        taken=_named([name for name in sure if name not in own]),
        replaced=_named([name for name in sure if name in own]),
        alike=_named([name for name in columns.taken if name not in differing]),
        pairs=pairs,
        unclear=[f"{' or '.join(there)} there, {' or '.join(here)} here" for there, here in similar.unclear],
        dated=[each for each in differing.values() if each.dates is not None],
        fixed_dates=list(_fixed_dates(columns.taken, differing)),
        learned=[(name, each.title) for name, each in columns.learned.items()],
        impossible=[each.in_words() for each in impossible_to_take(dataset, source, columns, similar.pairs)],
        lacking=_named(columns.lacking),
        undeclared=_named(columns.undeclared),
        protection=theirs,
        own_protection=ours,
        has_same_protection=_is_protected_alike(dataset.budget, source.budget, similar.pairs),
        shares_budget=source.budget_id is not None and dataset.budget_id == source.budget_id,
        description=source.description if source.description != dataset.description else "",
        own_description=dataset.description,
        workloads=[(each.name, reverse("use_workload", args=[each.pk]) + address) for each in workloads],
    )


def _pair(
    here: str, there: str, differing: Mapping[str, Attribute], own: Mapping[str, Attribute], *, id_column: str
) -> str:
    """What is said of two columns that may be the same; empty where nothing is to be taken for it.

    Args:
        id_column: the column here by which people would be told apart, where they are not yet.
    """
    made = [name for name, each in differing.items() if each.formula is not None and here in _names_read(each)]
    said = []
    if here in differing:
        said.append("declared in another way here, it would be declared as there" if here in own else "")
    if made:
        said.append(f"read by the formula of {' and '.join(made)}")
    if here == id_column:
        said.append("tells people apart")
    if not said:
        return ""
    more = "; ".join(filter(None, said))
    return f"{here} is {there} there{f' ({more})' if more else ''}"


def _names_read(attribute: Attribute) -> set[str]:
    return {each.name for each in attribute.reads}


def _id_column(source: Dataset, dataset: Dataset, pairs: Mapping[str, str]) -> str:
    """The column here by which the protection there would tell people apart; empty where it does already, or none."""
    if source.budget is None or _is_protected_alike(dataset.budget, source.budget, pairs):
        return ""
    return source.budget.privacy_unit.of_columns(pairs).id_column or ""


def _is_protected_alike(own: Budget | None, there: Budget | None, pairs: Mapping[str, str]) -> bool:
    if own is None or there is None:
        return False
    units = own.privacy_unit, there.privacy_unit.of_columns(pairs)
    return own == there or (units[0] == units[1] and own.relation is there.relation)


def _fixed_dates(taken: Mapping[str, Attribute], differing: Mapping[str, Attribute]) -> Iterator[str]:
    """What names dates of its own and has no field on this page: ranges declared here already, and formulas."""
    for name, each in taken.items():
        if each.dates is not None and name not in differing:
            yield f"{name}: {each.dates.first} to {each.dates.last}"
        if each.formula is not None and each.formula.dates_named:
            yield f"{name}: its formula names {', '.join(each.formula.dates_named)}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
