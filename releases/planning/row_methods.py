"""Which method to make synthetic rows with, by public facts alone: the declared columns, the questions, epsilon, and a
number of rows that somebody guessed.

The fit to noisy marginals loses to the mixture where the tables it measures are mostly noise, and wins where they are
not: see `MOST_NOISE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from releases.engine.mechanisms.base import OWN_ROWS, SAME, Option, Plan, mechanisms
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFitPlan
from releases.engine.mechanisms.mixture_fit import MixtureFit, MixtureFitPlan
from releases.publication.receipt import rows_text

#: Rows of an ordinary table, where nobody has guessed how many there are.
USUAL_ROWS = 50_000


@dataclass(frozen=True, kw_only=True)
class RowMethod:
    """What is recommended.

    Attributes:
        name: of the mechanism.
        why: in one sentence.
    """

    name: str
    why: str


def recommended(plans: Mapping[str, Plan], *, rows: int | None) -> RowMethod | None:
    """The method to make synthetic rows with, of those that can be run; None where neither fit can.

    Args:
        plans: by mechanism, those that can be chosen.
        rows: how many there are, as somebody guessed or declared; None where nobody did.
    """
    fit, mixture = plans.get("marginal-fit"), plans.get(MixtureFit.name)
    if not isinstance(fit, MarginalFitPlan):
        if not isinstance(mixture, MixtureFitPlan):
            return None
        return RowMethod(
            name=mixture.mechanism,
            why="Recommended for synthetic rows: it handles columns that are too many or too large for the other fit.",
        )
    if not isinstance(mixture, MixtureFitPlan):
        return RowMethod(
            name=fit.mechanism,
            why="Recommended for synthetic rows: it makes them agree best with the tables you ask about.",
        )
    if fit.is_on_cliques:
        return RowMethod(
            name=fit.mechanism,
            why="Recommended for synthetic rows: your questions connect the columns in small groups, and it measures "
            "these groups alone.",
        )
    least, counted = fit.least_rows, fit.schema.counted
    if fit.suits(rows or USUAL_ROWS):
        known = "" if rows else f" if there are {rows_text(least, counted)} or more"
        return RowMethod(
            name=fit.mechanism,
            why=f"Recommended for synthetic rows{known}: the tables you ask about are then clear enough to be followed "
            "closely.",
        )
    known = "" if rows else f" if there are fewer than {rows_text(least, counted)}"
    return RowMethod(
        name=mixture.mechanism,
        why=f"Recommended for synthetic rows{known}: the tables you ask about are then mostly noise, which "
        "misleads it less.",
    )


def options_for_rows(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A draft's options where it is for synthetic rows: they are made of tables that count the same rows, so methods
    that would count others count these, unless that was chosen.

    Args:
        options: by mechanism.
    """
    return options_with(OWN_ROWS, SAME, options)


def options_with(option: Option, value: str, options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """A draft's options, with a value of one option for every mechanism that has it, unless that was chosen."""
    chosen = {name: dict(given) for name, given in options.items()}
    for name, each in mechanisms().items():
        if option in each.options:
            given = chosen.setdefault(name, {})
            given[option.name] = given.get(option.name) or value
    return chosen
