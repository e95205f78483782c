"""What pages say about plans: the comparison, what each leaves of a budget, the least epsilon for an error. Public
inputs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

from releases.display.durations import usual_limit
from releases.display.math import typeset
from releases.engine.accounting import accountant, filters
from releases.engine.bounds.accuracy import Bound, Proof
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.privacy import ApproxDP, PrivacyBudget, PureDP, decimal_text, exact
from releases.engine.domain.schema import Schema
from releases.engine.errors import EngineError, Unpriceable
from releases.engine.estimation.components import Counting
from releases.engine.mechanisms.base import OWN_ROWS, ROWS, SAME, Mechanism, Option, Plan, mechanism
from releases.engine.workload.queries import Workload
from releases.engine.workload.questions import Question, universe_asked, valued_columns, weight_of
from releases.ledger import ledger
from releases.ledger.balances import shortage_text
from releases.ledger.capacity import usual_delta
from releases.models import Budget
from releases.planning import row_methods, usefulness
from releases.planning.leaves import Leaves, leaves_after
from releases.publication.files import readable_size
from releases.publication.receipt import accuracy_sentence, bounds_by_weight, percent, rows_text, sensible
from releases.questions.base import kind_of

#: No epsilon above it is proposed for an error.
MAX_EPSILON = 50

#: The option by which a person may guess how many rows are counted, and more of them than any table has.
_EXPECTED_ROWS, _VERY_MANY = "expected_rows", 10**9
#: For a million rows: to go through the table once; to put a column's bin numbers aside; to count a marginal from them.
_SECONDS_A_READING, _SECONDS_A_COLUMN, _SECONDS_A_TABLE = 2.5, 0.5, 0.01
#: To begin, to draw synthetic rows and to write files.
_SECONDS_AROUND = 3.0


@dataclass(frozen=True, kw_only=True)
class OptionField:
    """A mechanism's option as a form field.

    Attributes:
        id, name: of the field.
        value: as typed, or what the draft holds; empty where the mechanism decides.
        problem: what is wrong with what was typed.
    """

    option: Option
    id: str
    name: str
    value: str
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedPlan:
    """One row of the compare page."""

    plan: Plan
    mechanism: Mechanism
    price: accountant.Price | None
    refusal: str
    options: tuple[OptionField, ...] = ()
    #: Why it is the method to make synthetic rows with, in one sentence; empty for all others.
    for_synthetic_rows: str = ""
    #: How many rows somebody guessed for all of the comparison.
    guess: int | None = None
    #: What the budget would still hold after it; None where it does not fit.
    leaves: Leaves | None = None
    #: What is expected of very many rows, where nothing is known without their number; else infinite.
    of_many: float = inf

    @property
    def can_be_chosen(self) -> bool:
        return not self.plan.infeasible and not self.refusal

    @property
    def why_not(self) -> str:
        return self.plan.infeasible or self.refusal

    @property
    def bound(self) -> Bound | None:
        """What is known before the release: a proved bound, or else one labelled as none by its proof."""
        return self.plan.bound or self.plan.expectation

    @property
    def counted(self) -> Counted:
        return self.plan.schema.counted

    @property
    def unit(self) -> str:
        return bound_unit(self.plan)

    @property
    def is_unproved(self) -> bool:
        return self.bound is not None and not self.bound.proof.is_proved

    @property
    def proof(self) -> str:
        """How the bound is known, with the number that was assumed."""
        if self.bound is None:
            return ""
        assumed = usefulness.assumed_rows(self.plan, None)
        if self.bound.proof is Proof.ASSUMED and assumed:
            least = "at least" if self.plan.options.get(_EXPECTED_ROWS) else "about"
            if weight_of(self.plan.workload) is not None:
                return f"proved if the weights add up to {least} {assumed:,}"
            return f"proved if {least} {assumed:,} {self.counted.many} are counted"
        return self.bound.proof.value

    @property
    def margin(self) -> str:
        """The bound as short as a table needs it; empty for what is no count."""
        return "" if self.bound is None or self.bound.says else f"± {rows_text(self.bound.alpha, self.counted)}"

    @property
    def rows(self) -> int | None:
        """The rows that the bound is held against."""
        return usefulness.assumed_rows(self.plan, self.guess)

    @property
    def says_little(self) -> str:
        """Why the bound is too wide to say anything; empty where it says something, or where that cannot be told."""
        if self.bound is None or self.mechanism.may_refuse:
            return ""
        if self.unit != self.counted.many:
            return usefulness.says_little_of_range(self.plan, self.bound.alpha)
        return "" if self.rows is None else usefulness.says_little(self.bound.alpha, self.rows, self.counted)

    @property
    def useful_from(self) -> str:
        """About how many rows there should be, where nobody has guessed; empty where that says nothing."""
        if self.bound is None or not self.margin or self.rows is not None or not self.bound.alpha:
            return ""
        return f"useful from {usefulness.useful_from(self.bound.alpha):,} {self.counted.many}"

    @property
    def rows_counted(self) -> str:
        """Which rows its tables count, where the rules of a column are about some of them alone; else empty."""
        workload, many = self.plan.workload, self.counted.many
        if self.plan.infeasible or not _rules_differ(workload):
            return ""
        if workload.universe.own_rows:
            return f"each table of all {many} that fit its own columns"
        return f"every table only of {many} that fit all columns asked about"

    @property
    def rows_counted_in_full(self) -> str:
        """The same in sentences, and what it means for synthetic rows; empty where that is."""
        return rows_counted_in_words(self.plan) if self.rows_counted else ""

    @property
    def wants_rows(self) -> bool:
        """Whether a guess at the rows would give a bound before the release, as of a mean."""
        options = {option.name for option in self.mechanism.options}
        return (
            self.bound is None
            and not self.plan.infeasible
            and _EXPECTED_ROWS in options
            and self.rows is None
            and kind_of(self.plan.workload).depends_on_rows
        )

    @property
    def margins(self) -> list[tuple[str, str]]:
        """The bound of each degree of importance, the most important last; empty where importance decides nothing."""
        widths = {} if self.bound is None else bounds_by_weight(self.plan, self.bound)
        return [(f"{weight:,}", f"± {rows_text(width, self.counted)}") for weight, width in widths.items()]

    @property
    def sentence(self) -> str:
        if self.wants_rows:
            depends = f"how many {self.counted.many} there are. Type about how many"
            if weight_of(self.plan.workload) is not None:
                depends = "what the weights add up to. Type about how much that is"
            kind = kind_of(self.plan.workload)
            said = "it is said here; the release proves its own bound" if kind.is_proved else "an example is given here"
            return f"How accurate it is depends on {depends}, below epsilon, and {said}."
        if self.bound is None:
            return "How accurate it is becomes known with the release: no bound is proved before."
        if self.is_unproved and self.bound.says:
            return f"How accurate it is becomes known with the release. {self.bound.says}"
        if self.is_unproved:
            within = rows_text(self.bound.alpha, self.counted)
            return (
                f"Expected, not proved: {percent(1 - self.bound.beta)} of the time every one of the "
                f"{self.plan.workload.size:,} counts within {within} of the truth, if the fit "
                f"does here what it did on other tables. A bound is proved from the release itself."
            )
        return accuracy_sentence(self.plan, self.bound)

    @property
    def formula(self) -> str:
        """The bound's formula as MathML."""
        formula = self.plan.formula if self.bound is None else self.bound.formula
        return typeset(formula) if formula else ""

    @property
    def formula_source(self) -> str:
        return self.plan.source if self.bound is None else self.bound.source

    @property
    def cost(self) -> str:
        """What the release spends, as people say it."""
        return "" if self.price is None else cost_text(self.price)

    @property
    def cost_in_full(self) -> str:
        """Every form of the cost, rounded up; `charge` has all digits. Empty where it says no more than `cost`."""
        said = "" if self.price is None else sensible(self.price.in_words())
        return "" if said == self.cost else said

    @property
    def charge(self) -> str:
        """What is booked, to the last digit. Empty where `cost` is that already."""
        exactly = "" if self.price is None else self.price.in_words()
        return "" if exactly == self.cost else exactly

    @property
    def parameters(self) -> dict[str, str]:
        """The numbers of the run with as many digits as help somebody who chooses."""
        return {name: sensible(value) for name, value in {**self.plan.parameters, **self.plan.limits}.items()}

    @property
    def synthetic_rows(self) -> str:
        """How many there will be, at most; empty where none are made."""
        most = self.plan.most_synthetic_rows
        if not most or self.plan.options.get(ROWS.name) is not None:
            return f"{most:,}" if most else ""
        total = f"number of {self.counted.many}" if self.plan.schema.total_is_public else "released total"
        return f"as many as the {total}, at most {most:,}"

    @property
    def memory(self) -> str:
        return f"at most {readable_size(self.plan.work.bytes)}"

    @property
    def seconds(self) -> str:
        return usual_limit(run_seconds(self.plan))


