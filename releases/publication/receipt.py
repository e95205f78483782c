"""The receipt of a release: everything needed to judge and re-price it without the data.

No running time, no true count and no plain hash of the data is in it: each would say something about the rows that
nobody paid for.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, log10
from typing import Any

from django.conf import settings

from releases.engine.accounting import accountant
from releases.engine.bounds.accuracy import Bound
from releases.engine.domain.attribute import CLAMP, DROP, Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.levels import levels_in_words
from releases.engine.domain.privacy import NeighbouringRelation, decimal_text
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import MAX_NAMED, Universe
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import ROWS_OF_TABLES, Plan, budget_to_json, mechanism
from releases.engine.run import ReleaseOutput as MadeRelease
from releases.engine.workload.queries import Workload
from releases.models import CERTIFICATE, Budget, Release
from releases.publication.build_info import SOFTWARE
from releases.schema.bin_edges import (
    codes_in_words,
    ends_in_words,
    made_in_words,
    missing_in_words,
    where_tables_have_own_rows,
)
from releases.schema.learned import origins

#: 2: the content's digest differs for each release; before, it was the same for the same rows.
RECEIPT_VERSION = 2
#: Under which name a receipt lists what was learned.
LEARNED = {"range": "learned_ranges", "categories": "learned_categories"}
#: Digits that a page shows of a number with many.
_DIGITS = 6
#: Degrees of importance whose bounds a sentence tells one by one; of more, the greatest.
_MAX_TOLD = 3


def receipt_of(release: Release, made: MadeRelease, *, at: datetime) -> dict[str, Any]:
    plan, result, table = made.plan, made.result, release.dataset
    described = mechanism(plan.mechanism)
    # The schema is what was declared; of what was learned it is said what that cost, in its own release.
    learned: dict[str, list[dict[str, str]]] = {}
    for each in origins(release.dataset, plan.schema.universe):
        learned.setdefault(LEARNED[each.what], []).append(each.to_json())
    source = {"source": {"database": table.connection, "table": table.table}} if table.is_in_database else {}
    about = {} if release.kind is not CERTIFICATE else {"certifies": str(release.certifies_id)}
    return {
        "version": RECEIPT_VERSION,
        "release": str(release.pk),
        **about,
        "title": release.title,
        "dataset": release.dataset.title,
        **source,
        "content_digest": content_digest(release),
        "unit": plan.schema.unit.to_json(),
        # Of releases about rows it is not said: older receipts are of rows alone.
        **({"counts": plan.schema.counted.value} if plan.schema.counted is not Counted.ROWS else {}),
        "neighbours": plan.schema.neighbours.value,
        "universe_size": sum(each.size for each in plan.schema.universe.populations),
        "schema": plan.schema.to_json(),
        "rules_in_words": [
            *rules_of(plan.schema),
            *fuller_bins(plan.schema.universe.attributes),
        ],
        **learned,
        "workload": plan.workload.to_json(),
        "answers": answers_of(plan, result),
        "mechanism": {
            "name": plan.mechanism,
            "title": described.title,
            "source": described.source,
            "options": dict(plan.options),
            "parameters": {**plan.parameters, **plan.limits},
        },
        "budget": budget_to_json(plan.budget),
        "events": [event.to_json() for event in plan.events],
        "events_in_words": [event.in_words() for event in plan.events],
        "cost": cost_of(plan),
        "bound": {
            **result.bound.to_json(),
            "sentence": accuracy_sentence(plan, result.bound),
        },
        "total": {
            "estimate": result.total,
            "kind": "public" if plan.schema.total_is_public else "released with noise",
            # Older receipts do not say it: some of them call a noisy sum of answers public.
            "is_exact": plan.schema.total_is_public and plan.workload.is_counts,
        },
        "synthetic_rows": made.records.rows if made.records is not None else 0,
        "most_synthetic_rows": plan.most_synthetic_rows,
        "synthetic_columns": list(made.records.columns) if made.records is not None else [],
        "notes": dict(result.notes),
        "software": dict(SOFTWARE),
        "date": at.date().isoformat(),
    }


def content_digest(release: Release) -> str:
    """Which table it was, for this installation alone. To others not even whether two receipts are of the same rows."""
    said = f"receipt {release.pk} {release.dataset.digest}"
    return hmac.new(settings.DIGEST_KEY.encode(), said.encode(), hashlib.sha256).hexdigest()


def learned_in(receipt: Mapping[str, Any]) -> list[dict[str, str]]:
    """What of the declaration a receipt says was learned from the data: of what, and by which release."""
    return [{"what": what, **each} for what, name in LEARNED.items() for each in receipt.get(name, ())]


def rows_of_one(receipt: Mapping[str, Any]) -> float:
    """How many rows of the table one synthetic row stands for: where a number of them was wished for, or there are as
    many as the plan allows, its share of the released total; otherwise there are as many as the table is said to have.
    """
    rows = receipt["synthetic_rows"]
    is_share = are_limited(receipt) or receipt["mechanism"]["options"].get("rows")
    return float(receipt["total"]["estimate"] / rows) if rows and is_share else 1.0


def stands_for(receipt: Mapping[str, Any]) -> int:
    """The same of all synthetic rows together, in whole rows of the table."""
    rows: int = receipt["synthetic_rows"]
    return rows if rows_of_one(receipt) == 1 else max(1, round(receipt["total"]["estimate"]))


def are_limited(receipt: Mapping[str, Any]) -> bool:
    """Whether the released total is above the most synthetic rows that the plan allows; false in older receipts."""
    most = receipt.get("most_synthetic_rows")
    return bool(receipt["synthetic_rows"]) and most is not None and receipt["total"]["estimate"] > most


def limit_in_words(receipt: Mapping[str, Any]) -> str:
    """What a receipt says of the most synthetic rows; empty where there are none, or a number was chosen."""
    most = receipt.get("most_synthetic_rows")
    if not most or not receipt["synthetic_rows"] or receipt["mechanism"]["options"].get("rows"):
        return ""
    said = f"At most {most:,} synthetic rows are made of these columns, whatever the noise."
    if not are_limited(receipt):
        return said
    each, many = f"{rows_of_one(receipt):,.6g}", counted_by(receipt).many
    return f"{said} The released total is above that, so each represents {each} {many} of the table."


def synthetic_beside(receipt: Mapping[str, Any]) -> str:
    """How far a release's synthetic rows are from its own answers; empty where that was not worked out."""
    beside = receipt.get("synthetic_beside")
    if beside is None:
        return ""
    most = rows_text(beside["largest_difference"], counted_by(receipt))
    number, outside = receipt["answers"], beside["outside"]
    if not outside:
        return (
            f"Asked the same questions, the synthetic rows differ from the released counts by at most {most}, and none "
            f"of their counts is outside its interval."
        )
    return (
        f"Asked the same questions, the synthetic rows are outside the interval for {outside:,} of {number:,} counts, "
        f"and differ from a released count by up to {most}. Take the released counts for numbers."
    )


