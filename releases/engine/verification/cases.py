"""For every mechanism two small questions, each with neighbouring tables on which it spends nearly all that it claims.

A mechanism can go several ways: by its default options, by each other word of an option that offers words, by the
default word where another question needs it, and, where it may be asked about rows and persons in one release, so. Each
way is looked at by itself.

The unit of the one is a row, that of the other a person with several rows, who may have none in the other table, and
whose columns leave no row out. A mechanism that answers counts and has no entry of its own is asked one table of two
cells, and of persons weighted counts that overlap. Any other needs an entry in `CASES` and in `CASES_OF_PERSONS`:
without one there is nothing to look at, and `case_for` refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

from releases.engine.domain.privacy import ApproxDP, NeighbouringRelation, PrivacyBudget, PureDP
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import OWN_ROWS, Plan, mechanism
from releases.engine.verification.looks import (
    LookAt,
    along,
    along_in_tenths,
    chosen,
    corners,
    counts_at_the_ends,
    estimates,
    first_update,
    jump,
    larger_count,
    note,
    released_total,
)
from releases.engine.verification.tables import NO_PERSON, Table
from releases.engine.workload.parsing import read_question

PURE = PureDP(epsilon=Fraction(1))
#: Choices and thresholds say one word in a run; at a larger epsilon fewer runs tell more.
PURE_2 = PureDP(epsilon=Fraction(2))
PURE_3 = PureDP(epsilon=Fraction(3))
#: At a delta so large a thousand runs show what is spent.
APPROXIMATE = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10))
SMALL_DELTA = ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 100))
HALF, THIRD, QUARTER, TENTH, TWENTIETH, FORTIETH = (Fraction(1, parts) for parts in (2, 3, 4, 10, 20, 40))


@dataclass(frozen=True, kw_only=True)
class NeighbouringTables:
    """Two neighbouring tables to be told apart.

    Attributes:
        one, other: the tables.
        look_at: what of a result tells them apart.
        weakened: the factor on all noise at which a few thousand runs show more than is claimed.
    """

    one: Table
    other: Table
    look_at: LookAt
    weakened: Fraction = THIRD


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one mechanism is asked, and two tables to tell apart.

    Attributes:
        columns, queries, options: as a curator would write them.
        pairs: two neighbours for each relation.
        budget: what it claims to spend at most.
        share: of the runs asked for; less where one takes long.
        most_rows: of a person; None where the unit is a row.
    """

    columns: Sequence[Mapping[str, Any]]
    queries: Sequence[Mapping[str, Any]]
    pairs: Mapping[NeighbouringRelation, NeighbouringTables]
    budget: PrivacyBudget = PURE
    options: Mapping[str, Any] = field(default_factory=dict)
    share: Fraction = Fraction(1)
    most_rows: int | None = None

    @property
    def unit(self) -> str:
        """As a word of a table."""
        return "row" if self.most_rows is None else "person"

    def plan(self, name: str, neighbours: NeighbouringRelation, *, beta: Fraction = Fraction(1, 20)) -> Plan:
        person = {"kind": "person", "id": "person", "max_rows": self.most_rows}
        schema = Schema.from_json(
            {
                "version": 1,
                "columns": list(self.columns),
                "neighbours": neighbours.value,
                "unit": {"kind": "row"} if self.most_rows is None else person,
            }
        )
        question = read_question({"version": 1, "queries": list(self.queries)}, schema.universe)
        return mechanism(name).plan(schema, question, budget=self.budget, beta=beta, options=self.options)


def ways_of(name: str) -> tuple[str, ...]:
    """The ways of a registered mechanism; the first, by its default options, has no name."""
    options = mechanism(name).options
    words = ((f"{option.name}: {word}", word == option.default) for option in options for word in option.choices)
    of_both = [BOTH] if name in _ASKED_BOTH else []
    return ("", *(way for way, is_default in words if not is_default or (name, way) in WAYS), *of_both)


