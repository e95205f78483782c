"""What a table can take from another, or has taken, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.urls import reverse

from releases.models import Dataset, Workload
from releases.publication.receipt import protection_text
from releases.schema.taken_columns import ColumnsToTake, impossible_to_take

#: Names in one sentence; of more, how many there are.
_MAX_NAMED = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class TakeOverPage:
    """Two tables side by side.

    Attributes:
        taken, replaced, alike: columns declared there alone, in another way here, or alike in both.
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
        return bool(self.taken or self.replaced or self.impossible or takes_protection or takes_description)


def take_over_page(
    dataset: Dataset, source: Dataset, columns: ColumnsToTake, workloads: Iterable[Workload]
) -> TakeOverPage:
    own = {each.name: each for each in dataset.universe.attributes} if dataset.universe is not None else {}
    taken = [name for name in columns.taken if name not in own]
    alike = [name for name, each in columns.taken.items() if own.get(name) == each]
    ours, theirs = (protection_text(each.budget) if each.budget is not None else "" for each in (dataset, source))
    address = f"?dataset={dataset.pk}"
    return TakeOverPage(
        taken=_named(taken),
        replaced=_named([name for name in columns.taken if name in own and name not in alike]),
        alike=_named(alike),
        learned=[(name, each.title) for name, each in columns.learned.items()],
        impossible=[each.in_words() for each in impossible_to_take(dataset, source, columns)],
        lacking=_named(columns.lacking),
        undeclared=_named(columns.undeclared),
        protection=theirs,
        own_protection=ours,
        has_same_protection=bool(theirs) and ours == theirs,
        shares_budget=source.budget_id is not None and dataset.budget_id == source.budget_id,
        description=source.description if source.description != dataset.description else "",
        own_description=dataset.description,
        workloads=[(each.name, reverse("use_workload", args=[each.pk]) + address) for each in workloads],
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