def answers_of(plan: Plan, result: Result) -> int:
    """How many answers there are: where that is not known beforehand, as many as were chosen."""
    return len(result.chosen) if plan.workload.is_open else plan.workload.size


def cost_of(plan: Plan) -> dict[str, Any]:
    """The price in each form the accountant can state, as decimals."""
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    stated: dict[str, Any] = {}
    if price.pure_epsilon is not None:
        stated["pure"] = {"epsilon": _units(price.pure_epsilon, accountant.EPSILON_PLACES)}
    if price.epsilon is not None:
        stated["approximate"] = {
            "epsilon": _units(price.epsilon, accountant.EPSILON_PLACES),
            "delta": _units(price.delta, accountant.DELTA_PLACES),
        }
    if price.rho is not None:
        stated["concentrated"] = {
            "rho": _units(price.rho, accountant.EPSILON_PLACES),
            "delta": _units(price.rho_delta, accountant.DELTA_PLACES),
        }
    return stated


def spent_text(receipt: Mapping[str, Any]) -> str:
    """The price in the one form in which it is said first."""
    said = spent(receipt)
    # In an order of ours: a database may keep objects in another than they were written in.
    named = [(name, said[name]) for name in ("epsilon", "rho", "delta") if name in said]
    return ", ".join(f"{name} {amount}" for name, amount in named if (name, amount) != ("delta", "0"))


def spent(receipt: Mapping[str, Any]) -> dict[str, str]:
    """The amounts of that form by their names."""
    cost = receipt["cost"]
    if "pure" in cost:
        return {"epsilon": cost["pure"]["epsilon"], "delta": "0"}
    return dict(cost["approximate"] if "approximate" in cost else cost["concentrated"])


