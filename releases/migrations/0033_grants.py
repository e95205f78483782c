"""What is granted never falls once something was charged: the database refuses it, and budgets that fell are raised.

Where a grant lowered epsilon or delta after a charge, what the filter had accepted is within the largest grant alone, the
largest epsilon with the largest delta (`releases.engine.accounting.filters`, "A budget that is raised"). Such a budget
gets one more grant of these, an entry of its ledger by the last reviewer who granted something, whose detail says why; the
audit log names it too. So more can be spent than the last reviewer wanted: freeze the budget where that is not meant.
Migrating prints a line for each.
"""

import hashlib
import json
import uuid
from fractions import Fraction

from django.db import migrations
from django.utils import timezone

from releases.engine.accounting.filters import Caps, Policy
from releases.engine.domain.privacy import decimal_text

FALLS = "what is granted does not fall once something was charged"
WHY = "the largest that was granted while releases were charged; a later grant had lowered it"

FALLEN = "NEW.cap_epsilon < OLD.cap_epsilon OR NEW.cap_delta < OLD.cap_delta"
CHARGED = "EXISTS (SELECT 1 FROM releases_ledgerentry e WHERE e.budget_id = OLD.id AND e.kind IN ('charge', 'restore'))"

SQLITE = f"""
    CREATE TRIGGER budget_does_not_fall BEFORE UPDATE ON releases_budget
    WHEN ({FALLEN}) AND {CHARGED}
    BEGIN SELECT RAISE(ABORT, '{FALLS}'); END
"""


def postgresql(schema):
    yield f"""
    CREATE FUNCTION releases_budget_does_not_fall() RETURNS trigger LANGUAGE plpgsql
    SET search_path = {schema}, pg_temp AS $$ BEGIN
    IF ({FALLEN}) AND {CHARGED} THEN RAISE EXCEPTION '{FALLS}'; END IF;
    RETURN NEW; END $$
    """
    yield """
    CREATE TRIGGER budget_does_not_fall BEFORE UPDATE ON releases_budget
    FOR EACH ROW EXECUTE FUNCTION releases_budget_does_not_fall()
    """


def add_trigger(apps, schema_editor):
    connection = schema_editor.connection
    if connection.vendor == "sqlite":
        schema_editor.execute(SQLITE)
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        (schema,) = cursor.fetchone()
    for statement in postgresql(schema):
        schema_editor.execute(statement)


def largest(entries):
    """The largest epsilon and delta, as text, that were granted while something was charged; the last grant's actor."""
    most, actor, is_charged = {"epsilon": "0", "delta": "0"}, None, False
    for kind, detail, by in entries.order_by("sequence").values_list("kind", "detail", "actor_id"):
        is_charged = is_charged or kind in ("charge", "restore")
        if kind == "grant":
            # Grants of old say only the caps.
            places = {"epsilon": 10**12, "delta": 10**18}
            given = {
                each: str(detail.get(each) or decimal_text(Fraction(detail["caps"][each], units), places=18))
                for each, units in places.items()
            }
            most = {each: max(given[each], most[each] if is_charged else "0", key=Fraction) for each in most}
            actor = by
    return most, actor


def raise_fallen(apps, schema_editor):
    Budget, LedgerEntry = apps.get_model("releases", "Budget"), apps.get_model("releases", "LedgerEntry")
    AuditEvent = apps.get_model("releases", "AuditEvent")
    for budget in Budget.objects.exclude(epsilon="").order_by("created_at"):
        most, actor = largest(LedgerEntry.objects.filter(budget=budget))
        standing = {"epsilon": budget.epsilon, "delta": budget.delta or "0"}
        if actor is None or all(Fraction(most[each]) <= Fraction(standing[each]) for each in most):
            continue
        grant(LedgerEntry, budget, most, actor)
        said = f"epsilon {most['epsilon']}, delta {most['delta']}: {WHY}"
        AuditEvent.objects.create(
            action="approve", actor=None, kind="budget", object_id=str(budget.pk), name=budget.name[:200], detail=said
        )
        print(f"\n  {budget.name} ({budget.pk}): epsilon {standing['epsilon']}, delta {standing['delta']} raised to {said}")


def grant(LedgerEntry, budget, most, actor):
    """Append the grant, with the hash that `LedgerEntry.content` gives it, and move the budget's row along."""
    caps = Caps.of(
        Policy(budget.policy),
        epsilon=Fraction(most["epsilon"]),
        delta=Fraction(most["delta"]),
        is_before=budget.keeps_rule_of_before,
    )
    limits = {limit.column: limit.cap for branch in caps.branches for limit in branch.limits}
    entry = LedgerEntry(
        budget=budget,
        sequence=budget.sequence + 1,
        kind="grant",
        key=uuid.uuid4(),
        actor_id=actor,
        detail={**most, "caps": caps.to_json(), "unit": budget.unit, "neighbours": budget.neighbours, "why": WHY},
        made_at=timezone.now(),
        previous=budget.head,
    )
    content = {
        "budget": str(budget.pk),
        "sequence": entry.sequence,
        "kind": entry.kind,
        "key": str(entry.key),
        "release": None,
        "actor": actor,
        "detail": entry.detail,
        "amounts": [0, 0, 0, 0],
        "made_at": entry.made_at.isoformat(),
        "previous": entry.previous,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    entry.hash = hashlib.sha256(text.encode()).hexdigest()
    entry.save(force_insert=True)
    type(budget).objects.filter(pk=budget.pk).update(
        sequence=entry.sequence,
        head=entry.hash,
        **most,
        cap_epsilon=limits["spent_epsilon"],
        cap_delta=limits["spent_delta"],
        cap_rho=limits.get("spent_rho", 0),
        cap_rho_delta=limits.get("spent_rho_delta", 0),
    )


class Migration(migrations.Migration):
    dependencies = [("releases", "0032_runner")]
    operations = [
        # First: a table with checks outstanding takes no trigger.
        migrations.RunPython(add_trigger, migrations.RunPython.noop),
        migrations.RunPython(raise_fallen, migrations.RunPython.noop),
    ]