def rows_counted_in_words(plan: Plan, *, same: str = f"“{OWN_ROWS.label}” is “{SAME}”") -> str:
    """Which rows the tables of a plan count, where each of them counts its own or all count the same fewer ones; and
    where that makes no synthetic rows, how to have them. Empty where the rules of columns decide nothing.

    Args:
        same: that it is chosen that all count the same.
    """
    counted = plan.schema.counted
    if not _rules_differ(plan.workload):
        return ""
    if not plan.workload.universe.own_rows:
        return f"Only {counted.many} that fit all columns asked about count."
    unless = "" if plan.schema.universe.counts_apart else f" unless {same}"
    return (
        f"Each table counts every {counted.one} that fits its columns. Totals may differ. There are no synthetic "
        f"rows{unless}."
    )


def run_seconds(plan: Plan) -> float:
    """What a run takes on one ordinary core: the mechanism's work, counting a table of a million rows, and writing
    files. How many rows there are is not asked: that may be private, and what a page says would tell it."""
    if not isinstance(plan.workload, Workload):
        return plan.work.seconds + len(plan.workload.families) * _SECONDS_A_READING + _SECONDS_AROUND
    counting = Counting.of(plan.workload)
    seconds = counting.readings * _SECONDS_A_READING + counting.columns * _SECONDS_A_COLUMN
    return plan.work.seconds + seconds + counting.tables * _SECONDS_A_TABLE + _SECONDS_AROUND


