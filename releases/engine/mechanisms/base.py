"""What a mechanism is: a plan made of public inputs, and a run that is the only place that touches data.

Adding a mechanism is one file in this package: a `Mechanism` with a `plan` method, registered by `@register`, and
a `Plan` with a `_run` method. The contract suite in ``tests/engine/mechanisms/test_mechanisms.py`` finds it by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any, ClassVar, TypeVar

from releases.engine.accounting.events import Event
from releases.engine.bounds.accuracy import Bound, check_beta
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP, decimal_text, privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import EngineError, Infeasible, InvalidInput, Unpriceable
from releases.engine.estimation.result import Result
from releases.engine.estimation.synthetic import bytes_a_row, most_rows
from releases.engine.metering import meter
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import MAX_DENSE_CELLS, Counts
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.engine.workload.questions import Inquiry, Question
from releases.engine.workload.statistic import Statistic

#: Called between steps with what is being done and the share done in [0, 1]; may raise `Cancelled`.
#: Both are functions of the plan and of noisy values already paid for, never of the data.
Progress = Callable[[str, float], None]

PLAN_VERSION = 1


class PlanChanged(EngineError):
    """A stored plan, made again, differs from what was stored: the software changed since. Plan again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a run will take, predicted from public inputs.

    Attributes:
        cells: how many numbers are held at once.
        seconds: on one ordinary core.
        bytes: of memory at the peak, with the most synthetic rows that can be made.
    """

    cells: int
    seconds: float
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A choice a mechanism leaves to the curator, public like everything in a plan.

    Attributes:
        name: as in the options object and on the command line.
        help: one sentence for a person who does not know the field.
        lowest, highest: the range of a whole number.
        choices: the words accepted, where it is not a number.
        default: None means that the mechanism decides.
        before: what a plan is read with that was stored before there was the option; None where that is the default.
    """

    name: str
    help: str
    lowest: int = 0
    highest: int = 0
    choices: tuple[str, ...] = ()
    default: int | str | None = None
    before: int | str | None = None

    @property
    def label(self) -> str:
        """Its name as people read it."""
        return (self.name[:1].upper() + self.name[1:]).replace("_", " ")

    def read(self, value: object) -> int | str | None:
        field_name = f"options.{self.name}"
        if value is None or value == "":
            return self.default
        if self.choices:
            if value not in self.choices:
                raise InvalidInput(field_name, value, f"must be one of {', '.join(self.choices)}")
            return str(value)
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.lowest <= value <= self.highest:
            raise InvalidInput(field_name, value, f"must be a whole number from {self.lowest:,} to {self.highest:,}")
        return value


ROWS = Option(
    name="rows",
    help="How many synthetic rows to make; left empty, the noisy total that the release pays for, up to a limit that "
    "the plan states.",
    lowest=1,
    highest=MAX_DENSE_CELLS,
)


OWN, SAME = "own", "same"
OWN_ROWS = Option(
    name="rows_counted",
    help="Which rows a table counts, where rules of columns leave some out: “own” for all that fit its own columns, "
    "so that totals may differ, or “same” for those alone that fit every column asked about. Tables that are to agree "
    "need “same”, and so do synthetic rows. Left to the mechanism, it is “own”, unless tables were chosen to agree, or "
    "a number of synthetic rows was chosen; then it is “same”.",
    choices=(OWN, SAME),
    before=SAME,
)