def case_for(name: str, *, way: str = "", of_persons: bool = False) -> Case:
    """The case of a registered mechanism, with rows for units or with persons.

    Raises:
        InvalidInput: none is known.
    """
    if way not in ways_of(name):
        raise InvalidInput("way", way, f"must be a way of {name}")
    if way == BOTH:
        budget, share = _ASKED_BOTH[name]
        return _of_both(budget, share=share, most_rows=_G if of_persons else 1)
    if way:
        option, _, word = way.partition(": ")
        case = case_for(name, of_persons=of_persons)
        if (name, way) in WAYS:
            case = _of_persons(WAYS[name, way]) if of_persons else WAYS[name, way]
        return replace(case, options={**case.options, option: word})
    known = CASES_OF_PERSONS if of_persons else CASES
    if name in known:
        return known[name]
    if mechanism(name).answers:
        raise InvalidInput("mechanism", name, "must have a case to be looked at")
    if of_persons:
        return _on_counts_of_persons(PURE, weakened=FORTIETH, share=TWENTIETH)
    return _on_counts(PURE, weakened=TENTH, share=TWENTIETH)


_Pairs: TypeAlias = dict[NeighbouringRelation, NeighbouringTables]


def _pairs(
    *, add_remove: tuple[Table, Table], replace: tuple[Table, Table], look_at: LookAt, weakened: Fraction = THIRD
) -> _Pairs:
    """Pairs that are looked at in the same way."""
    tables = {NeighbouringRelation.ADD_REMOVE: add_remove, NeighbouringRelation.REPLACE: replace}
    return {
        relation: NeighbouringTables(one=one, other=other, look_at=look_at, weakened=weakened)
        for relation, (one, other) in tables.items()
    }


def _numbers(highest: int) -> list[dict[str, Any]]:
    return [{"name": "x", "type": "integer", "edges": [0, highest]}]