def cost_text(price: accountant.Price) -> str:
    """What a release spends in its strictest form, rounded up to six decimals of epsilon."""
    if price.pure_epsilon is not None:
        return f"epsilon {_epsilon_up(price.pure_epsilon)}"
    if price.epsilon is not None:
        delta = decimal_text(Fraction(price.delta, 10**accountant.DELTA_PLACES), places=accountant.DELTA_PLACES)
        return f"epsilon {_epsilon_up(price.epsilon)}, delta {delta}"
    return price.in_words()


def _epsilon_up(units: int) -> str:
    return decimal_text(Fraction(units, 10**accountant.EPSILON_PLACES), places=6)


def cells_text(cells: int) -> str:
    """The size of a universe, in full up to twelve digits."""
    if cells < 10**12:
        return f"{cells:,}"
    # Not through a float: a universe may have hundreds of digits.
    power = len(str(cells)) - 1
    lead = round(cells / 10 ** (power - 2)) / 100
    return f"{lead:g} × 10^{power}"


def compared(
    plans: Sequence[Plan],
    budget: Budget | None,
    *,
    typed: dict[str, dict[str, str]] | None = None,
    problems: dict[str, str] | None = None,
    guess: int | None = None,
) -> list[ComparedPlan]:
    """Each plan with its price and whether the dataset's budget allows it; those that can be run come first, and those
    for other kinds of question are left out.

    Args:
        typed: by mechanism and option, what a person has typed, valid or not.
        problems: by the name of an option's field, what is wrong with it.
        guess: how many rows there are, as somebody guesses.
    """
    rows = []
    for plan in plans:
        described = mechanism(plan.mechanism)
        if not described.can_answer(plan.workload):
            continue
        price, refusal, leaves = None, "", None
        if not plan.infeasible:
            try:
                price = _price(plan)
                refusal = "" if budget is None else _refusal(price, budget)
                leaves = None if budget is None or refusal else leaves_after(budget, price)
            except Unpriceable as error:
                refusal = str(error)
        fields = _option_fields(plan, described, (typed or {}).get(plan.mechanism), problems or {})
        rows.append(
            ComparedPlan(
                plan=plan,
                mechanism=described,
                price=price,
                refusal=refusal,
                options=fields,
                guess=guess,
                leaves=leaves,
                of_many=_alpha_of_many(plan),
            )
        )
    method = row_methods.recommended({row.mechanism.name: row.plan for row in rows if row.can_be_chosen}, rows=guess)
    if method is not None:
        rows = [
            replace(row, for_synthetic_rows=method.why) if row.mechanism.name == method.name else row for row in rows
        ]
    return sorted(
        rows,
        key=lambda row: (
            bool(row.plan.infeasible),
            row.mechanism.may_refuse,
            row.is_unproved,
            row.mechanism.name not in kind_of(row.plan.workload).says_more,
            row.unit,
            _alpha(row.plan),
            row.of_many,
        ),
    )