def protects_text(receipt: Mapping[str, Any]) -> str:
    """Whom the price protects, and what is kept private."""
    unit = Schema.from_json(receipt["schema"]).unit_in_words
    return f"{unit}; {neighbours_text(NeighbouringRelation(receipt['neighbours']))}"


def protection_text(budget: Budget, schema: Schema | None = None) -> str:
    """The same of a budget, before any release.

    Args:
        schema: of what is to be released, or of the table that is looked at.
    """
    unit = budget.privacy_unit.in_words() if schema is None else schema.unit_in_words
    return f"{unit}; {neighbours_text(budget.relation)}"


def neighbours_text(relation: NeighbouringRelation) -> str:
    if relation is NeighbouringRelation.ADD_REMOVE:
        return "whether somebody is in the table is private: add/remove neighbours"
    return "how many people there are is public: replace neighbours"


def accuracy_sentence(plan: Plan, bound: Bound) -> str:
    """The one sentence on accuracy, as it stands on every page and in every download."""
    confidence, answers, counted = percent(1 - bound.beta), plan.workload.size, plan.schema.counted
    if bound.bounds_nothing:
        return bound.says[:1].upper() + bound.says[1:]
    if bound.says:
        return f"With probability {confidence}, {bound.says}"
    if answers == 1:
        return f"With probability {confidence}, the count is within {rows_text(bound.alpha, counted)} of the truth."
    more_important = sorted(bounds_by_weight(plan, bound).items())[1:]
    told = more_important if len(more_important) <= _MAX_TOLD else more_important[-1:]
    closer = "".join(f", those of importance {weight:,} within {rows_text(width, counted)}" for weight, width in told)
    return (
        f"With probability {confidence}, every one of the {answers:,} counts is within "
        f"{rows_text(bound.alpha, counted)} of the truth{closer}, all at once.{_counted_by_which(plan.schema.universe)}"
    )


def _counted_by_which(universe: Universe) -> str:
    """Which answers are about persons, and which about rows, where there are both."""
    if not universe.counts_apart:
        return ""
    names = universe.populations[1].names
    named = ", ".join(names[:MAX_NAMED]) + ", ..." * (len(names) > MAX_NAMED)
    return f" Counts by {named} are of persons, the others of rows."


def noisy_rows(receipt: Mapping[str, Any]) -> float | None:
    """The noisy number of rows, or persons, that a release says were counted; None where it has released none."""
    notes, total = receipt["notes"], float(receipt["total"]["estimate"])
    if "noisy number of rows" in notes or receipt["synthetic_rows"]:
        return total
    if cells := notes.get("noisy counts"):
        # Of the cells of a column, in each group where there are groups.
        return math.fsum(math.fsum(each) if isinstance(each, list) else each for each in cells)
    if pairs := notes.get("associations"):
        return math.fsum(math.fsum(row) for row in pairs[0]["counts"])
    return total if Schema.from_json(receipt["schema"]).universe.is_of_states else None


def counted_in_words(receipt: Mapping[str, Any], *, is_checked: bool = False) -> str:
    """How many rows or persons counted, and whether others did not, as far as the release itself says it.

    Args:
        is_checked: a check of the columns that says how many were left out is quoted beside it.
    """
    schema, rows = Schema.from_json(receipt["schema"]), noisy_rows(receipt)
    counted, is_known = schema.counted, rows is not None
    # With three digits: the rest is noise, or beyond what "about" says.
    shown = float(f"{max(rows or 0.0, 0.0):.3g}")
    about = f"About {counted.text(f'{shown:,.0f}')} counted"
    left_out = "" if is_checked else " How many were left out is not known."
    if schema.universe.own_rows:
        least, most = receipt["notes"].get(ROWS_OF_TABLES, (0.0, 0.0))
        number = f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
        about = f" About {counted.text(number)} counted in a table." if ROWS_OF_TABLES in receipt["notes"] else ""
        return f"Each table counts the {counted.many} that its own columns keep, so totals may differ.{about}{left_out}"
    if not schema.rows_may_vanish:
        return f"{about}; no rule leaves one out." if is_known else f"No rule leaves a {counted.one} out."
    if is_known:
        return f"{about}.{left_out}"
    return f"How many {counted.many} counted{'' if is_checked else ', and how many were left out,'} is not known."


def rules_that_drop(receipt: Mapping[str, Any]) -> list[str]:
    """The rules of a release that can leave a row, or a person, out, in sentences."""
    schema = Schema.from_json(receipt["schema"])
    return [*rules_in_words(schema.universe, that_drop=True), *_rules_of_unit(schema)]


