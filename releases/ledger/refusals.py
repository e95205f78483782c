"""Why the ledger refuses: what is raised, with numbers from which a page can explain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from releases.engine.accounting import accountant, filters
from releases.engine.domain.privacy import decimal_text

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class LedgerRefusal(Exception):
    """The ledger will not do it. The text is for the person who asked."""


class InsufficientBudget(LedgerRefusal):
    """A charge does not fit. Carries both numbers.

    Args:
        said: why, in one sentence.

    Attributes:
        requested: the price of the release.
        remaining: what one more release may cost.
        shortfalls: each condition that it breaks.
    """

    def __init__(
        self,
        *,
        requested: accountant.Price,
        remaining: filters.Remaining,
        shortfalls: Sequence[filters.Shortfall],
        said: str,
    ) -> None:
        self.requested = requested
        self.remaining = remaining
        self.shortfalls = tuple(shortfalls)
        super().__init__(f"{said} Nothing was charged.")


class AnotherProtection(LedgerRefusal):
    """A plan was made for another unit or other neighbours than the budget promises.

    Attributes:
        planned: what the plan protects, in words.
        promised: what the budget protects.
    """

    def __init__(self, *, planned: str, promised: str) -> None:
        self.planned, self.promised = planned, promised
        super().__init__(
            f"The plan protects {planned}, and the budget protects {promised}. Its price would not mean what the "
            f"budget promises, so nothing was charged and nothing is run. Plan it again."
        )


class AnotherPopulation(LedgerRefusal):
    """The dataset spends from another budget than when it was read."""

    def __init__(self) -> None:
        super().__init__(
            "The dataset was put into another population in the meantime. Nothing was charged. Look at it again."
        )


class NotGranted(LedgerRefusal):
    """No budget has been granted yet."""


class Frozen(LedgerRefusal):
    """A reviewer has frozen the budget."""


class PersonLimit(LedgerRefusal):
    """One person would spend more of the budget than the organisation lets one person spend.

    Attributes:
        spent: by this person so far, as a share of the budget from 0 to 1.
        takes: the release, beyond that.
        most: what one person may spend.
    """

    def __init__(self, *, spent: Fraction, takes: Fraction, most: Fraction, who: str = "You have") -> None:
        self.spent, self.takes, self.most = spent, takes, most
        super().__init__(
            f"{who} spent {share_text(spent)} of this budget and this release takes {share_text(takes)} more; one "
            f"person may spend at most {limit_text(most)}. Somebody else of the group can submit it, or an "
            f"administrator can change the limit."
        )

    def of(self, person: User) -> PersonLimit:
        """The same, said to somebody else."""
        return PersonLimit(spent=self.spent, takes=self.takes, most=self.most, who=f"{person} has")


class Unseen(LedgerRefusal):
    """With this release one person's charges that no reviewer saw would come to more than may pass unseen."""

    def __init__(self) -> None:
        super().__init__("A reviewer has to see it first. Nothing was charged.")


class LedgerWentBack(LedgerRefusal):
    """The database knows less than what is remembered outside it, or that is lost (`stale_ledger`)."""


class DoesNotFit(LedgerRefusal):
    """What is to be booked as spent is more than what is granted."""


class KeyUsed(LedgerRefusal):
    """The idempotency key belongs to another release."""


def share_text(share: Fraction) -> str:
    """A share in per cent, rounded up to one decimal, as on every page: two that are too much add up to too much."""
    return f"{decimal_text(100 * share, places=1)}%"


def limit_text(most: Fraction) -> str:
    """The limit for one person, as it was set."""
    return f"{decimal_text(100 * most)}%"


def epsilon_text(units: int | None) -> str:
    return "none" if units is None else decimal_text(Fraction(units, 10**accountant.EPSILON_PLACES))