def best_choices(rows: Sequence[ComparedPlan]) -> dict[str, str]:
    """By name, the mechanisms to look at first, and why: the smallest proved bound on counts, what is expected to do
    better, and what to make synthetic rows with. Bounds of other statistics are not all about the same thing, so none
    of them is called the best, but what answers more than the others; nor is one that says next to nothing."""
    counts = [row for row in rows if row.can_be_chosen and row.margin and not row.says_little]
    proved = [row for row in counts if not row.is_unproved]
    best = {
        row.mechanism.name: more
        for row in rows
        if row.can_be_chosen and (more := kind_of(row.plan.workload).says_more.get(row.mechanism.name))
    }
    if proved:
        first = min(proved, key=lambda row: _alpha(row.plan))
        best[first.mechanism.name] = "smallest bound"
    expected = [row for row in counts if row.is_unproved]
    if expected:
        first = min(expected, key=lambda row: _alpha(row.plan))
        if not proved or _alpha(first.plan) < min(_alpha(row.plan) for row in proved):
            best[first.mechanism.name] = "expected to be closer"
    for row in rows:
        if row.for_synthetic_rows:
            known = best.get(row.mechanism.name)
            best[row.mechanism.name] = f"{known}, best for synthetic rows" if known else "best for synthetic rows"
    return best


def says_little_at_all(rows: Sequence[ComparedPlan]) -> str:
    """That no bound of the comparison says anything, where that is so: what the closest one comes to."""
    bounded = [
        row for row in rows if not row.plan.infeasible and row.bound is not None and not row.mechanism.may_refuse
    ]
    if not bounded or not all(row.says_little for row in bounded):
        return ""
    closest = min(bounded, key=lambda row: _alpha(row.plan))
    return f"{closest.margin} {closest.says_little}".strip()


def bound_unit(plan: Plan) -> str:
    """What a plan's bound is measured in. Only bounds in one unit can be set against each other."""
    valued, kind = _valued(plan), kind_of(plan.workload)
    return kind.bound_unit(valued, mechanism=plan.mechanism, counted=plan.schema.counted)


def why_no_largest_error(plan: Plan) -> str:
    """Why one number cannot say how far every answer may be off; empty where it can."""
    if kind_of(plan.workload).has_one_unit(_valued(plan)):
        return ""
    return "The answers have different units, so one largest error cannot be given for all of them. Choose an epsilon."


def _valued(plan: Plan) -> list[Attribute]:
    """Columns of categories beside those of numbers or of dates make the groups."""
    return valued_columns(plan.workload) or [plan.schema.universe[name] for name in plan.workload.columns]


def other_mechanisms(plans: Sequence[Plan]) -> list[Mechanism]:
    """The mechanisms that answer another kind of question."""
    described = [(mechanism(plan.mechanism), plan) for plan in plans]
    return [each for each, plan in described if not each.can_answer(plan.workload)]


def least_epsilon(plan: Plan, *, error: float) -> Fraction | None:
    """The least epsilon, to three digits, at which the plan's bound is at most `error`; None if none is.

    Where none is proved before the release it is the least at which as much is expected.
    """
    low, high = Decimal("0.0001"), Decimal(MAX_EPSILON)
    if (found := alpha_at(plan, high)) is None or found > error:
        return None
    while high / low > Decimal("1.002"):
        middle = (low * high).sqrt()
        found = alpha_at(plan, middle)
        low, high = (low, middle) if found is not None and found <= error else (middle, high)
    digits = -high.adjusted() + 2
    return Fraction(high.quantize(Decimal(1).scaleb(-digits), rounding="ROUND_UP"))


def at_epsilon(plan: Plan, epsilon: Fraction) -> Plan | None:
    """The same plan at another epsilon; None where that is no budget or cannot be run."""
    return plan_at(plan.mechanism, plan.schema, plan.workload, plan.budget, plan.beta, plan.options, epsilon=epsilon)


def plan_at(
    name: str,
    schema: Schema,
    workload: Question,
    budget: PrivacyBudget,
    beta: Fraction,
    options: Mapping[str, Any],
    *,
    epsilon: Fraction,
) -> Plan | None:
    try:
        spent: PrivacyBudget = (
            ApproxDP(epsilon=epsilon, delta=budget.delta) if budget.delta else PureDP(epsilon=epsilon)
        )
        plan = mechanism(name).plan(schema, workload, budget=spent, beta=beta, options=options)
    except EngineError:
        return None
    return None if plan.infeasible else plan