def _yes_no(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": "categorical", "categories": ["no", "yes"], "outside": "no"} for name in names]


#: A catch-all keeps every row, so that where rows are replaced their number is public.
_TOWN = [{"name": "town", "type": "categorical", "categories": ["a", "b"], "outside": "b"}]
_THREE = [{"name": "town", "type": "categorical", "categories": ["a", "b", "c"]}]
_A, _B = (0,), (1,)
_FORTY = [_A] * 20 + [_B] * 20
_CORNERS = [(0, 0, 0), (1, 1, 1)] * 10


def _on_counts(
    budget: PrivacyBudget, *, weakened: Fraction = THIRD, share: Fraction = Fraction(1), look_at: LookAt = along
) -> Case:
    return Case(
        columns=_TOWN,
        queries=[{"marginals": 1}],
        pairs=_pairs(
            add_remove=(_FORTY, [*_FORTY, _A]),
            replace=(_FORTY, [*_FORTY[1:], _B]),
            look_at=look_at,
            weakened=weakened,
        ),
        budget=budget,
        share=share,
    )


def _of_a_sum(budget: PrivacyBudget) -> Case:
    return Case(
        columns=_numbers(30),
        queries=[{"sum": ["x"]}],
        pairs=_pairs(add_remove=([], [(30,)]), replace=([(0,)], [(30,)]), look_at=along),
        budget=budget,
    )


def _of_a_median(pairs: _Pairs) -> Case:
    return Case(columns=_numbers(30), queries=[{"median": "x"}], pairs=pairs, budget=PURE_2)


def _of_a_smooth_median(budget: PrivacyBudget, *, weakened: Fraction) -> Case:
    """One row of the highest value against none: all scales are the range, the medians its ends.

    Half of epsilon or so is kept for changes of scale, of which this pair has none.
    """
    return Case(
        columns=_numbers(3),
        queries=[{"median": "x"}],
        pairs=_pairs(add_remove=([], [(3,)]), replace=([(0,)], [(3,)]), look_at=estimates, weakened=weakened),
        budget=budget,
        options={"bound": 0},
        share=HALF,
    )


_BAR = 5


def _threshold(above: int) -> dict[str, Any]:
    return {"threshold": {"counts": [{"town": ["a"]}, {"town": ["a"]}, {"town": ["b"]}], "above": above}}


def _of_thresholds(**options: Any) -> Case:
    """Two counts just below the threshold that rise to it, then one at it that stays or falls."""
    below = [_A] * 4 + [_B] * 5
    return Case(
        columns=_THREE,
        queries=[_threshold(_BAR)],
        pairs=_pairs(add_remove=(below, [*below, _A]), replace=(below, [*below[:-1], _A]), look_at=chosen),
        budget=PURE_3,
        options=options,
    )


def _of_small_databases(**options: Any) -> Case:
    """Databases of one row: whichever count is the larger is chosen the likelier."""
    even = [_A] * 2 + [_B] * 2
    return Case(
        columns=_TOWN,
        queries=[{"marginals": 1}],
        pairs=_pairs(
            add_remove=(even, [_A, *even]), replace=(even, [_A, *even[:-1]]), look_at=larger_count, weakened=TENTH
        ),
        options={"size": 1, **options},
        share=HALF,
    )


_A_CHOICE = Case(
    columns=_THREE,
    queries=[{"most_common": "town"}],
    pairs=_pairs(add_remove=([_B], [_B, _A]), replace=([_B, _B], [_B, _A]), look_at=chosen),
    budget=PURE_2,
)
_LOW_AND_HIGH_3 = [(0,)] * 3 + [(2,)] * 3
_LOW_AND_HIGH = [(0,)] * 40 + [(1000,)] * 40
_MANY = [(3,)] * 16
_ALL_BUT_TWO = [(1, 1, 1, 0)] * 118 + [(0, 0, 0, 0)]
_CUBE = [*product((0, 1), repeat=3)] * 20


def _of_tables(budget: PrivacyBudget, *, share: Fraction, weakened: Fraction = TENTH) -> Case:
    """Tables that overlap and are made to agree."""
    return Case(
        columns=_yes_no("p", "q", "r"),
        queries=[{"marginals": 1}, {"marginals": 2}, {"marginals": 3}],
        pairs=_pairs(
            add_remove=(_CUBE, [*_CUBE, (0, 0, 0)]),
            replace=(_CUBE, [*_CUBE[1:], (1, 1, 1)]),
            look_at=along_in_tenths,
            weakened=weakened,
        ),
        budget=budget,
        share=share,
    )


def _of_some_rows(budget: PrivacyBudget, *, share: Fraction) -> Case:
    """Tables of one column each, of which one leaves rows out that others count."""
    return replace(
        _of_tables(budget, share=share),
        columns=[{**_THREE[0], "name": "p", "categories": ["no", "yes"]}, *_yes_no("q", "r")],
        queries=[{"marginals": 1}],
    )


_EVER = {
    "name": "ever",
    "type": "categorical",
    "categories": ["false", "true"],
    "formula": 'any_per_person(town = "b")',
}
#: The way of a release that has tables of rows and tables of persons.
BOTH = "rows and persons"
#: The mechanisms that have it, by name: the budget and the share of the runs.
_ASKED_BOTH: dict[str, tuple[PrivacyBudget, Fraction]] = {
    "laplace-queries": (PURE, HALF),
    "gaussian-queries": (APPROXIMATE, TWENTIETH),
}


def _of_both(budget: PrivacyBudget, *, share: Fraction, most_rows: int) -> Case:
    """A table of rows and one of persons. The person that is not the same in both has as many rows as may be, and so
    moves both tables as far as they move together. The value of a person is in the first of its rows alone."""

    def person(town: int) -> list[tuple[int, ...]]:
        return [(town, town), *[(town, NO_PERSON)] * (most_rows - 1)]

    others = [*person(0) * 20, *person(1) * 20]
    return Case(
        columns=[*_TOWN, _EVER],
        queries=[{"marginal": ["town"]}, {"marginal": ["ever"]}],
        pairs=_pairs(
            add_remove=(others, [*others, *person(0)]),
            replace=([*others, *person(0)], [*others, *person(1)]),
            look_at=along,
            weakened=TENTH,
        ),
        budget=budget,
        share=share,
        most_rows=most_rows,
    )


#: By the mechanism's name.
CASES: dict[str, Case] = {
    "laplace-histogram": _on_counts(PURE, share=HALF),
    "gaussian-queries": _on_counts(APPROXIMATE, weakened=TENTH, share=TWENTIETH),
    "gaussian-histogram": _on_counts(APPROXIMATE, share=HALF),
    **{
        name: _on_counts(APPROXIMATE, weakened=TENTH, share=TWENTIETH, look_at=along_in_tenths)
        for name in ("residual-queries", "correlated-queries")
    },
    "laplace-numbers": _of_a_sum(PURE),
    "gaussian-numbers": _of_a_sum(APPROXIMATE),
    # Ten and thirty rows were published for two cells that hold twenty: one row more is one more of error, of the
    # largest and of the table.
    "measured-error": Case(
        columns=_TOWN,
        queries=[
            {
                "largest_error": {
                    "workload": {"version": 1, "queries": [{"marginals": 1}]},
                    "released": {"synthetic rows": {"numbers": [[10, 30]]}},
                    "means": ["asked"],
                }
            }
        ],
        pairs=_pairs(add_remove=(_FORTY, [*_FORTY, _A]), replace=(_FORTY, [*_FORTY[1:], _B]), look_at=along),
    ),
    "exponential-choice": _A_CHOICE,
    "noisy-max-choice": _A_CHOICE,
    "permute-and-flip-choice": _A_CHOICE,
    "exponential-quantile": _of_a_median(
        _pairs(
            add_remove=([(15,), (30,)], [(30,)]),
            replace=([(15,), (15,), (30,), (0,)], [(15,), (15,), (30,), (30,)]),
            look_at=estimates,
            weakened=TENTH,
        )
    ),
    # Two values, so two counts and nothing drawn before: all of epsilon is for the noise on them.
    "counted-quantile": Case(
        columns=_numbers(1),
        queries=[{"median": "x"}],
        pairs=_pairs(add_remove=([(0,)], []), replace=([(0,)], [(1,)]), look_at=note("noisy counts")),
        budget=PURE_2,
    ),
    # Both ends next to the median, so that one row moves both of them.
    "exponential-range": Case(
        columns=_numbers(2),
        queries=[{"range": {"column": "x", "inside": "0.02"}}],
        pairs=_pairs(
            add_remove=([*_LOW_AND_HIGH_3, (1,)], _LOW_AND_HIGH_3),
            replace=([(0,), (1,), (0,)], [(0,), (1,), (2,)]),
            look_at=chosen,
            weakened=TENTH,
        ),
        budget=PURE_2,
    ),
    # Around its threshold, which is 8 where rows come and go and 15 where they are replaced: one row more makes a value
    # likelier to be found, and one row changed makes the other rarer too. The third is what the bound is about.
    "stable-histogram": Case(
        columns=[{"name": "town", "type": "categorical", "categories": ["other"], "outside": "other"}],
        queries=[{"categories": "town"}],
        pairs=_pairs(
            add_remove=([(1,)] * 7, [(1,)] * 8),
            replace=([*_MANY, *[(1,)] * 15, *[(2,)] * 14], [*_MANY, *[(1,)] * 14, *[(2,)] * 15]),
            look_at=chosen,
        ),
        budget=ApproxDP(epsilon=Fraction(2), delta=Fraction(1, 10**6)),
    ),
    # Half of epsilon is for the counts of the pair, of which two move where a row is replaced; a row that comes or goes
    # moves one. The other half is for the choice, which this pair of tables hardly moves.
    "strongest-associations": Case(
        columns=_yes_no("p", "q", "r"),
        queries=[{"strongest_associations": {"columns": ["p", "q", "r"], "k": 1}}],
        pairs=_pairs(
            add_remove=(_CORNERS, [*_CORNERS, (0, 0, 0)]),
            replace=([*_CORNERS, (1, 1, 1)], [*_CORNERS, (0, 0, 0)]),
            look_at=corners,
            weakened=TENTH,
        ),
    ),
    "exponential-metric": _of_a_median(
        _pairs(add_remove=([(30,), (0,)], [(30,)]), replace=([(0,)], [(30,)]), look_at=estimates)
    ),
    "smooth-median-cauchy": _of_a_smooth_median(PURE, weakened=TENTH),
    "smooth-median-laplace": _of_a_smooth_median(SMALL_DELTA, weakened=TENTH),
    "smooth-median-gaussian": _of_a_smooth_median(APPROXIMATE, weakened=TENTH),
    # The median jumps by the whole range, which is the proposal, and the distance by one: all of epsilon is spent.
    # A value outside the range is no row, so one row more or less is a neighbour under either relation.
    "propose-test-release": Case(
        columns=_numbers(1000),
        queries=[{"median": "x"}],
        pairs=_pairs(
            add_remove=(_LOW_AND_HIGH, [*_LOW_AND_HIGH, (1000,)]),
            replace=(_LOW_AND_HIGH, [*_LOW_AND_HIGH, (1000,)]),
            look_at=jump(len(_LOW_AND_HIGH) + 1, 1000),
            weakened=QUARTER,
        ),
        budget=ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
        options={"propose": "1000"},
    ),
    "above-threshold": _of_thresholds(),
    "sparse-vector": _of_thresholds(),
    "numeric-sparse-vector": _of_thresholds(values=1),
    # Where rows come and go the made-up answers hide a row's own, and its noisy number is what shows the most.
    "randomized-response": Case(
        columns=_TOWN,
        queries=[{"survey": "town"}],
        pairs={
            NeighbouringRelation.ADD_REMOVE: NeighbouringTables(
                one=_FORTY, other=[*_FORTY, _A], look_at=note("noisy number of rows"), weakened=Fraction(1, 40)
            ),
            NeighbouringRelation.REPLACE: NeighbouringTables(one=[_A], other=[_B], look_at=note("reports")),
        },
        share=HALF,
    ),
    "smalldb": _of_small_databases(measure=0, population=4),
    "gaussian-cumulative": replace(
        _on_counts(APPROXIMATE, weakened=TENTH, share=TWENTIETH, look_at=along_in_tenths), queries=[{"prefix": "town"}]
    ),
    "laplace-tree": replace(_on_counts(PURE, weakened=TENTH, share=TENTH), queries=[{"prefix": "town"}]),
    "smalldb-net": _of_small_databases(measure=1, candidates=8),
    # Three counts just below the threshold that rise towards it, then one above it that falls.
    "pmw-online": Case(
        columns=_yes_no("p", "q", "r", "s"),
        queries=[{"count": {name: ["yes"]}} for name in "pqrs"],
        pairs={
            NeighbouringRelation.ADD_REMOVE: NeighbouringTables(
                one=_ALL_BUT_TWO, other=[*_ALL_BUT_TWO, (1, 1, 1, 1)], look_at=released_total, weakened=Fraction(1, 100)
            ),
            NeighbouringRelation.REPLACE: NeighbouringTables(
                one=[*_ALL_BUT_TWO, (0, 0, 0, 0)],
                other=[*_ALL_BUT_TWO, (1, 1, 1, 1)],
                look_at=first_update,
                weakened=TENTH,
            ),
        },
        budget=PURE_3,
        options={"population": 40, "updates": 1},
    ),
}

_DECILES: list[dict[str, Any]] = [
    {"quantiles": {"column": "x", "at": [f"0.{tenth}" for tenth in range(1, 10)]}},
]
#: Of the ways of a mechanism, those that are asked something else.
WAYS: dict[tuple[str, str], Case] = {
    ("laplace-queries", "agree: yes"): _of_tables(PURE, share=HALF),
    ("laplace-queries", "measured: larger"): _of_tables(PURE, share=HALF),
    ("laplace-queries", "measured: joined"): _of_tables(PURE, share=HALF),
    # Noise of so many tables that the bound of answers that agree is proved.
    ("gaussian-queries", "agree: yes"): _of_tables(APPROXIMATE, share=TWENTIETH),
    **{
        (name, f"rows_counted: {word}"): _of_some_rows(budget, share=share)
        for word in OWN_ROWS.choices
        for name, budget, share in (("laplace-queries", PURE, HALF), ("gaussian-queries", APPROXIMATE, TWENTIETH))
    },
    **{
        (name, "agree: yes"): replace(
            _of_tables(budget, share=share, weakened=Fraction(1, 100)),
            queries=[{"prefix": "p"}, {"marginals": 1}, {"marginals": 2}],
        )
        for name, budget, share in (("laplace-tree", PURE, HALF), ("gaussian-cumulative", APPROXIMATE, TWENTIETH))
    },
    # So many quantiles of so many values that the rows are cut in slices. A quarter of epsilon or so is for the counts.
    ("counted-quantile", "steps: slices"): Case(
        columns=_numbers(360),
        queries=_DECILES,
        pairs=_pairs(
            add_remove=([(0,)], []), replace=([(0,)], [(360,)]), look_at=counts_at_the_ends, weakened=TWENTIETH
        ),
        share=HALF,
    ),
    # The larger table has the fewest rows that are cut in slices, the other one row less. A two-hundredth of epsilon is
    # for the number that chooses, so nearly all of its noise has to go before more than epsilon is seen. A row may be
    # replaced by one without a number.
    ("counted-quantile", "steps: chosen"): Case(
        columns=_numbers(360),
        queries=_DECILES,
        pairs=_pairs(
            add_remove=([(0,)] * 9_045, [(0,)] * 9_046),
            replace=([(0,)] * 18_090, [(0,)] * 18_091),
            look_at=note("steps"),
            weakened=Fraction(1, 4_000),
        ),
        share=FORTIETH,
    ),
    # Twice the noise that it needs.
    ("exponential-metric", "constant: theorem"): _of_a_median(
        _pairs(add_remove=([(30,), (0,)], [(30,)]), replace=([(0,)], [(30,)]), look_at=estimates, weakened=TENTH)
    ),
}


# The cases of persons

#: Rows of a person at most.
_G = 3
_EVERYBODY = {"count": {"town": ["a", "b"]}}
_CAUGHT = [{**_THREE[0], "outside": "c"}]
#: Whoever has no rows any more is missing in all of these; a row that stays is missing in one at most.
_OVERLAPPING: list[dict[str, Any]] = [{"prefix": "town"}, {**_EVERYBODY, "weight": 100}]


def _tables_of_persons(pair: tuple[Table, Table]) -> tuple[Table, Table]:
    """Every row g times: one that comes, goes or is replaced becomes a person whose rows all do."""
    one, other = ([row for row in table for _ in range(_G)] for table in pair)
    return one, other


def _of_persons(case: Case, *, weakened: Fraction | None = None, **changed: Any) -> Case:
    """The same question about persons: all counts, and the noise on them, are g times as large."""
    pairs = {}
    for relation, pair in case.pairs.items():
        one, other = _tables_of_persons((pair.one, pair.other))
        pairs[relation] = replace(pair, one=one, other=other, weakened=weakened or pair.weakened)
    return replace(case, **{"pairs": pairs, "most_rows": _G, **changed})


def _who_is_gone(look_at: LookAt, *, more: Table, fewer: Table, weakened: Fraction) -> _Pairs:
    """The pair of a person with g rows and without any, under either relation."""
    return _pairs(add_remove=(fewer, more), replace=(more, fewer), look_at=look_at, weakened=weakened)


def _on_counts_of_persons(
    budget: PrivacyBudget, *, weakened: Fraction = TENTH, share: Fraction = Fraction(1), look_at: LookAt = along
) -> Case:
    return Case(
        columns=_TOWN,
        queries=_OVERLAPPING,
        pairs=_who_is_gone(look_at, more=[*_FORTY, *[_A] * _G], fewer=_FORTY, weakened=weakened),
        budget=budget,
        share=share,
        most_rows=_G,
    )


def _of_votes(budget: PrivacyBudget) -> Case:
    return Case(
        columns=_yes_no("p", "q"),
        queries=[{"votes": {"columns": ["p", "q"], "category": "yes", "ballots": 2}}],
        pairs=_who_is_gone(along, more=[(1, 1)] * _G, fewer=[], weakened=QUARTER),
        budget=budget,
        share=HALF,
        most_rows=_G,
    )


#: By the mechanism's name.
CASES_OF_PERSONS: dict[str, Case] = {
    "laplace-histogram": _on_counts_of_persons(PURE, share=QUARTER),
    "gaussian-queries": _on_counts_of_persons(APPROXIMATE, weakened=Fraction(1, 100), share=TWENTIETH),
    "gaussian-histogram": _on_counts_of_persons(APPROXIMATE, share=QUARTER),
    **{
        name: _on_counts_of_persons(APPROXIMATE, weakened=Fraction(1, 100), share=TWENTIETH, look_at=along_in_tenths)
        for name in ("residual-queries", "correlated-queries", "gaussian-cumulative")
    },
    # Answers that agree are no whole numbers; they have a case of their own.
    "laplace-tree": replace(_on_counts_of_persons(PURE, weakened=FORTIETH, share=TWENTIETH), options={"agree": "no"}),
    "laplace-numbers": _of_votes(PURE),
    "gaussian-numbers": _of_votes(APPROXIMATE),
    # Half of everybody was published: three rows more are three more of error.
    "measured-error": Case(
        columns=_TOWN,
        queries=[
            {
                "largest_error": {
                    "workload": {"version": 1, "queries": [{"marginal": ["town"]}, *_OVERLAPPING]},
                    "released": {"synthetic rows": {"numbers": [[10, 20], [10, 20], [20]]}},
                    "means": ["asked"],
                }
            }
        ],
        pairs=_who_is_gone(along, more=[*_FORTY, *[_A] * _G], fewer=_FORTY, weakened=THIRD),
        share=HALF,
        most_rows=_G,
    ),
    **{
        name: _of_persons(CASES[name], columns=_CAUGHT, share=HALF)
        for name in ("exponential-choice", "noisy-max-choice", "permute-and-flip-choice")
    },
    **{
        name: _of_persons(CASES[name], share=CASES[name].share / 2)
        for name in (
            "counted-quantile",
            "exponential-quantile",
            "exponential-range",
            "exponential-metric",
            "smooth-median-cauchy",
            "smooth-median-laplace",
            "smooth-median-gaussian",
        )
    },
    "strongest-associations": _of_persons(CASES["strongest-associations"]),
    "propose-test-release": _of_persons(CASES["propose-test-release"], weakened=TENTH),
    **{
        name: _of_persons(CASES[name], columns=_CAUGHT, queries=[_threshold(_G * _BAR)], weakened=TENTH)
        for name in ("above-threshold", "sparse-vector", "numeric-sparse-vector")
    },
    # Around its threshold, which is 24 and 45 for persons. A replaced person takes rows from one value and brings them
    # to another, which spends all of epsilon: 1,500 runs miss a third of the noise with probability below 1e-6.
    "stable-histogram": _of_persons(
        CASES["stable-histogram"],
        pairs=_pairs(
            add_remove=([(1,)] * 21, [(1,)] * 24),
            replace=([(1,)] * 46 + [(2,)] * 43, [(1,)] * 43 + [(2,)] * 46),
            look_at=chosen,
        ),
    ),
    # Of persons the number of rows is private under either relation, and its noise is what shows the most.
    "randomized-response": Case(
        columns=_TOWN,
        queries=[{"survey": "town"}],
        pairs=_who_is_gone(
            note("noisy number of rows"), more=[*_FORTY, *[_A] * _G], fewer=_FORTY, weakened=Fraction(1, 100)
        ),
        share=QUARTER,
        most_rows=_G,
    ),
    **{
        name: _of_persons(CASES[name], queries=[{"marginals": 1}, *_OVERLAPPING], weakened=FORTIETH, share=share)
        for name, share in (("smalldb", QUARTER), ("smalldb-net", HALF))
    },
    "pmw-online": Case(
        columns=_yes_no("p", "q", "r", "s"),
        queries=[{"count": {"p": ["yes"]}}, {"prefix": "q"}, {"count": {"r": ["no", "yes"]}, "weight": 10}],
        pairs=_who_is_gone(
            released_total,
            more=[*_ALL_BUT_TWO, *[(1, 1, 1, 1)] * _G],
            fewer=_ALL_BUT_TWO,
            weakened=Fraction(1, 200),
        ),
        budget=PURE_3,
        options={"population": 120, "updates": 1},
        share=HALF,
        most_rows=_G,
    ),
}
