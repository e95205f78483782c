"""What may be granted after what: never less in epsilon or in delta, once something was charged.

Releases that were accepted under a larger budget have the promise of that one alone, so the promise of a budget over
its whole life is the largest epsilon with the largest delta (`engine.accounting.filters`, "A budget that is raised").
As no grant falls, that is the last grant: what every page and answer of the API says, and what the filter enforces.
"""

from __future__ import annotations

from typing import Any

from releases.engine.domain.privacy import exact
from releases.engine.errors import InvalidInput
from releases.models import Budget, EntryKind, LedgerEntry

_SPENDING = (EntryKind.CHARGE, EntryKind.RESTORE)


def check_grant(budget: Budget, *, epsilon: str, delta: str) -> None:
    """See that a grant falls in neither epsilon nor delta, once something was charged.

    A charge that was given back counts too: what came after it was chosen while it was booked.

    Raises:
        InvalidInput: it falls.
    """
    if not budget.is_granted or not has_been_charged(budget):
        return
    for field, new, granted in (("epsilon", epsilon, budget.epsilon), ("delta", delta or "0", budget.delta or "0")):
        if exact(new, field=field) < exact(granted, field=field):
            raise InvalidInput(
                field,
                new,
                f"must be at least the {granted} that is granted, because releases were charged to this budget. To "
                f"stop further releases, freeze it",
            )


def has_been_charged(budget: Budget) -> bool:
    """Whether anything was ever charged."""
    return budget.entries.filter(kind__in=_SPENDING).exists()


def larger(one: str, other: str, *, field: str) -> str:
    return max(one, other, key=lambda amount: exact(amount, field=field))


class Granted:
    """The grants of a ledger that is read from its beginning.

    Attributes:
        last: the caps of the last one.
    """

    def __init__(self) -> None:
        self.last: dict[str, Any] | None = None
        self._largest: dict[str, int] = {}
        self._is_charged = False

    def read(self, entry: LedgerEntry) -> None:
        """Take in the next entry."""
        if entry.kind == EntryKind.GRANT:
            caps = self.last = entry.detail["caps"]
            before = self._largest if self._is_charged else {}
            self._largest = {each: max(caps[each], before.get(each, 0)) for each in ("epsilon", "delta")}
        self._is_charged = self._is_charged or entry.kind in _SPENDING

    @property
    def is_largest(self) -> bool:
        """Whether none that something was charged under, or that came after, was larger in epsilon or in delta."""
        last = self.last
        return last is not None and all(last[each] >= most for each, most in self._largest.items())
