"""The largest error of what a release has published, measured with noise afterwards: a certificate that can be bought.

Let r be what the release gives for each query of its workload, public by now, and a the exact answers. The largest
error L = max |r_q - a_q|, rounded up to whole rows, moves by at most g for one privacy unit of g rows, under either
relation: each a_q does (coefficients are 0 or 1), and a maximum, and rounding up, keep it so. L + X is released:
discrete Laplace noise of scale g / ε (Dwork and Roth 2014, Theorem 3.6) for a pure budget, else discrete Gaussian noise
of variance g² / (2 ρ) (Canonne, Kamath and Steinke 2020, Theorem 4). Then, t being the least number with
Pr[X < -t] <= β, and M = max(0, L + X), because no error is below 0,

    L <= M + t   and   M + t <= L + 2 t,   each with probability 1 - β.

The first is what is certified, the second what the noise can add to it, known before anything is spent. It holds
however r was made, of the same table too, because r is fixed before X is drawn.

**Mean errors** of m tables are bought beside it. Let E_t be the distance of the published table from the true one
(`bounds.distance`, which proves that one unit of g rows moves it by at most g, under either relation). Their sum
S = sum E_t, rounded up to whole rows, moves by at most m g, so the mean S/m moves by g however many tables there are.
S + X is released, with discrete noise of that sensitivity, and so

    S/m <= (M + t)/m,   M = max(0, S + X),   and   (M + t)/m <= (S + 1 + 2 t)/m,

each with probability 1 - β. Where the published table is of N rows, the mean total variation of shares is at most
(M + t)/(m N), whatever the number of rows of the true one.

Of k numbers each has a k-th of the budget, in epsilon or rho, and a k-th of β. That is the exact price of the vector
of all k, each in units of its own sensitivity: it moves by k in L1 and by the root of k in L2. So its bounds hold all
at once with probability 1 - β.

**Several certificates.** Whether a second one is bought, of what, and which are shown, may depend on what the first has
found. So the j-th certificate of a release has β / (j (j + 1)) for its tails: given all that came before it, it fails
with no more than that probability, as its noise is drawn afterwards. The probability that any of them ever fails is at
most the sum, and sum 1 / (j (j + 1)) = sum (1/j - 1/(j + 1)) = 1: no more than β, however many are bought and however
they are chosen. Where they are stated with different β, those that state b or less fail with probability b at most. It
needs only that no two have the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.bounds.distance import ScaledRows, rows_apart
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import decimal_text
from releases.engine.errors import InvalidInput
from releases.engine.estimation.components import counted, exact_answers
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, register
from releases.engine.mechanisms.error_certificate import SOURCE, Certificate
from releases.engine.mechanisms.marginal_fit.common import refused_noise, usable_allowance
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.largest_error import (
    ASKED,
    HUNDREDTHS,
    RELEASED_ANSWERS,
    SYNTHETIC_ROWS,
    Hundredths,
    LargestError,
)
from releases.engine.workload.questions import Inquiry

#: 0 is of those that were planned before each had a number, and of an error that is measured once and for all.
NUMBER = Option(
    name="number",
    help="Which certificate of its release it is, as they are bought: the j-th has one part in j (j + 1) of what may "
    "fail, so that all of them hold together. 0: it has all of it, and holds by itself.",
    lowest=0,
    highest=1_000,
    default=0,
)
_FORMULA = r"\alpha = \max\{0, L + X\} + \min\left\{t : \Pr[X < -t] \le \beta\right\}"
_ADDED = r"\alpha \le L + 2 \min\left\{t : \Pr[X < -t] \le \beta\right\}"
#: Seconds to count one table of a million rows and one of as many synthetic rows, once their bins are known.
_SECONDS_A_TABLE = 0.02
#: Cells that are counted at once, of 64 bits, in the table and in the rows; and what the rows' bins may take.
_BYTES_OF_TABLES = 400 << 20
#: Of the note that holds what is certified of each mean.
MEANS_NOTE = "mean errors"


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredMean:
    """A mean error over some tables.

    Attributes:
        word: which tables, as the question has it.
        tables: their number m.
        certificate: how the sum of their distances is measured.
    """

    word: str
    tables: int
    certificate: Certificate

    @property
    def added(self) -> Fraction:
        """What noise and rounding add to the mean at most, in hundredths of a row that are rounded up."""
        return _hundredths_up(Fraction(2 * ceil(self.certificate.tail) + 1, self.tables)) + Fraction(1, HUNDREDTHS)


@register
class MeasuredError(Mechanism):
    name = "measured-error"
    title = "Noise on the largest error"
    summary = "Measures how far published counts are from the truth, at worst, and adds noise to that one number."
    source = SOURCE
    options = (NUMBER,)
    answers = (LargestError,)
    is_offered = False

    def _plan(self, request: PlanRequest) -> Plan:
        statistic = request.statistic
        assert isinstance(statistic, LargestError)
        whole = usable_allowance(request)
        if isinstance(whole, Plan):
            return whole
        numbers = 1 + len(statistic.means)
        allowance = whole if numbers == 1 else whole.share(Fraction(1, numbers))
        number = request.options[NUMBER.name]
        parts = number * (number + 1) or 1
        beta = request.beta / parts / numbers
        certificate = Certificate.of(allowance, schema=request.schema, beta=beta)
        means = tuple(
            MeasuredMean(
                word=word,
                tables=number,
                certificate=Certificate.of(allowance, schema=request.schema, beta=beta, tables=number),
            )
            for word in statistic.means
            if (number := len(statistic.tables(word)))
        )
        noises = [certificate.noise, *(each.certificate.noise for each in means)]
        if (refusal := refused_noise(request, noises)) is not None:
            return refusal
        # Rounding up adds less than a row; the counts of synthetic rows are whole, and need none.
        rounded = any(each.what == RELEASED_ANSWERS for each in statistic.released)
        added = 2 * ceil(certificate.tail) + rounded
        within = request.schema.counted.text(added)
        size = statistic.workload.size
        tables = sum(each.tables for each in means if each.word != ASKED)
        return MeasuredErrorPlan(
            **request.inputs(),
            certificate=certificate,
            means=means,
            given=statistic.written_out(),
            events=tuple(each.event for each in noises),
            parameters={
                **certificate.noise.parameters,
                "counts certified": f"{size:,}",
                **({"number among the certificates of its release": f"{number:,}"} if number else {}),
                "noise can add at most": within,
                **{
                    f"noise can add to {statistic.mean_in_words(each.word)} at most": rows_in_hundredths(
                        each.added, request.schema.counted
                    )
                    for each in means
                },
            },
            expectation=Bound(
                beta=request.beta,
                half_widths=(float(added), *(float(each.added) for each in means)),
                proof=Proof.BEFORE,
                formula=_ADDED,
                source=SOURCE,
                says="; ".join(
                    [
                        f"the bound that will be certified is at most {within} above {statistic.in_words}",
                        *(
                            f"that on {statistic.mean_in_words(each.word)} at most "
                            f"{rows_in_hundredths(each.added, request.schema.counted)} above it"
                            for each in means
                        ),
                    ]
                )
                + ".",
            ),
            work=Work(
                cells=size,
                seconds=0.3 + size * 1e-6 + tables * _SECONDS_A_TABLE,
                bytes=size * 24 * len(statistic.released) + (_BYTES_OF_TABLES if means else 0),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredErrorPlan(Plan):
    """One number, and one for each mean.

    Attributes:
        certificate: how the largest error is measured.
        means: how each mean is.
        given: what is certified, by its name; that of files is given after planning, by `with_published`.
        rows: the synthetic rows themselves, given with their numbers where a mean is asked of them.
    """

    certificate: Certificate
    means: tuple[MeasuredMean, ...] = ()
    given: Mapping[str, Hundredths] = field(default_factory=dict, compare=False, repr=False)
    rows: ScaledRows | None = field(default=None, compare=False, repr=False)

    @property
    def statistic(self) -> LargestError:
        assert isinstance(self.workload, Inquiry)
        assert isinstance(self.workload.statistic, LargestError)
        return self.workload.statistic

    @property
    def needs_rows(self) -> bool:
        """Whether a file of synthetic rows is compared by tables that it was not asked about."""
        return bool(self.means) and any(each.what == SYNTHETIC_ROWS and each.sha256 for each in self.statistic.released)

    def with_published(
        self, what: str, numbers: Sequence[NDArray[np.float64]], rows: ScaledRows | None = None
    ) -> MeasuredErrorPlan:
        """The same plan with the numbers of a file whose SHA-256 the caller has found to be the plan's.

        Args:
            what: is certified, the synthetic rows or the released answers.
            numbers: for each family of the workload, in rows, with at most two decimals.
            rows: of synthetic rows the rows themselves, where a mean is asked of them.

        Raises:
            InvalidInput: the plan certifies no such file, or the numbers are not those of its workload.
        """
        if what not in {each.what for each in self.statistic.released if each.sha256}:
            raise InvalidInput("what", what, "must be a file that the plan certifies")
        given = {**self.given, what: self.statistic.in_hundredths(numbers, what=what)}
        if what != SYNTHETIC_ROWS or not self.needs_rows:
            return replace(self, given=given)
        if rows is None:
            raise InvalidInput(what, "no rows", "must be given for the means that are asked of them")
        asked = {name for mean in self.means for names in self.statistic.tables(mean.word) for name in names}
        rows.check(self.statistic.workload.universe, tuple(sorted(asked)))
        return replace(self, given=given, rows=rows)

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        for each in self.statistic.released:
            if each.what not in self.given:
                raise InvalidInput(each.what, "nothing", "must be given before the table is looked at")
        progress("Counting the table", 0.0)
        exact = exact_answers(self.statistic.workload, counts)
        worst = max(
            int(np.abs(one - HUNDREDTHS * other).max(initial=0))
            for each in self.statistic.released
            for one, other in zip(self.given[each.what], exact, strict=True)
        )
        sums = [self._sum(each.word, exact, counts) for each in self.means]
        progress("Adding noise", 0.8)
        measured = max(0, self.certificate.measured(-(-worst // HUNDREDTHS), rng))
        most = measured + ceil(self.certificate.tail)
        text, statistic = self.schema.counted.text, self.statistic
        says = [f"{statistic.in_words} is at most {text(most)}"]
        estimates, widths = [Fraction(measured)], [Fraction(ceil(self.certificate.tail))]
        notes: dict[str, Any] = {"measured": measured, "at most": most}
        for mean, total in zip(self.means, sums, strict=True):
            found = max(0, mean.certificate.measured(total, rng))
            about = Fraction(found, mean.tables)
            at_most = _hundredths_up(Fraction(found + ceil(mean.certificate.tail), mean.tables))
            estimates.append(about)
            widths.append(at_most - about)
            share = self._share(mean.word, at_most)
            as_share = "" if share is None else f", or {decimal_text(share * 100, places=2)}% of them"
            most_rows = rows_in_hundredths(at_most, self.schema.counted)
            says.append(f"{statistic.mean_in_words(mean.word)} is at most {most_rows}{as_share}")
            notes.setdefault(MEANS_NOTE, {})[mean.word] = {
                "tables": mean.tables,
                "at most": float(at_most),
                **({} if share is None else {"share at most": float(share)}),
            }
        bound = Bound(
            beta=self.beta,
            half_widths=tuple(map(float, widths)),
            proof=Proof.AFTER,
            formula=_FORMULA,
            source=SOURCE,
            says=f"{'; '.join(says)}.",
            is_one_sided=True,
        )
        return Result(
            estimates=tuple(np.array([float(each)]) for each in estimates),
            bound=bound,
            total=0.0,
            notes=notes,
        )

    def _sum(self, word: str, exact: Sequence[NDArray[np.int64]], counts: Counts) -> int:
        """The distances of all tables of a mean, together, rounded up to whole rows. Of several things that are
        certified the distance of a table is the greatest, which moves no further than each."""
        universe, asked = self.statistic.workload.universe, self.statistic.asked_tables
        tables = self.statistic.tables(word)
        true = (exact[asked[names]] for names in tables) if word == ASKED else counted(counts, tables, universe)
        total = Fraction(0)
        for names, table in zip(tables, true, strict=True):
            flat = table.reshape(-1)
            total += max(
                Fraction(rows_apart(numbers, unit * flat), unit)
                for numbers, unit in self._published(word, names, asked)
            )
        return ceil(total)

    def _published(
        self, word: str, names: tuple[str, ...], asked: Mapping[tuple[str, ...], int]
    ) -> list[tuple[NDArray[np.int64], int]]:
        """What each part of the release says of a table, in whole units, of which so many are a row."""
        universe = self.statistic.workload.universe
        if word != ASKED:
            assert self.rows is not None
            return [(self.rows.table(names, universe), self.rows.rows)]
        return [
            (self.rows.table(names, universe), self.rows.rows)
            if each.what == SYNTHETIC_ROWS and self.rows is not None
            else (self.given[each.what][asked[names]], HUNDREDTHS)
            for each in self.statistic.released
        ]

    def _share(self, word: str, at_most: Fraction) -> Fraction | None:
        """A mean error of synthetic rows as a share of these, in hundredths of a per cent, rounded up; None where
        answers count too, which can add up to any number of rows."""
        if self.rows is None or (word == ASKED and len(self.statistic.released) > 1):
            return None
        return min(Fraction(1), Fraction(ceil(at_most * 10_000 / self.rows.stands_for), 10_000))


def _hundredths_up(number: Fraction) -> Fraction:
    return Fraction(ceil(number * HUNDREDTHS), HUNDREDTHS)


def rows_in_hundredths(number: Fraction, counted: Counted) -> str:
    """Rows with at most two decimals."""
    return counted.text(f"{float(number):,.2f}".rstrip("0").rstrip("."))
