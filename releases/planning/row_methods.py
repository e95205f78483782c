"""Which method to make synthetic rows with, by public facts alone: the declared columns, the questions, epsilon, and a
number of rows that somebody guessed.

The fit to noisy marginals loses to the mixture where the tables it measures are mostly noise, and wins where they are
not. That is told by one number: the noise on the tables that are asked about, as a share of all rows (`design_error`).
The limit was found on adult_reduced with 1,000 to 48,842 rows at epsilon 0.3 to 3, by the product of the mean errors of
pairs and triples. On three other tables (of 2,000 to 48,842 rows and 6.6 x 10^4 to 3.9 x 10^6 cells) it chose the
closer one in 12 of 15 cases, and in the others one whose error product was 5 to 10% larger. Of a chain of pairs, too
large to be held whole, the fit on a junction tree had an error of 0.030 where the mixture had 0.050.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from releases.engine.mechanisms.base import OWN_ROWS, SAME, Plan, mechanisms
from releases.engine.mechanisms.marginal_fit.mechanism import MarginalFitPlan
from releases.engine.mechanisms.mixture_fit import MixtureFit, MixtureFitPlan
from releases.publication.receipt import rows_text

#: The share of rows above which the noise on the tables asked about is too much for the fit to them.
MOST_NOISE = 0.11
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
    least, counted = ceil(fit.noise_in_rows / MOST_NOISE), fit.schema.counted
    if (rows or USUAL_ROWS) >= least:
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
    chosen = {name: dict(given) for name, given in options.items()}
    for name, each in mechanisms().items():
        if OWN_ROWS in each.options:
            given = chosen.setdefault(name, {})
            given[OWN_ROWS.name] = given.get(OWN_ROWS.name) or SAME
    return chosen
