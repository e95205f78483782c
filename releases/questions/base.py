"""A kind of question as the web knows it, and the register of all kinds."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from releases.engine.domain.attribute import Attribute, plain
from releases.engine.domain.counted import Counted
from releases.engine.domain.universe import Universe
from releases.engine.workload.predicates import Predicates
from releases.engine.workload.queries import Count
from releases.engine.workload.questions import Question, weight_of
from releases.engine.workload.statistic import OfNumbers, Statistic
from releases.questions.headline import Measure, ReleasedAnswer, number_text

#: A bound of counts below half a row is nothing.
HALF_A_ROW = 0.5


class Columns(StrEnum):
    """Which of the declared columns a field offers. CATEGORICAL: those counted by categories or by dates; LISTED: those
    whose categories were listed; RANKED: those of numbers or of dates; VALUED: those of numbers or of listed
    categories."""

    ALL = "all"
    NUMERIC = "numeric"
    RANKED = "ranked"
    CATEGORICAL = "categorical"
    LISTED = "listed"
    VALUED = "valued"

    def names(self, universe: Universe) -> list[str]:
        """The columns of a universe that are offered."""
        if self is Columns.ALL:
            return list(universe.names)
        if self is Columns.LISTED:
            return [each.name for each in universe.attributes if not each.has_grammar]
        if self is Columns.VALUED:
            return [each.name for each in universe.attributes if each.dates is None]
        if self is Columns.RANKED:
            return [each.name for each in universe.attributes if each.has_grammar]
        return [each.name for each in universe.attributes if each.is_numeric == (self is Columns.NUMERIC)]


class Input(StrEnum):
    """What is typed or chosen in a field."""

    TEXT = "text"
    WHOLE = "whole"
    DECIMAL = "decimal"
    COLUMN = "column"
    COLUMNS = "columns"
    COUNTS = "counts"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the form that asks for a statistic.

    Its label and its help are read through `calling`.

    Attributes:
        name: in the form, and the last word of the place that an error names.
        missing: what is said where nothing was typed; empty where it may be left empty.
        columns: which columns a field for columns offers.
    """

    name: str
    label: str
    input: Input
    help: str = ""
    initial: str = ""
    missing: str = ""
    columns: Columns = Columns.ALL


class AnswerShape(StrEnum):
    """How the answers of a statistic are shown."""

    NUMBER = "number"
    NUMBERS = "numbers"
    CHOICE = "choice"
    RANGE = "range"
    LIST = "list"
    VALUES = "values"
    STREAM = "stream"
    DISTRIBUTION = "distribution"
    BOUND = "bound"
    ASSOCIATIONS = "associations"
    COEFFICIENTS = "coefficients"
    ODDS = "odds"


class Want(StrEnum):
    """What questions are for, in plain words; some want the same kind of question for another purpose."""

    TABLE = "table"
    ROWS = "rows"
    AVERAGES = "averages"
    PERCENTILES = "percentiles"
    LINE = "line"
    OTHER = "other"
    SAME = "same"