def rules_of(schema: Schema) -> list[str]:
    """Which rows count, and what becomes of values that were not declared, in sentences."""
    rules, of_unit = rules_in_words(schema.universe), _rules_of_unit(schema)
    # That only some rows of a person count can change every number, so it comes first.
    return [*rules, *of_unit] if schema.counted is Counted.PERSONS else [*of_unit, *rules]


def rules_said(receipt: Mapping[str, Any]) -> list[str]:
    """The rules of a published release. Receipts of version 2 and before may lack those about the rows of a person."""
    schema = Schema.from_json(receipt["schema"])
    if (said := receipt.get("rules_in_words")) is None:
        return rules_of(schema)
    return [*(each for each in _rules_of_unit(schema) if each not in said), *said]


def _rules_of_unit(schema: Schema) -> list[str]:
    """Which of a person's rows count; nothing where a row is protected."""
    unit, own_rows = schema.unit, schema.universe.own_rows
    if unit.id_column is None:
        return []
    where = ", in tables that count rows" if schema.counted is Counted.BOTH else ""
    most = "" if schema.counted is Counted.PERSONS else f", and of one person at most {unit.max_rows:,} count{where}"
    same = "; these are the same for all tables, whatever their columns leave out" if most and own_rows else ""
    return [f"A row without {unit.id_column} is left out{most}{same}."]


def rules_in_words(universe: Universe, *, that_drop: bool = False) -> list[str]:
    """What becomes of values that were not declared, in sentences. The declaration's doing alone, whatever the rows.

    Args:
        that_drop: only of the rules that can leave a row out.
    """
    rules = [rule for each in universe.populations for rule in _rules_in_words(each, that_drop=that_drop)]
    if universe.counts_apart and not that_drop:
        rules.insert(0, "Tables of columns that have one value a person count persons, and other tables count rows.")
    return [*map(where_tables_have_own_rows, rules)] if universe.own_rows else rules


def _rules_in_words(universe: Universe, *, that_drop: bool) -> list[str]:
    dropping = [each.name for each in universe.attributes if not each.has_grammar and each.outside == DROP]
    numeric = [each for each in universe.attributes if each.is_numeric]
    dated = [each for each in universe.attributes if each.dates is not None]
    declared = [each for each in universe.attributes if each.state_of is None]
    catching = [each for each in declared if not each.has_grammar and each.outside != DROP]
    one, many = universe.counted.one, universe.counted.many
    rules = [f"{each.name}: {said}." for each in universe.attributes if not that_drop and (said := made_in_words(each))]
    if universe.is_of_persons and not that_drop:
        rules.insert(0, "Each person counts once, by values made from all rows that the table has of the person.")
    if dropping:
        rules.append(
            f"A {one} whose value of {_listed(dropping)} is not exactly one of the declared categories is left out of "
            f"every count. Spaces around it do not matter; capitals and spelling do."
        )
    rules += [*_rules_that_drop(numeric, "number", one), *_rules_that_drop(dated, "date", one)]
    if that_drop:
        rules += impossible_in_words(universe) if universe.left_out else []
        return [*rules, *_missing_rules(each for each in declared if each.missing_as == DROP)]
    for attributes, what in ((numeric, "number"), (dated, "date")):
        if clamped := _ruled(attributes, CLAMP, drops=False):
            rules.append(
                f"A {what} of {_listed(clamped)} beyond the declared range counts in the first or the last bin."
            )
        if kept := [each.name for each in attributes if not each.drops_missing]:
            rules.append(f"A {one} whose {_listed(kept)} is missing, or is no {what}, counts as “no {what}”.")
    rules += [
        f"A date of {each.name} is one written {each.dates.written} that is in the calendar; other text is no date."
        for each in dated
        if each.dates is not None
    ]
    rules += [
        f"A time of {each.name} with an offset from UTC, such as +02:00 or Z, is read as what the clocks of "
        f"{each.dates.zone} showed then."
        for each in dated
        if each.dates is not None and each.dates.zone
    ]
    rules += [f"Any other value of {each.name} counts as {each.outside}." for each in catching]
    rules += [f"{each.name}: {codes_in_words(each)}." for each in universe.attributes if each.missing]
    rules += _missing_rules(declared)
    if universe.is_of_states:
        rules.append(f"Every {one} counts, whether its values read as they were declared or not.")
    levels = levels_in_words(universe.hierarchies)
    rules += [*levels, *(["No synthetic row contradicts these levels."] if levels else [])]
    rules += impossible_in_words(universe)
    if universe.own_rows:
        rules.append(
            "What a column leaves out counts in tables without that column, so two tables here may count different "
            f"{many}, and their totals may differ."
        )
    elif universe.may_drop:
        rules.append(
            f"These rules hold for every count here. No other column leaves a {one} out, so a release about other "
            f"columns may count other {many}."
        )
    return rules


