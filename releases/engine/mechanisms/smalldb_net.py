"""The exponential mechanism over a public pseudo-random net of small databases.

The candidates are fixed by a public seed before any data is looked at; one is chosen with probability proportional to
exp(-ε L / (2 g m)) exactly, L/m being its largest error in counts, and its error is measured with discrete Laplace
noise. Privacy is that of `smalldb`: which candidates there are does not matter to it.

Accuracy. With C candidates, the chosen one errs by more than (2 g / ε)(ln C + ln(1/β)) counts beyond the *best
candidate* with probability at most β (Dwork and Roth 2014, Corollary 3.12). How good the best of a few thousand random
databases is depends on the data, and nothing useful can be proved of it beforehand, so no bound is: C candidates hold
ln C nats of information, where all databases of m rows hold about m ln(N/m). What is proved is the measured error with
its tail, with the release. The net pays where epsilon is so small that noise on the answers drowns them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np

from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.estimation.components import distribution
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import (
    ROWS,
    Consistency,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
    too_many_cells,
)
from releases.engine.mechanisms.error_certificate import FORMULA, MEASURE
from releases.engine.mechanisms.smalldb import (
    Split,
    answers_of,
    largest_error,
    released_total,
    split_of,
    too_noisy,
)
from releases.engine.noise.randomness import Randomness
from releases.engine.noise.selection import exponential_mechanism
from releases.engine.smalldb.net import BATCH, Net
from releases.engine.tables.counts import Counts
from releases.engine.tables.possible import only_possible
from releases.engine.workload.queries import Workload, attributes_asked

SEED = Option(
    name="seed",
    help="Which public net of candidates is used; any number not chosen by looking at the data.",
    lowest=0,
    highest=10**9,
    default=1,
)
CANDIDATES = Option(
    name="candidates",
    help="How many candidate databases there are; left empty, as many as can be weighed in a few seconds.",
    lowest=2,
    highest=1_000_000,
)
SIZE = Option(name="size", help="Rows of each candidate database.", lowest=1, highest=10_000, default=200)
#: Answers of all candidates: the default net has at most so many, and any net at most a hundred times more.
_DEFAULT_ANSWERS = 100_000_000
_MAX_ANSWERS = 10_000_000_000
#: More candidates gain a few nats and cost time.
_DEFAULT_CANDIDATES = 10_000


@register
class SmallDBNet(Mechanism):
    name = "smalldb-net"
    title = "Small database from a public net"
    summary = (
        "Chooses one of thousands of random databases fixed beforehand; for any questions at a very small epsilon."
    )
    source = "Blum, Ligett and Roth, J. ACM 60 (2013); Dwork and Roth (2014), Theorem 3.10 and Corollary 3.12"
    options = (ROWS, SEED, CANDIDATES, SIZE, MEASURE)
    consistency = Consistency.ONE_TABLE
    drops_impossible = True

    def _plan(self, request: PlanRequest) -> Plan:
        workload, options = request.counts_asked, request.options
        asked = workload.universe.project(attributes_asked(workload.families, workload.universe))
        if (refusal := too_many_cells(request, asked, bytes_each=16)) is not None:
            return refusal
        split = split_of(request)
        # Nothing but the measured error is proved, so all of beta is its tail.
        split = Split(
            choice=split.choice,
            total=split.total,
            measure=split.measure,
            beta_choice=Fraction(0),
            beta_total=Fraction(0),
            beta_measure=request.beta,
        )
        if (refusal := too_noisy(request, split)) is not None:
            return refusal
        count = options["candidates"] or max(2, min(_DEFAULT_CANDIDATES, _DEFAULT_ANSWERS // workload.size))
        if count * workload.size > _MAX_ANSWERS:
            reason = (
                f"{count:,} candidates have {count * workload.size:,} answers; at most {_MAX_ANSWERS:,} are weighed."
            )
            return infeasible(request, reason)
        return SmallDBNetPlan(
            **request.inputs(),
            asked=asked,
            candidates=count,
            split=split,
            events=split.events(),
            parameters=self._parameters(request, count, split),
            formula=FORMULA,
            source=self.source,
            work=self._work(request, asked, count),
        )

    def _parameters(self, request: PlanRequest, count: int, split: Split) -> dict[str, str]:
        unit = request.schema.rows_of_unit
        confidence = decimal_text(100 * (1 - request.beta), places=4)
        beyond = 2 * unit / float(split.choice) * (log(count) - log(float(request.beta)))
        return {
            "candidates": f"{count:,} of {request.options['size']:,} rows, seed {request.options['seed']}",
            "beyond the best candidate": f"at most {beyond:,.1f} counts, with probability {confidence}%",
            "sensitivity": f"{unit} (of the largest error, in counts)",
            "epsilon of the choice": decimal_text(split.choice),
            "epsilon of the measured error": decimal_text(split.measure),
        }

    def _work(self, request: PlanRequest, asked: Universe, count: int) -> Work:
        """Candidates are drawn, and each of their rows is looked at once for each family, a batch at a time."""
        workload, size, columns = request.counts_asked, request.options["size"], len(asked.shape)
        drawn = count * (1e-4 + 3e-8 * columns * (size + sum(asked.shape)))
        looked_at = count * size * len(workload.families) * 1.5e-8
        batch = min(count, max(1, BATCH // workload.size))
        return Work(
            cells=count * workload.size,
            seconds=0.1 + drawn + looked_at + count * workload.size * 6e-9,
            bytes=16 * asked.size + 24 * batch * workload.size + batch * size * (16 * columns + 24),
        )


@lru_cache(maxsize=2)
def _net(workload: Workload, asked: Universe, seed: int, count: int, size: int) -> Net:
    return Net(workload, asked, seed=seed, count=count, size=size)


@dataclass(frozen=True, kw_only=True)
class SmallDBNetPlan(Plan):
    """See the head of this file.

    Attributes:
        asked: the universe of the attributes that are asked about.
        candidates: C.
        split: of epsilon and beta.
    """

    candidates: int
    split: Split
    asked: Universe = field(repr=False)

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Counting the table", 0.0)
        universes, size = [self.asked], int(self.options["size"])
        table = counts.marginal(self.asked.names)
        exact = answers_of(self.counts_asked, universes, [table])
        total = released_total(int(table.sum()), self.schema, self.split, rng)
        net = _net(self.counts_asked, self.asked, int(self.options["seed"]), self.candidates, size)
        errors = []
        for batch in net.errors(np.concatenate(exact), rows=total):
            errors.append(batch)
            progress("Weighing the candidates", 0.1 + 0.7 * sum(map(len, errors)) / self.candidates)
        chosen = exponential_mechanism(
            -np.concatenate(errors),
            epsilon=self.split.choice,
            sensitivity=Fraction(size * self.schema.rows_of_unit),
            rng=rng,
        )
        progress("Measuring its error", 0.9)
        database = np.zeros(self.asked.shape, dtype=np.int64)
        np.add.at(database, tuple(net.rows(chosen)), 1)
        answers = answers_of(self.counts_asked, universes, [database])
        error = largest_error(answers, exact, size=size, total=total)
        bound = Bound(
            beta=self.beta,
            half_widths=(self.split.certificate(self.schema).proves(error, rng),) * len(self.counts_asked.families),
            proof=Proof.AFTER,
            formula=FORMULA,
            source=SmallDBNet.source,
        )
        return Result(
            estimates=tuple(each.astype(np.float64) * (total / size) for each in answers),
            bound=bound,
            total=float(total),
            distribution=distribution(universes, [only_possible(self.asked, database / size)]),
            notes={"candidate chosen": chosen},
        )
