"""What a budget holds after a release, and how many more like it fit."""

from __future__ import annotations

from dataclasses import dataclass

from releases.engine.accounting import accountant, filters
from releases.ledger.balances import caps_of, left_share, left_text
from releases.ledger.capacity import ReleasesThatFit, closed_by, room
from releases.models import Budget

#: More releases than this that fit are not counted.
_MAX_COUNTED = 1000


@dataclass(frozen=True, kw_only=True)
class More:
    """How many more releases of one price a budget admits.

    Attributes:
        number: at most 999.
        runs_out: what keeps another from fitting.
    """

    number: int
    runs_out: str

    def text(self, *, like: str = "this") -> str:
        """In words; `like` is what the release is called."""
        if self.number >= _MAX_COUNTED - 1:
            return f"{_MAX_COUNTED - 1} or more releases like {like} still fit"
        if self.number <= 1:
            number = "about one more" if self.number else "no further"
            return f"{number} release like {like} fits"
        return f"about {self.number:,} more releases like {like} fit"


@dataclass(frozen=True, kw_only=True)
class Leaves:
    """What is left of a budget after a release, on the scale of all pages.

    Attributes:
        percent: of what was granted.
        amount: as epsilon.
        more: how many more releases like it fit.
        closes: in one sentence, what fits before it and not after it; empty where nothing does.
    """

    percent: float
    amount: str
    more: More
    closes: str

    @property
    def share(self) -> str:
        return f"{self.percent:g}%"

    @property
    def text(self) -> str:
        return f"{self.share} ({self.amount})"

    @property
    def more_text(self) -> str:
        return self.more.text()

    @property
    def runs_out(self) -> str:
        return self.more.runs_out

    @property
    def why_no_more(self) -> str:
        """What keeps another from fitting, where none does although something is left."""
        return self.runs_out if not self.more.number and self.percent else ""


def more_now(budget: Budget, price: accountant.Price) -> More:
    """How many releases of this price a granted budget admits."""
    return _more(budget.totals, price, caps_of(budget))


def leaves_after(budget: Budget, price: accountant.Price) -> Leaves | None:
    """What a budget would hold after a release of this price; None where it does not fit."""
    if not budget.is_granted:
        return None
    caps = caps_of(budget)
    if not filters.admits(budget.totals, price, caps):
        return None
    spent = budget.totals.plus(filters.amounts(price, policy=caps.policy))
    return Leaves(
        percent=left_share(spent, caps),
        amount=left_text(spent, caps),
        more=_more(spent, price, caps),
        closes=closed_by(before=budget.totals, after=spent, caps=caps),
    )


def room_after(budget: Budget, price: accountant.Price) -> tuple[ReleasesThatFit, ...]:
    """How many more releases of usual sizes fit after one of this price; nothing where it does not fit itself."""
    if not budget.is_granted:
        return ()
    caps = caps_of(budget)
    if not filters.admits(budget.totals, price, caps):
        return ()
    return room(budget.totals.plus(filters.amounts(price, policy=caps.policy)), caps)


def _more(spent: filters.Totals, price: accountant.Price, caps: filters.Caps) -> More:
    number = filters.times_admitted(spent, price, caps, most=_MAX_COUNTED - 1)
    after = spent.plus(filters.amounts(price, policy=caps.policy).times(number))
    return More(number=number, runs_out=_what_runs_out(after, price, caps))


def _what_runs_out(spent: filters.Totals, price: accountant.Price, caps: filters.Caps) -> str:
    broken: dict[str, set[str]] = {}
    for shortfall in filters.shortfalls(spent, price, caps):
        broken.setdefault(shortfall.branch, set()).add(shortfall.column)
    if not broken:
        return ""
    if any(all(column.endswith("delta") for column in columns) for columns in broken.values()):
        return "The budget’s delta runs out first; releases without a delta still fit."
    return "The budget’s epsilon runs out first."