#: The note of a release whose tables count rows of their own: the least and the most that one of them counts.
ROWS_OF_TABLES = "noisy numbers of rows in tables"


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """What will be done to which data, with what noise, at what price, and how accurately. No data in it.

    Attributes:
        mechanism: the registered name.
        schema: universe, privacy unit and neighbouring relation.
        workload: the questions.
        budget: what the release may spend.
        beta: failure probability of the bound.
        options: the mechanism's own choices, complete.
        events: what will happen, for the accountant to price.
        parameters: the numbers of the run (noise scale, rounds, ...), as text for people and receipts.
        bound: the bound proved before the release, where there is one.
        expectation: what public assumptions or the noise lead one to expect, where no useful bound can be proved.
        formula, source: of the bound that the release will prove, where nothing is known of it before.
        work: what it takes.
        infeasible: why it cannot be run, in one sentence; empty where it can.
    """

    mechanism: str
    schema: Schema
    workload: Question
    budget: PrivacyBudget
    beta: Fraction
    options: Mapping[str, Any]
    events: tuple[Event, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    bound: Bound | None = None
    expectation: Bound | None = None
    formula: str = ""
    source: str = ""
    work: Work = Work(cells=0, seconds=0.0, bytes=0)
    infeasible: str = ""

    def run(self, counts: Counts, *, rng: Randomness, progress: Progress | None = None) -> Result:
        """Touch the data: the only place where that happens.

        Args:
            counts: the exact counts of the table under this plan's schema.
            rng: the operating system's randomness; a stream only in tests and simulations.
            progress: see `Progress`.

        Raises:
            Infeasible: the plan says that it cannot be run.
            InvalidInput: the counts are of another universe, or of another population: with a person's rows bounded by
                another number, say, they move by more than the noise is made for.
        """
        if self.infeasible:
            raise Infeasible(self.infeasible)
        if counts.universe != self.schema.universe:
            raise InvalidInput("counts", "another universe", "must be of the plan's schema")
        if counts.population is not None and counts.population != self.schema.population:
            raise InvalidInput("counts", "another population", "must be of the plan's schema")
        return self._run(counts, rng, progress or (lambda step, share: None))

    @abstractmethod
    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result: ...

    def public_rows(self, counts: Counts) -> int | None:
        """The number of counted rows where that is public, and so exact; else None."""
        if not self.schema.total_is_public:
            return None
        return int(counts.marginal(self.schema.universe.names[:1]).sum())

    @property
    def counts_asked(self) -> Workload:
        """The workload of a plan that answers counts."""
        assert isinstance(self.workload, Workload)
        return self.workload

    @property
    def delta(self) -> Fraction:
        """The delta at which the release states its approximate form; 0 where it is pure."""
        return self.budget.delta if isinstance(self.budget, ApproxDP) else Fraction(0)

    @property
    def makes_synthetic_rows(self) -> bool:
        """Whether rows are made of its result. Rows of how values read would look like rows of the table; and of tables
        that count different rows, no rows are fitted."""
        universe = self.schema.universe
        return ROWS.name in self.options and not self.infeasible and not (universe.is_of_states or universe.own_rows)

    @property
    def most_synthetic_rows(self) -> int:
        """The most that are made, whatever the noise: the number chosen, or a limit from the declared columns alone."""
        if not self.makes_synthetic_rows:
            return 0
        chosen = self.options[ROWS.name]
        return most_rows(self.schema.universe) if chosen is None else int(chosen)

    @property
    def bytes_of_rows(self) -> int:
        """The part of the work's bytes that synthetic rows take at most."""
        return self.most_synthetic_rows * bytes_a_row(self.schema.universe)

    @property
    def limits(self) -> dict[str, str]:
        """What noise can size, and how far it may, as text for people and receipts. All from public numbers."""
        most = self.most_synthetic_rows
        return {"most synthetic rows": f"{most:,}"} if most else {}

    def measured_tables(self, result: Result) -> Iterable[tuple[str, ...]]:
        """Sets of attributes whose whole tables a run measured with noise, besides those that are asked for.

        They follow from public inputs, or from what the result's notes say of them.
        """
        return ()

    def to_json(self) -> dict[str, Any]:
        """The inputs, from which the plan can be made again, and what was planned, to compare."""
        return {
            "version": PLAN_VERSION,
            "mechanism": self.mechanism,
            "schema": self.schema.to_json(),
            "workload": self.workload.to_json(),
            "budget": budget_to_json(self.budget),
            "beta": str(self.beta),
            "options": dict(self.options),
            "planned": {
                "events": [event.to_json() for event in self.events],
                "parameters": dict(self.parameters),
                "infeasible": self.infeasible,
            },
        }


#: Where the notes of a result say that its tables of expected counts add up over levels.
LEVELS_NOTE = "tables over levels"


def said_of_levels(*, add_up: bool) -> dict[str, str]:
    """That note, of a result that has tables over a column and over its level."""
    return {LEVELS_NOTE: "add up to one another, except for rounding" if add_up else "can differ"}


class Consistency(Enum):
    """Whether tables of one release have the same total.

    OWN_NOISE: no, for each answer has noise of its own.
    NOISY_CELLS: each answer is a sum of the same noisy cells, so they agree until one below 0 is shown as 0.
    MADE_TO_AGREE: each answer has noise of its own, and all were made to agree, until one below 0 is shown as 0.
    LEVELS_MADE_TO_AGREE: the same, and tables over a column add up to those over its levels.
    SAME_ROWS_MADE_TO_AGREE: as MADE_TO_AGREE, those tables alone that count the same rows.
    ONE_TABLE: each answer is read off one table of expected counts, so they agree except for rounding; over levels too
    where the result notes that (`LEVELS_NOTE`).
    PAID_NOISE: no, for a paid answer has noise of its own and a free one is read off what was public at the time.
    """

    OWN_NOISE = "own noise"
    NOISY_CELLS = "noisy cells"
    MADE_TO_AGREE = "made to agree"
    LEVELS_MADE_TO_AGREE = "levels made to agree"
    SAME_ROWS_MADE_TO_AGREE = "same rows made to agree"
    ONE_TABLE = "one table"
    PAID_NOISE = "paid noise"


class Mechanism(ABC):
    """A randomised map with a stated cost. Stateless; one instance is registered under its name.

    Class attributes:
        name: as on the command line.
        title: as on pages.
        summary: one sentence for a person who does not know the field.
        source: paper, theorem, page.
        options: the choices it leaves to the curator.
        answers: the statistics it answers; none for a mechanism that answers counts.
        consistency: of the counts it releases; none for a mechanism that answers a statistic.
        uses_weights: whether the weights of a workload decide where its noise goes.
        may_refuse: whether it may give no answer, at its full price.
        drops_impossible: whether rows with a combination declared impossible are left out before it counts: of those
            whose answers are read off what their synthetic rows are made of, which gives no weight to such rows.
        counts_apart: whether it answers questions about rows beside others about persons: where the noise on one answer
            asks nothing of the others.
        joins_all_columns: whether a joint table of the columns asked about, or of connected ones, has to be held.
        is_offered: whether a person may ask it a question of their own, and so is shown it beside the others.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = (ROWS,)
    answers: ClassVar[tuple[type[Statistic], ...]] = ()
    consistency: ClassVar[Consistency | None] = None
    uses_weights: ClassVar[bool] = False
    may_refuse: ClassVar[bool] = False
    drops_impossible: ClassVar[bool] = False
    counts_apart: ClassVar[bool] = False
    joins_all_columns: ClassVar[bool] = True
    is_offered: ClassVar[bool] = True

    @abstractmethod
    def _plan(self, request: PlanRequest) -> Plan: ...

    def leaves_own_rows(self, options: Mapping[str, Any]) -> bool:
        """Whether each table leaves out only what the rules of its own columns leave out, where nobody chose that.

        Only mechanisms whose answers have noise of their own offer the choice: what fits, or adds up, several tables
        needs them to count the same rows.

        Args:
            options: complete.
        """
        return False

    def options_before(self, schema: Schema, options: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """What the options of a stored plan meant in earlier versions, where they mean something else now."""
        return ()

    def consistency_under(self, parameters: Mapping[str, str]) -> Consistency | None:
        """That of a release by a plan with these parameters, those of an old one too."""
        return self.consistency

    def plan(
        self,
        schema: Schema,
        workload: Question,
        *,
        budget: PrivacyBudget,
        beta: Fraction,
        options: Mapping[str, Any] | None = None,
    ) -> Plan:
        """Plan a release from public inputs. A plan that cannot be run says why instead of raising.

        Raises:
            InvalidInput: beta, or an option, breaks its rule; or the question is about columns declared otherwise; or
                it is a statistic, and some of them count rows, and others persons.
        """
        meter()
        check_beta(beta)
        schema.check_unit()
        if isinstance(workload, Inquiry):
            self._check_inquiry(schema, workload)
        given = dict(options or {})
        unknown = set(given) - {option.name for option in self.options}
        if unknown:
            raise InvalidInput("options", ", ".join(sorted(unknown)), f"is not an option of {self.name}")
        read = {option.name: option.read(given.get(option.name)) for option in self.options}
        if isinstance(workload, Inquiry) and workload.statistic.exact:
            schema = replace(schema, universe=schema.universe.exactly(workload.statistic.exact))
        if isinstance(workload, Workload):
            is_left, wanted = self.leaves_own_rows(read), read.get(OWN_ROWS.name)
            own_rows = workload.rules_differ and (wanted == OWN or (wanted is None and is_left))
            if not (workload.rules_differ and (own_rows or is_left)):
                # The choice decides nothing, and plans are as they were before there was one.
                read.pop(OWN_ROWS.name, None)
            if own_rows != schema.universe.own_rows:
                schema = replace(schema, universe=replace(schema.universe, own_rows=own_rows))
            if own_rows != workload.universe.own_rows:
                workload = replace(workload, universe=replace(workload.universe, own_rows=own_rows))
        if self.drops_impossible and schema.universe.impossible:
            schema = replace(schema, universe=replace(schema.universe, drops_impossible=True))
            workload = replace(workload, universe=replace(workload.universe, drops_impossible=True))
        request = PlanRequest(
            mechanism=self.name, schema=schema, workload=workload, budget=budget, beta=beta, options=read
        )
        if any(schema.universe[each.name] != each for each in workload.universe.attributes):
            # What the rules leave out decides how far a row can move the answers.
            raise InvalidInput("schema", "its columns", "are declared otherwise than those that the question is about")
        if not self.can_answer(workload):
            return infeasible(request, f"It answers {self._answers_in_words()}.")
        if schema.universe.counts_apart and isinstance(workload, Workload):
            if not self.counts_apart:
                return infeasible(request, ROWS_AND_PERSONS)
            if not schema.universe.own_rows:
                return infeasible(request, ROWS_AS_PERSONS)
        if schema.total_is_public and not workload.tells_rows_apart:
            return infeasible(request, PUBLIC_ALREADY)
        if schema.universe.possible_row is None:
            return infeasible(request, NOTHING_POSSIBLE)
        try:
            plan = self._plan(request)
        except Unpriceable as error:
            return infeasible(request, f"Its noise cannot be priced at so small a budget: {error}")
        if plan.makes_synthetic_rows:
            plan = replace(plan, work=replace(plan.work, bytes=plan.work.bytes + plan.bytes_of_rows))
        if plan.infeasible or self.uses_weights or not (isinstance(workload, Workload) and workload.is_weighted):
            return plan
        return replace(plan, parameters={**plan.parameters, "importance": _WEIGHTS_UNUSED})

    def _check_inquiry(self, schema: Schema, inquiry: Inquiry) -> None:
        """
        Raises:
            InvalidInput: a statistic takes no tables that each count rows of their own, or are of rows and of persons.
        """
        if inquiry.statistic.takes_own_rows:
            return
        _ = schema.counts_persons
        if schema.universe.own_rows:
            raise InvalidInput("rows_counted", "by own columns", "goes with counts alone")

    def can_answer(self, workload: Question) -> bool:
        """Whether it is a mechanism for this kind of question at all."""
        if isinstance(workload, Inquiry):
            return isinstance(workload.statistic, self.answers)
        return not self.answers

    def _answers_in_words(self) -> str:
        if not self.answers:
            return "counts, and the question is not one"
        return " or ".join(each.kind.replace("_", " ") for each in self.answers) + ", and the question is another"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """The checked public inputs of a plan."""

    mechanism: str
    schema: Schema
    workload: Question
    budget: PrivacyBudget
    beta: Fraction
    options: Mapping[str, Any]

    @property
    def counts_asked(self) -> Workload:
        """The workload of a mechanism that answers counts."""
        assert isinstance(self.workload, Workload)
        return self.workload

    @property
    def statistic(self) -> Statistic:
        """The statistic of a mechanism that answers one."""
        assert isinstance(self.workload, Inquiry)
        return self.workload.statistic

    def inputs(self) -> dict[str, Any]:
        """As keyword arguments of a `Plan`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class InfeasiblePlan(Plan):
    """A plan that only says why it cannot be run."""

    def __post_init__(self) -> None:
        assert self.infeasible

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        raise Infeasible(self.infeasible)


def infeasible(request: PlanRequest, reason: str, **known: Any) -> InfeasiblePlan:
    return InfeasiblePlan(**request.inputs(), infeasible=reason, **known)


def too_many_cells(request: PlanRequest, universe: Universe, *, bytes_each: int) -> InfeasiblePlan | None:
    """The refusal of a mechanism that holds the whole universe, where that is too large."""
    cells = universe.size
    if cells <= MAX_DENSE_CELLS:
        return None
    fits = what_fits(universe.names, universe.shape, lambda bins: prod(bins) <= MAX_DENSE_CELLS)
    reason = (
        f"It needs every cell of the universe in memory, and there are {cells:,}; the most is "
        f"{MAX_DENSE_CELLS:,}. Declare fewer columns or wider bins. {fits}"
    )
    # A universe of 10^300 cells has no floating-point size; what is shown stops at a large number.
    shown = min(cells, 10**18)
    work = Work(cells=shown, seconds=float(shown) * 1e-7, bytes=shown * bytes_each)
    return infeasible(request, reason, work=work)


def what_fits(names: Sequence[str], shape: Sequence[int], fits: Callable[[tuple[int, ...]], bool]) -> str:
    """How few bins a column may have at most for a mechanism to run, in a sentence: the most that do, if two do.

    Args:
        fits: whether columns of so many bins do. Fewer bins fit where more do.
    """

    def capped(most: int) -> tuple[int, ...]:
        return tuple(min(size, most) for size in shape)

    if not fits(capped(2)):
        return "Even with two bins a column it would not fit: ask about fewer columns together."
    low, high = 2, max(shape)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(capped(middle)) else (low, middle)
    larger = [name for name, size in zip(names, shape, strict=True) if size > low]
    named = ", ".join(larger[:-1]) + (" and " if len(larger) > 1 else "") + larger[-1]
    if len(larger) > _MAX_NAMED:
        named = f"each of the {len(larger):,} columns that have more"
    return f"It would fit with at most {low:,} bins in {named}."


#: More columns than this are not named one by one.
_MAX_NAMED = 8

#: What a plan says of weights that change nothing in it.
_WEIGHTS_UNUSED = "not used: this mechanism treats all questions alike"

#: Why nothing is released that no unit can change: its sensitivity is 0, and no noise is calibrated to that.
PUBLIC_ALREADY = (
    "These counts are the same in every table of as many rows, and how many rows there are is public. They are public "
    "already, so nothing needs to be released and nothing is spent. Ask about some of the categories of a column."
)

#: Why nothing is released where only values with a number count, and all of these are declared impossible.
NOTHING_POSSIBLE = "The combinations declared impossible leave no row possible in the columns asked about. Remove one."

#: Why a mechanism that puts tables together cannot be asked about rows and about persons at once.
ROWS_AND_PERSONS = (
    "Some questions count rows, and others persons. It makes one estimate of all tables, and rows and persons have "
    "none in common. Choose noise on each answer, or ask about each kind in a release of its own."
)
#: Why nothing that is chosen can put such tables together.
ROWS_AS_PERSONS = (
    "Some questions count rows, and others persons, so their tables cannot all count the same rows, all be made to "
    "agree, or have synthetic rows. Leave these choices open, or ask about each kind in a release of its own."
)

#: Why Gaussian noise cannot be had of a pure budget.
NEEDS_DELTA = "It needs a delta above 0: Gaussian noise has no pure epsilon."

_registry: dict[str, Mechanism] = {}
_Registered = TypeVar("_Registered", bound=type[Mechanism])


def register(mechanism: _Registered) -> _Registered:
    """Make a mechanism known under its name."""
    if mechanism.name in _registry:
        raise ValueError(f"two mechanisms are named {mechanism.name}")
    _registry[mechanism.name] = mechanism()
    return mechanism


@cache
def _load() -> None:
    package = importlib.import_module("releases.engine.mechanisms")
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}."):
        importlib.import_module(module.name)


