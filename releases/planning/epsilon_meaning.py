"""What an epsilon means: how far somebody's belief in a fact about one unit can rise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from releases.engine.accounting.accountant import Price
from releases.engine.domain.privacy import exact
from releases.publication.receipt import percent

#: From here on a page says that an epsilon is large: a belief of 10% can rise above 90%.
LARGE_EPSILON = 5
_PRIORS = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))
OF_A_RELEASE = "how sure a reader of the release can become of a fact about one unit."
OF_A_REPORT = (
    "somebody who believed something about one respondent's answer, and then sees that respondent's report, believes "
    "it more strongly, but only up to a limit."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EpsilonMeaning:
    """What pages say of an epsilon.

    Attributes:
        lead: what it limits, after "What epsilon 1 means:".
        beliefs: how sure somebody can be before, and after at most.
        delta: that allows more than the table says; empty where none does.
    """

    epsilon: str
    lead: str
    beliefs: tuple[tuple[str, str], ...]
    delta: str
    is_large: bool


def epsilon_meaning(
    epsilon: str, *, delta: str = "", price: Price | None = None, lead: str = OF_A_RELEASE
) -> EpsilonMeaning:
    """
    Args:
        price: of the plan, if there is one. It may be paid by epsilon alone, whatever delta was typed.
    """
    exactly = exact(epsilon, field="epsilon")
    is_pure = delta in ("", "0") or (price is not None and bool(price.pure_epsilon))
    return EpsilonMeaning(
        epsilon=epsilon,
        lead=lead,
        beliefs=tuple((percent(prior), belief_after(prior, exactly)) for prior in _PRIORS),
        delta="" if is_pure else delta,
        is_large=exactly >= LARGE_EPSILON,
    )


def belief_after(prior: Fraction, epsilon: Fraction) -> str:
    """The most a belief of `prior` can rise to: odds grow by e^epsilon at most.

    That is so of (epsilon, 0)-DP whatever comes out. With a delta, each pair of neighbours has a release that says at
    least as much as the real one and, with probability delta, gives away which of the two is the table; otherwise odds
    grow by e^epsilon at most (Kairouz, Oh and Viswanath 2015: the real release is that one, processed further). So the
    belief of whoever reads the real one, averaged over what comes out, exceeds q = `belief_after` by little:

        E[(belief - q)+] = max over S of  p (1 - q) (P(S) - e^epsilon P'(S))  <=  p (1 - q) delta,

    p the prior, P and P' the laws of the release, S where the belief is above q; e^epsilon = q (1 - p) / (p (1 - q)).
    It is not so that belief exceeds q with probability at most delta: a small excess may be likelier.
    """
    posterior = float(_posterior(prior, epsilon))
    # Never rounded to a certainty that epsilon does not give.
    return f"{posterior:.3g}%" if posterior < 99.9 else "over 99.9%"


def highest_posterior(prior: Fraction, epsilon: Fraction) -> int:
    """The most a belief of `prior` can rise to, in per cent, rounded up to a whole number."""
    most: int = ceil(_posterior(prior, epsilon))
    return most


def _posterior(prior: Fraction, epsilon: Fraction) -> Any:
    """At least the most a belief can rise to, in per cent: the upper end of an interval that holds it."""
    from mpmath import iv, mpf

    growth = iv.exp(iv.mpf(epsilon.numerator) / epsilon.denominator)
    other = iv.mpf(prior.denominator - prior.numerator) / prior.numerator
    return mpf((100 / (1 + other / growth)).b)


def epsilon_scale() -> list[dict[str, Any]]:
    """What epsilons mean beside each other, for somebody who chooses one."""
    return [
        {"epsilon": epsilon, "posterior": belief_after(Fraction(1, 10), Fraction(epsilon))}
        for epsilon in ("0.1", "0.5", "1", "3", "5", "10")
    ]