class QuestionKind(ABC):
    """A kind of question.

    Attributes:
        name: the engine's name of the kind.
        want: what it is for.
        place: among the kinds: the least comes first.
        title: of the choice among kinds.
    """

    name: ClassVar[str]
    place: ClassVar[int]
    title: ClassVar[str]
    want: ClassVar[Want] = Want.OTHER
    #: By the words of the workload format, what pages call them.
    phrases: ClassVar[Mapping[str, str]]
    #: Whether its answers are numbers of rows, so that none is below 0.
    counts_rows: ClassVar[bool] = False
    #: Whether its answers are about the bins of its columns; others are about values.
    is_about_bins: ClassVar[bool] = False
    #: Whether its answers lie within the declared range of its column.
    is_within_range: ClassVar[bool] = False
    #: Whether its answers are parts of one whole, none of them below 0, without being numbers of rows.
    has_shares: ClassVar[bool] = False
    #: Whether its answers add up the values of the rows.
    is_total: ClassVar[bool] = False
    #: Whether how far noise moves its answer depends on the number of rows.
    depends_on_rows: ClassVar[bool] = False
    #: Whether that number is all it depends on, so that a bound can be proved from it; else an example is given.
    is_proved: ClassVar[bool] = True
    #: Whether its intervals are about the population that the rows were drawn from, and cover the sampling too.
    is_of_population: ClassVar[bool] = False
    #: Whether the answers of a part have one unit, and so can be drawn on one axis.
    has_one_axis: ClassVar[bool] = True
    #: Whether its answers are values of its column, in the column's unit.
    has_columns_unit: ClassVar[bool] = False
    #: By name, mechanisms whose answers say more than those of the others, and what: they are shown first.
    says_more: ClassVar[Mapping[str, str]] = {}

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        """What a bound on its error is measured in. Only bounds in one unit can be set against each other."""
        return counted.many

    def has_one_unit(self, columns: Sequence[Attribute]) -> bool:
        """Whether all answers about these columns have one unit, so that one largest error says something of each."""
        return True

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """The bound below which nothing is left to be drawn on a logarithmic axis. Sums of very many rows, and means
        over them, are drawn further down than to a unit."""
        return 1e-3

    def of_no_rows(self, column: Attribute | None) -> tuple[float, float] | None:
        """What each interval holds where no row was counted, as numbers in the column's unit: of dates days or seconds
        from 1970. None where intervals do not say whether rows were counted.

        Args:
            column: whose values the answers are of; None where they are of no values.
        """
        if self.is_within_range and column is not None:
            return declared_ends(column)
        return (0.0, 0.0) if self.is_total or self.has_shares or self.counts_rows else None

    def in_words(self, question: Question) -> str:
        """What is asked, in one line."""
        return ", ".join(part.title(question.universe) for part in question.families)

    def main_part(self, question: Question) -> int:
        """The part that a headline is about."""
        return 0

    def caution(self, question: Question) -> str:
        """What has to be known to read the answers, in whole sentences after the headline; mostly nothing."""
        if self.is_of_population:
            return (
                f"The interval covers the noise and the sampling, if the {question.universe.counted.many} were drawn "
                "from a population at random. It was tested on real tables, not proved."
            )
        weight = weight_of(question)
        if weight is None:
            return ""
        verb = "The interval covers" if question.size == 1 else "The intervals cover"
        cap = number_text(float(weight.cap), weight.places)
        return (
            f"{verb} the noise that was added, not the sampling error of the survey. Weights above {cap} were counted "
            f"as {cap}, and {question.universe.counted.many} without a weight were left out."
        )

    @abstractmethod
    def headline(self, question: Any, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        """What the answers to a part say, in one sentence without its full stop; empty where they say nothing.

        Args:
            answers: all of the part; of a list whose length is an answer there may be none.
            unit: of the column that they are values of; empty where that is not known.
        """


S = TypeVar("S", bound=Statistic)


class StatisticKind(QuestionKind, Generic[S]):
    """A kind of statistic.

    Attributes:
        statistic: the engine's part.
        says: what is answered, in a sentence or two, to be read through `calling`.
        fields: what a person fills in; a rule about the whole is said beside the first. None where nobody asks for it.
        lacks: why nothing of the kind can be asked where the first field has no column to offer.
    """

    statistic: ClassVar[type[Statistic]]
    says: ClassVar[str] = ""
    fields: ClassVar[tuple[Field, ...]] = ()
    lacks: ClassVar[str] = ""

    @abstractmethod
    def typed(self, statistic: S, universe: Universe) -> dict[str, Any]:
        """A statistic as the fields that ask for it."""

    @abstractmethod
    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the fields say, in the workload format."""

    def shape(self, statistic: S, *, chosen: bool, answers: int) -> AnswerShape:
        """How its answers are shown.

        Args:
            chosen: whether the first of them was chosen from a list.
            answers: how many it has.
        """
        if chosen:
            return AnswerShape.CHOICE
        return AnswerShape.NUMBER if answers == 1 else AnswerShape.NUMBERS

    def units(self, statistic: S, universe: Universe, declared: Mapping[str, str]) -> Sequence[str]:
        """The unit of each answer, where they differ; else none.

        Args:
            declared: by column the unit of its values, where there is one.
        """
        return ()

    def main_part(self, question: Any) -> int:
        return self.main(question.statistic)

    def main(self, statistic: S) -> int:
        """As `main_part`, of a statistic."""
        return 0

    def headline(self, question: Any, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return self.found(question.statistic, part, answers, unit=unit)

    @abstractmethod
    def found(self, statistic: S, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        """As `headline`, of a statistic."""


AnyKind = TypeVar("AnyKind", bound=type[QuestionKind])
_registry: list[QuestionKind] = []


def register(kind: AnyKind) -> AnyKind:
    """Make a kind known by its name."""
    if issubclass(kind, StatisticKind):
        kind.name, kind.place = kind.statistic.kind, kind.statistic.place
    _registry.append(kind())
    return kind


@cache
def kinds() -> dict[str, QuestionKind]:
    """Every kind of question by its name."""
    package = importlib.import_module("releases.questions.kinds")
    for module in pkgutil.iter_modules(package.__path__, prefix=f"{package.__name__}."):
        importlib.import_module(module.name)
    return {kind.name: kind for kind in sorted(_registry, key=lambda kind: kind.place)}


def kind_of(question: Question) -> QuestionKind:
    """The kind of a question."""
    return kinds()[question.kind]


def statistic_kind(statistic: Statistic) -> StatisticKind[Any]:
    """The kind of a statistic."""
    kind = kinds()[statistic.kind]
    assert isinstance(kind, StatisticKind)
    return kind


@cache
def offered_statistics() -> dict[str, StatisticKind[Any]]:
    """The kinds of statistic that people may ask for, in the order offered."""
    return {
        name: kind for name, kind in kinds().items() if isinstance(kind, StatisticKind) and kind.statistic.is_offered
    }


@cache
def phrases() -> dict[str, str]:
    """What pages call each word of the workload format."""
    return {word: phrase for kind in kinds().values() for word, phrase in kind.phrases.items()}


def calling(text: str, universe: Universe) -> str:
    """A text of a kind for the columns that can be asked about: ``{one}`` and ``{many}`` become what they count. Of
    columns that count rows and columns that count persons both are named, as either may be chosen."""
    counted = [each.counted for each in universe.populations]
    one, many = (" or ".join(words) for words in zip(*((each.one, each.many) for each in counted), strict=True))
    return text.replace("{one}", one).replace("{many}", many)


# What several kinds share


def declared_ends(column: Attribute) -> tuple[float, float]:
    """The lowest and the highest value that are declared, in the column's unit: of dates days or seconds from 1970."""
    places = 10 ** (0 if column.dates is not None else column.decimals)
    return column.lowest / places, column.highest / places


def whole(text: str) -> int | str:
    """Digits as a number; anything else as it was typed, for the engine to say what is wrong with it."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def column_field(columns: Columns) -> Field:
    """The field for one column."""
    missing = "column: nothing was chosen; must name a declared column"
    return Field(name="column", label="Of this column", input=Input.COLUMN, missing=missing, columns=columns)


def columns_field(columns: Columns, *, label: str, help: str = "") -> Field:
    """The field for several columns."""
    missing = "columns: nothing was chosen; must name declared columns"
    return Field(name="columns", label=label, input=Input.COLUMNS, help=help, missing=missing, columns=columns)


COUNTS_FIELD = Field(name="counts", label="The counts", input=Input.COUNTS)


def counts_as_json(predicates: Predicates, universe: Universe) -> list[str]:
    """Predicates as the field for counts carries them."""
    counts = [Count(attributes=names, bins=bins) for names, bins in predicates]
    return [json.dumps(count.to_json(universe)["count"], ensure_ascii=False) for count in counts]


def units_of(columns: Sequence[Attribute]) -> str:
    """The unit of numbers that are values of the columns, or sums of them; of dates that of their distance."""
    if columns[0].dates is not None:
        return columns[0].dates.units
    return f"units of {', '.join(each.name for each in columns)}"


GROUPS_FIELD = Field(
    name="by",
    label="In each group of",
    input=Input.TEXT,
    help="The names of up to three columns of categories, with commas. Leave it empty for all {many} together.",
)
CAP_FIELD = Field(
    name="cap",
    label="Cap of the weights",
    input=Input.DECIMAL,
    help="A larger weight counts as the cap. A low cap means less noise, but the answer is then further from that "
    "without a cap. Leave it empty for the end of the declared range.",
)


def weight_field(label: str, *, missing: str = "", may_be_none: str = "") -> Field:
    """The field for the column of weights."""
    help_text = f"The column that says how many people each {{one}} of a survey represents. {may_be_none}".strip()
    columns = Columns.NUMERIC
    return Field(name="weighted_by", label=label, input=Input.COLUMN, help=help_text, missing=missing, columns=columns)


def weight_typed(statistic: OfNumbers) -> dict[str, Any]:
    """The weight as the fields that ask for it."""
    if statistic.weight is None:
        return {"weighted_by": "", "cap": ""}
    return {"weighted_by": statistic.weight.column, "cap": plain(statistic.weight.cap)}


def grouping_and_weight(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields say of groups and of weights, in the workload format."""
    by = [each.strip() for each in given.get("by", "").split(",") if each.strip()]
    weight, cap = given.get("weighted_by", ""), given.get("cap", "").strip()
    weighted = {"weighted_by": {"column": weight} | ({"cap": cap} if cap else {})} if weight or cap else {}
    return ({"by": by} if by else {}) | weighted


N = TypeVar("N", bound=OfNumbers)


class NumbersByGroup(StatisticKind[N]):
    """A number for each of several numeric columns, over all rows or in each group."""

    fields = (
        columns_field(Columns.NUMERIC, label="Of these columns"),
        GROUPS_FIELD,
        weight_field("Weighted by", may_be_none="Leave it empty where every {one} counts once."),
        CAP_FIELD,
    )
    lacks = "No column is declared as numbers, so there is nothing to add up."
    #: What the number is called, between its article and the column's name.
    noun: ClassVar[str]

    def has_one_unit(self, columns: Sequence[Attribute]) -> bool:
        return len(columns) == 1

    def found(self, statistic: N, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        article = "The" if statistic.weight is None else "The weighted"
        return Measure(noun=f"{article} {self.noun} {statistic.of[part]}", unit=unit).of_groups(answers)

    def typed(self, statistic: N, universe: Universe) -> dict[str, Any]:
        return {"columns": list(statistic.of), "by": ", ".join(statistic.by), **weight_typed(statistic)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        beside = grouping_and_weight(given)
        return {self.name: {"columns": given["columns"], **beside} if beside else given["columns"]}


class OneColumn(StatisticKind[S]):
    """A statistic of one column, and nothing else to choose."""

    def typed(self, statistic: S, universe: Universe) -> dict[str, Any]:
        return {"column": statistic.attributes[0]}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: given["column"]}