def mechanisms() -> dict[str, Mechanism]:
    """All registered mechanisms by name."""
    _load()
    return dict(sorted(_registry.items()))


def mechanism(name: str) -> Mechanism:
    """The mechanism of that name.

    Raises:
        InvalidInput: there is none; the names there are.
    """
    known = mechanisms()
    if name not in known:
        raise InvalidInput("mechanism", name, f"must be one of {', '.join(known)}")
    return known[name]


def plan_from_json(value: dict[str, Any]) -> Plan:
    """Make a stored plan again from its inputs.

    Raises:
        PlanChanged: what comes out is not what was stored, so its price is not what was charged.
    """
    if value.get("version") != PLAN_VERSION:
        raise PlanChanged(f"The plan is of format {value.get('version')}; this software reads {PLAN_VERSION}.")
    schema = Schema.from_json(value["schema"])
    planned_with = mechanism(value["mechanism"])
    before = {option.name: option.before for option in planned_with.options if option.before is not None}
    question, options = read_question(value["workload"], schema.universe), {**before, **value["options"]}
    for each in (options, *planned_with.options_before(schema, options)):
        plan = planned_with.plan(
            schema,
            question,
            budget=budget_from_json(value["budget"]),
            beta=Fraction(value["beta"]),
            options=each,
        )
        if plan.to_json()["planned"] == value["planned"]:
            return plan
    raise PlanChanged("The plan comes out differently than when it was made: the software changed. Plan again.")


def budget_to_json(budget: PrivacyBudget) -> dict[str, str]:
    if isinstance(budget, PureDP):
        return {"epsilon": decimal_text(budget.epsilon, places=30)}
    return {"epsilon": decimal_text(budget.epsilon, places=30), "delta": decimal_text(budget.delta, places=30)}


def budget_from_json(value: Mapping[str, str]) -> PrivacyBudget:
    return privacy_budget(epsilon=value["epsilon"], delta=value.get("delta", "0"))