def impossible_in_words(universe: Universe) -> list[str]:
    """What is declared impossible, and what becomes of rows that have it all the same, in sentences."""
    if not universe.impossible:
        return []
    one, many = universe.counted.one, universe.counted.many
    treated = (
        f"A {one} of the table that has one of these combinations is left out of every count."
        if universe.left_out
        else f"{many.capitalize()} of the table that have one of these combinations are counted as they are."
    )
    listed = [f"Declared impossible: {each.in_words()}." for each in universe.impossible]
    return [*listed, f"{treated} No synthetic row has one."]


def _rules_that_drop(attributes: Sequence[Attribute], what: str, one: str) -> Iterator[str]:
    """Of columns of numbers, or of dates."""
    if strict := _ruled(attributes, DROP, drops=True):
        yield f"A {one} whose {_listed(strict)} is missing or outside the declared range is left out of every count."
    if ranged := _ruled(attributes, DROP, drops=False):
        yield f"A {one} whose {_listed(ranged)} is a {what} outside the declared range is left out of every count."
    if clamping := _ruled(attributes, CLAMP, drops=True):
        yield (
            f"A {what} of {_listed(clamping)} beyond the declared range counts in the first or the last bin; a {one} "
            f"without a {what} there is left out of every count."
        )


def _ruled(attributes: Sequence[Attribute], outside: str, *, drops: bool) -> list[str]:
    return [each.name for each in attributes if (each.outside, each.drops_missing) == (outside, drops)]


def _missing_rules(attributes: Iterable[Attribute]) -> list[str]:
    return [f"{said[:1].upper()}{said[1:]}." for each in attributes if (said := missing_in_words(each))]


def fuller_bins(attributes: Iterable[Attribute]) -> list[str]:
    """Which bins count more than their labels say, a sentence for each column that clamps."""
    return [f"{each.name}: {said}." for each in attributes if (said := ends_in_words(each))]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def bounds_by_weight(plan: Plan, bound: Bound) -> dict[int, float]:
    """The half width of each degree of importance; empty where importance decides nothing."""
    workload = plan.workload
    if not isinstance(workload, Workload) or not workload.is_weighted or not mechanism(plan.mechanism).uses_weights:
        return {}
    return dict(sorted(zip(workload.weights, bound.half_widths, strict=True)))


def sensible(text: str) -> str:
    """A text in which decimals of more than six digits after the leading zeros are rounded up to six."""

    def shorter(found: re.Match[str]) -> str:
        exactly = Decimal(found[0])
        places = max(0, _DIGITS - 1 - exactly.adjusted())
        return (
            found[0] if -int(exactly.as_tuple().exponent) <= places else decimal_text(Fraction(exactly), places=places)
        )

    return re.sub(r"(?<![\d.,])\d+\.\d+(?![\d.,]*\d)", shorter, text)


def rows_text(alpha: float, counted: Counted = Counted.ROWS) -> str:
    """A bound as so many rows or persons, rounded up: a smaller number would not be true."""
    shown = ceil(alpha) if alpha >= 10 else ceil(alpha * 10 - 1e-9) / 10
    return counted.text(f"{shown:,g}" if shown < 10 else f"{shown:,}")


def counted_by(receipt: Mapping[str, Any]) -> Counted:
    """What a release counts, by its receipt."""
    return Schema.from_json(receipt["schema"]).counted


def percent(share: Fraction) -> str:
    """A share; a confidence, which is more than a half, is rounded down to a digit that its risk has."""
    if 1 / 2 < share < 1:
        scale = 10 ** max(1, min(4, -floor(log10(1 - share)) - 1))
        share = Fraction(floor(share * 100 * scale), 100 * scale)
    return f"{decimal_text(share * 100, places=4)}%"


def _units(units: int, places: int) -> str:
    return decimal_text(Fraction(units, 10**places), places=places)
