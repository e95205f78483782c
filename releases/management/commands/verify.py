"""`manage.py verify`: what a sceptic needs, on one page, from running the software as it is installed."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise.randomness import OperatingSystemRandomness, Randomness
from releases.engine.verification.adversary import strategies_seen
from releases.engine.verification.coverage import BETA, BoundSeen, bounds_seen
from releases.engine.verification.oracles import figures_seen
from releases.engine.verification.privacy_loss import LossSeen, losses_seen
from releases.engine.verification.samplers import samplers_seen
from releases.engine.verification.sparse_vector_audit import loss_checks
from releases.management.database import ensure_database
from releases.management.protections import protections_seen

#: Runs of every mechanism on each of two tables; over half an hour of one processor in all, and about ten minutes.
RUNS, QUICK_RUNS = 8_000, 1_500
#: Runs for a bound, as a share of those; a rate is seen sooner than a ratio.
_SHARE_FOR_BOUNDS = 8
#: The probability that working software fails any of the checks of one part that rest on chance.
FALSE_ALARM = 1e-3


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One check: what it is of, the cells of its row, and whether it passed."""

    cells: tuple[str, ...]
    passed: bool


@dataclass(frozen=True, kw_only=True)
class ReportPart:
    """One part of the page.

    Attributes:
        name: as after --only.
        title: of the table.
        says: what passing means, for somebody who trusts nobody.
        heads, widths: of the columns; a negative width is aligned to the right.
        lines: makes the lines, one by one as they are found.
    """

    name: str
    title: str
    says: str
    heads: tuple[str, ...]
    widths: tuple[int, ...]
    lines: Callable[[], Iterator[CheckLine]]