def first_delta(budget: Budget | None) -> str:
    """A delta to begin with: a thousandth of the dataset's; none where it has none.

    It is a hundredth of what plain addition may use, so a hundred releases like it fit, if their epsilons do. A
    thousandth in place of a tenth makes Gaussian noise of epsilon 1 wider by a sixth.
    """
    if budget is None or budget.policy == filters.Policy.PURE or budget.delta in ("", "0"):
        return "0"
    return decimal_text(usual_delta(exact(budget.delta, field="delta")), places=30)


def questions_text(workload: Question) -> str:
    """What is asked, in one line: ``55 tables of counts over 2 columns; 733 answers``."""
    return kind_of(workload).in_words(workload)


def universe_text(workload: Question) -> str:
    """What the questions are about, in a few words: ``2 columns, a universe of 20 cells``."""
    universe = universe_asked(workload)
    return (
        f"{_counted(len(universe.names), 'column')}, a universe of {cells_text(universe.size)} "
        f"cell{'' if universe.size == 1 else 's'}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _option_fields(
    plan: Plan, described: Mechanism, typed: dict[str, str] | None, problems: dict[str, str]
) -> tuple[OptionField, ...]:
    fields = []
    for option in described.options:
        if option is OWN_ROWS and not _rules_differ(plan.workload):
            continue
        planned = plan.options.get(option.name)
        stored = "" if planned is None else str(planned)
        name = f"{described.name}.{option.name}"
        fields.append(
            OptionField(
                option=option,
                id=name.replace(".", "-"),
                name=name,
                value=stored if typed is None else typed.get(option.name, ""),
                problem=problems.get(name, ""),
            )
        )
    return tuple(fields)


def _rules_differ(question: Question) -> bool:
    """Whether the rules of a column that leaves rows out are about some tables alone."""
    return isinstance(question, Workload) and question.rules_differ


def _price(plan: Plan) -> accountant.Price:
    return accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)


def _refusal(price: accountant.Price, budget: Budget) -> str:
    if not budget.is_granted:
        return "No budget has been granted yet."
    if budget.is_frozen:
        return "A reviewer has frozen this budget."
    if filters.admits(budget.totals, price, budget.caps):
        return ""
    left = ledger.remaining(budget)
    if price.epsilon is not None and price.epsilon <= left.epsilon and price.delta > left.delta:
        asked, most = (
            decimal_text(Fraction(units, 10**accountant.DELTA_PLACES), places=accountant.DELTA_PLACES)
            for units in (price.delta, left.delta)
        )
        return (
            f"It does not fit: it takes delta {asked} all by itself, and delta {most} is left for releases that do. "
            f"The rest of the budget's delta belongs to Gaussian noise. Type a delta of {most} or less."
            if left.delta
            else f"It does not fit: it takes delta {asked}, and no delta is left. A release without a delta may fit."
        )
    after = budget.totals.plus(filters.amounts(price, policy=budget.caps.policy))
    return f"It does not fit. {shortage_text(budget.totals, after, budget.caps)}"


def _alpha(plan: Plan) -> float:
    bound = plan.bound or plan.expectation
    return bound.alpha if bound else inf


def _alpha_of_many(plan: Plan) -> float:
    """Where the number of rows decides what answers are within, and nobody guesses it: that of very many rows, for
    which the noise alone makes one method closer than another. Else infinite."""
    named = {option.name for option in mechanism(plan.mechanism).options}
    if plan.infeasible or plan.bound or plan.expectation or _EXPECTED_ROWS not in named:
        return inf
    options = {**plan.options, _EXPECTED_ROWS: _VERY_MANY}
    epsilon = plan.budget.epsilon
    again = plan_at(plan.mechanism, plan.schema, plan.workload, plan.budget, plan.beta, options, epsilon=epsilon)
    return inf if again is None else _alpha(again)


def alpha_at(plan: Plan, epsilon: Decimal) -> float | None:
    """What all answers are within at another epsilon, proved or expected; None where that is not known before."""
    again = at_epsilon(plan, Fraction(epsilon))
    return None if again is None or (bound := again.bound or again.expectation) is None else bound.alpha