class Command(BaseCommand):
    help = "Check samplers, thresholds, prices, privacy, bounds and the ledger by running them; status 1 if any fails."

    #: Where the noise comes from; a test gives a stream.
    randomness: Randomness = OperatingSystemRandomness()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--runs", type=int, help=f"of every mechanism on each table; {RUNS:,} where not given")
        parser.add_argument(
            "--quick", action="store_true", help=f"{QUICK_RUNS:,} runs: about ten minutes of one processor"
        )
        parser.add_argument(
            "--only",
            help="one part (samplers, thresholds, prices, filter, privacy, bounds, protection, ledger) or mechanism",
        )

    def handle(self, **options: Any) -> None:
        runs = options["runs"] or (QUICK_RUNS if options["quick"] else RUNS)
        if runs < 1:
            raise CommandError(f"--runs: {runs} must be a whole number from 1.")
        started, used, passed, failed = time.monotonic(), time.process_time(), 0, 0
        for part in self._parts(runs, options["only"]):
            for line in self._print(part):
                passed, failed = passed + line.passed, failed + (not line.passed)
        minutes, of_processor = (time.monotonic() - started) / 60, (time.process_time() - used) / 60
        if failed:
            raise CommandError(f"{failed} of {passed + failed} checks FAILED.")
        self.stdout.write(f"All {passed} checks passed in {minutes:.1f} minutes, {of_processor:.1f} of the processor.")

    def _parts(self, runs: int, only: str | None) -> list[ReportPart]:
        names = [only] if only in mechanisms() else None
        parts = [*self._software(), *self._mechanisms(runs, names), self._protection(), self._ledger()]
        if names:
            return [part for part in parts if part.name in ("privacy", "bounds")]
        known = [part.name for part in parts]
        if only is not None and only not in known:
            raise CommandError(f"--only: {only} must be one of {', '.join([*known, *mechanisms()])}.")
        return [part for part in parts if only in (None, part.name)]

    def _print(self, part: ReportPart) -> Iterator[CheckLine]:
        self.stdout.write(f"{part.title}\n{part.says}\n")
        self.stdout.write(_row("", part.heads, part.widths))
        for line in part.lines():
            self.stdout.write(_row("PASS" if line.passed else "FAIL", line.cells, part.widths))
            self.stdout.flush()
            yield line
        self.stdout.write("")

    def _software(self) -> list[ReportPart]:
        return [
            ReportPart(
                name="samplers",
                title="SAMPLERS",
                says="200,000 draws at each of 12 scales against the exact laws, by chi-square. Scales that are a "
                f"tenth off must be noticed.\nRight samplers fail with probability {FALSE_ALARM:g} at most.",
                heads=("noise", "self-test"),
                widths=(24, 60),
                lines=self._sampler_lines,
            ),
            ReportPart(
                name="thresholds",
                title="THRESHOLDS",
                says="The exact privacy loss of sparse-vector mechanisms, summed over the threshold's noise. Ours must "
                "lose what they claim and\nno more; wrong ones that were published with a proof must be seen to lose "
                "more.",
                heads=("variant", "claimed", "exact", "source"),
                widths=(56, -8, -8, 40),
                lines=_threshold_lines,
            ),
            ReportPart(
                name="prices",
                title="PRICES",
                says="Known plans at delta 10^-6 beside figures of other software. Ours are upper bounds: never below, "
                "and above by rounding only.",
                heads=("plan", "ours", "oracle", "by"),
                widths=(46, -16, -16, 14),
                lines=_price_lines,
            ),
            ReportPart(
                name="filter",
                title="FILTER",
                says="The worst strategy that mixes kinds of releases before the budget's rule, computed exactly over "
                "a small menu. It must not\nget past delta, and must be seen to where the rule is spoiled.",
                heads=("rule", "epsilon", "delta", "reached"),
                widths=(40, -8, -8, -10),
                lines=_filter_lines,
            ),
        ]

    def _mechanisms(self, runs: int, names: list[str] | None) -> list[ReportPart]:
        return [
            ReportPart(
                name="privacy",
                title="PRIVACY",
                says=f"Every mechanism, with each word of its options, on two neighbouring tables, {runs:,} times "
                "(fewer where one takes long), once\nwhere a row is the unit and once where it is a person of up to "
                "three rows: the epsilon proved from what came out must not pass\nthe claim, and must pass it when "
                "all noise is scaled by the factor shown. All these bounds are true at once with probability\n"
                f"{1 - FALSE_ALARM:.1%} (Clopper and Pearson, on other runs than those that chose the event).",
                heads=(
                    "mechanism",
                    "neighbours",
                    "unit",
                    "delta",
                    "claimed",
                    "proved",
                    "noise x",
                    "proved then",
                    "runs",
                ),
                widths=(36, 11, 6, -7, -8, -8, -8, -11, -6),
                lines=lambda: self._privacy_lines(runs, names),
            ),
            ReportPart(
                name="bounds",
                title="BOUNDS",
                says=f"How often any answer left its bound, which may happen with probability {float(BETA)} (chosen "
                f"large to be seen). True bounds fail\nwith probability {FALSE_ALARM:g} at most, all together.",
                heads=("mechanism", "neighbours", "unit", "allowed", "left", "runs", "true rate (99%)"),
                widths=(36, 11, 6, -8, -6, -6, -16),
                lines=lambda: self._bound_lines(max(1, runs // _SHARE_FOR_BOUNDS), names),
            ),
        ]

    def _protection(self) -> ReportPart:
        return ReportPart(
            name="protection",
            title="PROTECTION",
            says="A budget for each protection, and a plan for every other: none is charged. A budget whose protection "
            "is changed\nbehind the ledger's back is noticed. Nothing of it is kept.",
            heads=("budget", "charged for it", "refused", "noticed"),
            widths=(75, -14, -8, -8),
            lines=_protection_lines,
        )

    def _ledger(self) -> ReportPart:
        return ReportPart(
            name="ledger",
            title="LEDGER",
            says="Every entry of every budget: the chain of hashes, the sums, each price made again, the caps, what "
            "was protected,\nand marks kept apart.",
            heads=("audit",),
            widths=(100,),
            lines=_ledger_lines,
        )

    def _sampler_lines(self) -> Iterator[CheckLine]:
        for seen in samplers_seen(false_alarm=FALSE_ALARM, rng=self.randomness):
            name = "as installed" if seen.factor == 1 else f"scales x {float(seen.factor):g}"
            says = f"noticed: {seen.failure}" if seen.failure else "no difference found"
            yield CheckLine(cells=(name, says), passed=seen.is_as_it_should_be)

    def _privacy_lines(self, runs: int, names: list[str] | None) -> Iterator[CheckLine]:
        for seen in losses_seen(runs=runs, false_alarm=FALSE_ALARM, rng=self.randomness, names=names):
            shown: tuple[str, ...] = (seen.infeasible,)
            if not seen.infeasible:
                shown = (
                    f"{seen.delta:g}",
                    f"{seen.epsilon:.3f}",
                    f"{seen.proved:.3f}",
                    str(seen.weakened),
                    f"{seen.proved_weakened:.3f}",
                    f"{seen.runs:,}",
                )
            cells = (_named(seen), seen.neighbours.value, seen.unit, *shown)
            yield CheckLine(cells=cells, passed=seen.is_as_it_should_be)

    def _bound_lines(self, runs: int, names: list[str] | None) -> Iterator[CheckLine]:
        for seen in bounds_seen(runs=runs, false_alarm=FALSE_ALARM, rng=self.randomness, names=names):
            shown: tuple[str, ...] = (seen.infeasible,)
            if not seen.infeasible:
                low, high = seen.rate
                shown = (f"{seen.beta:g}", f"{seen.left:,}", f"{seen.runs:,}", f"{low:.3f} to {high:.3f}")
            yield CheckLine(
                cells=(_named(seen), seen.neighbours.value, seen.unit, *shown), passed=seen.is_as_it_should_be
            )


def _named(seen: LossSeen | BoundSeen) -> str:
    return f"{seen.mechanism}, {seen.way}" if seen.way else seen.mechanism


def _threshold_lines() -> Iterator[CheckLine]:
    for check in loss_checks():
        cells = (check.variant, f"{check.claimed:.3f}", f"{check.exact:.3f}", check.source)
        yield CheckLine(cells=cells, passed=check.is_as_it_should_be)


def _price_lines() -> Iterator[CheckLine]:
    for seen in figures_seen():
        cells = (seen.figure, f"{seen.ours:.10f}", f"{seen.oracle:.10f}", seen.source)
        yield CheckLine(cells=cells, passed=seen.is_as_it_should_be)


def _filter_lines() -> Iterator[CheckLine]:
    for seen in strategies_seen():
        cells = (seen.rule, f"{float(seen.epsilon):g}", f"{float(seen.delta):g}", f"{seen.reached:.3g}")
        yield CheckLine(cells=cells, passed=seen.is_as_it_should_be)


def _protection_lines() -> Iterator[CheckLine]:
    ensure_database()
    for seen in protections_seen():
        counted = (f"{number} of {seen.others}" for number in (seen.refused, seen.noticed))
        yield CheckLine(
            cells=(seen.promised, "yes" if seen.is_charged else "no", *counted), passed=seen.is_as_it_should_be
        )


def _ledger_lines() -> Iterator[CheckLine]:
    """What `manage.py audit` says."""
    ensure_database()
    said, faults = StringIO(), StringIO()
    try:
        call_command("audit", stdout=said, stderr=faults)
    except CommandError as failure:
        for fault in faults.getvalue().splitlines():
            yield CheckLine(cells=(fault,), passed=False)
        yield CheckLine(cells=(str(failure),), passed=False)
    else:
        yield CheckLine(cells=(said.getvalue().strip(),), passed=True)


def _row(verdict: str, cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    shown = (cell.rjust(-width) if width < 0 else cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
    return f"{verdict:4}  {'  '.join(shown)}".rstrip()
