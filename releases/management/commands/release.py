"""`manage.py release`: the whole job without a browser, through the same services, ledger and database."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from argparse import ArgumentParser
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words, separators
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import decimal_text, exact, privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import mechanism, mechanisms
from releases.engine.tables.facts import ENCODINGS, FileFacts, UnreadableTable
from releases.engine.tables.number import THOUSANDS
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Question, of_columns_asked
from releases.ledger import refusals
from releases.ledger.capacity import usual_delta
from releases.management.database import ensure_database
from releases.models import (
    CHECK,
    PLAIN,
    BudgetRequest,
    Dataset,
    Organisation,
    Release,
    ReleaseState,
    RequestState,
    Role,
    WorkloadVersion,
)
from releases.planning.comparison import first_delta
from releases.publication import archive, files
from releases.publication.column_checks import check_in_readme
from releases.publication.dictionary import DICTIONARY
from releases.publication.readme import README, path_of
from releases.publication.receipt import counted_in_words
from releases.schema.codebook_csv import codebook_from_csv
from releases.schema.descriptions import apart
from releases.schema.metadata_codebooks import from_ddi, from_smartnoise
from releases.schema.standard_codebooks import from_standard, is_standard
from releases.services.connections import Connection
from releases.storage.addresses import without_secrets
from releases.worker import runner

#: How the table's file is written (docs/reference/files.md).
FACTS = {
    "locale": "of the country that the file comes from, such as de_DE: proposes how numbers are written",
    "separator": "between values: one sign, or comma, semicolon, tab, bar or space",
    "encoding": f"one of {', '.join(ENCODINGS)}",
    "decimal": "the decimal sign of numbers that are text, . or ,",
    "thousands": f"the sign between thousands of numbers that are text, one of {', '.join(THOUSANDS)}",
    "quote": "around values, one of \" ' none",
    "has_header": "whether the first line names the columns, yes or no",
    "number_names": "whether columns may be named by numbers, yes or no",
    "sheet": "name or number of a workbook's sheet",
    "header_row": "row of a text file or a workbook that names the columns; those above it are skipped",
    "member": "name of the file in an archive",
}
OVER_BUDGET = 3
WAITS_FOR_REVIEW = 4


class NeedsReview(Exception):
    """Somebody else has to decide first. The text says what, and what happens then."""


#: How a schema file is read, by its ending; any other as JSON.
OTHER_CODEBOOKS = {".csv": codebook_from_csv, ".xml": from_ddi, ".yaml": from_smartnoise, ".yml": from_smartnoise}


class Command(BaseCommand):
    help = (
        "Release a table's answers and synthetic rows; writes answers.csv, totals.csv, synthetic.csv, dictionary.csv, "
        "receipt.json and README.txt."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--list", action="store_true", help="name the mechanisms and stop")
        parser.add_argument(
            "--table",
            help="file with a table; or CONNECTION#SCHEMA.TABLE, with the name of a connection of the site or, as "
            "postgresql://ROLE@HOST/DATABASE#SCHEMA.TABLE or spark://HOST:PORT#SCHEMA.TABLE, its address; of MariaDB "
            "and MySQL without the schema, as mariadb://ROLE@HOST/DATABASE#TABLE; in a folder or storage "
            "CONNECTION#FILE, file:///FOLDER#FILE or s3://KEY@BUCKET/PREFIX?endpoint=https://HOST#FILE",
        )
        for name, text in FACTS.items():
            parser.add_argument(f"--{name.replace('_', '-')}", help=f"of the file: {text}")
        parser.add_argument("--schema", type=Path, help="schema, format version 1, or a codebook in CSV, XML or YAML")
        parser.add_argument("--workload", help="file of a workload, format version 1; or the name of a saved one")
        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="NEEDED=NAME",
            help="of a saved workload, called otherwise here",
        )
        parser.add_argument("--mechanism", help="one of --list")
        parser.add_argument("--epsilon", help="what the release may spend")
        parser.add_argument(
            "--delta",
            help="of the release; where not given, the one that a draft on the site begins with: a thousandth of the "
            "table's, and 0 under the pure policy",
        )
        parser.add_argument("--beta", default="0.05", help="1 - confidence of the bound (default 0.05)")
        parser.add_argument("--budget", help="epsilon the table may spend in all, if it was never seen before")
        parser.add_argument("--budget-delta", help="delta the table may spend in all, if it was never seen before")
        parser.add_argument("--policy", choices=list(Policy), default=Policy.ZCDP.value)
        parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the mechanism")
        parser.add_argument("--rows", help="how many synthetic rows (short for --option rows=N)")
        parser.add_argument("--title", default="", help="of the release")
        parser.add_argument("--reason", default="", help="for reviewers; needed where a check found a column misread")
        parser.add_argument("--out", type=Path, help="folder for the three files")

    def handle(self, **options: Any) -> None:
        if options["list"]:
            for name, each in mechanisms().items():
                if each.is_offered:
                    self.stdout.write(f"{name:24} {each.title}")
            return
        try:
            self._release(options)
        except refusals.InsufficientBudget as error:
            self.stderr.write(str(error))
            sys.exit(OVER_BUDGET)
        except NeedsReview as error:
            self.stderr.write(str(error))
            sys.exit(WAITS_FOR_REVIEW)
        except (EngineError, refusals.LedgerRefusal, services.release_inputs.Refusal) as error:
            raise CommandError(said_of(error)) from None

    def _release(self, options: dict[str, Any]) -> None:
        for name in ("table", "schema", "workload", "mechanism", "epsilon", "out"):
            if options[name] is None:
                raise CommandError(f"--{name} is needed.")
        # What reads the table gets ready meanwhile.
        runner.warm()
        # Everything public is read and planned before anything is stored.
        codebook = apart(read_codebook(options["schema"]))
        schema = Schema.from_json(codebook.schema)
        workload, version = read_workload(options["workload"], options["column"], schema.universe)
        if not (wanted := mechanism(options["mechanism"])).is_offered:
            said = "certifies a published release; see manage.py certify" if wanted.answers else "is for live sessions"
            raise CommandError(f"--mechanism: {wanted.name} {said}.")
        chosen = read_options(options["option"], options["rows"])
        about, asked = of_columns_asked(schema, workload)
        plan = mechanism(options["mechanism"]).plan(
            about,
            asked,
            budget=privacy_budget(epsilon=options["epsilon"], delta=options["delta"] or delta_beforehand(options)),
            beta=services.release_inputs.read_beta(options["beta"]),
            options=chosen,
        )
        if plan.infeasible:
            raise CommandError(plan.infeasible)
        facts = FileFacts.from_json({name: options[name] for name in FACTS if options[name] is not None})
        table = str(options["table"])
        is_file = Path(table).is_file()
        if not is_file and not table.partition("#")[2]:
            # What was typed could hold a password, and what a command says is kept by whatever runs it.
            is_place = "://" in table or table.endswith("#")
            said = "names no table; write #TABLE behind it" if is_place else "is not a file"
            raise CommandError(f"--table: {without_secrets(table)} {said}.")
        ensure_database()
        connection = None if is_file else connection_of(table)
        operator = the_operator()
        if connection is None:
            dataset = find_or_ingest(Path(table), owner=operator, facts=facts)
        else:
            dataset = find_or_register(connection, table.partition("#")[2], owner=operator)
        self._declare(dataset, schema, options, operator)
        services.codebooks.describe_dataset(
            dataset=dataset, notes=codebook.notes, description=codebook.description, by=operator
        )
        kind = CHECK if workload.universe.is_of_states else PLAIN
        release = services.releases.draft_release(dataset=dataset, by=operator, title=options["title"], kind=kind)
        services.releases.set_questions(release=release, workload=workload.to_json(), version=version)
        services.releases.set_choice(
            release=release,
            epsilon=options["epsilon"],
            delta=options["delta"] or first_delta(dataset.budget),
            beta=options["beta"],
            mechanism_name=options["mechanism"],
            options=chosen,
        )
        try:
            charged = services.releases.submit_release(
                release=release, key=uuid.uuid4(), by=operator, send=False, reason=options["reason"]
            )
        except Exception:
            release.delete()
            raise
        if charged is None:
            raise NeedsReview(
                f"The release waits for a reviewer: the organisation reviews releases above epsilon "
                f"{Organisation.current().review_above}, and this asks for {options['epsilon']}. Nothing is charged, "
                f"no data were touched, and nothing is written to {options['out']}. Once it is approved, the site's "
                f"worker runs it, and the site offers its files."
            )
        services.execution.execute_release(release_id=release.pk)
        release.refresh_from_db()
        if release.status is not ReleaseState.PUBLISHED:
            raise CommandError(f"The release is {release.shown_state}: {release.meaning}")
        write_out(release, options["out"])
        assert release.result is not None
        receipt = release.result["receipt"]
        self.stdout.write(receipt["bound"]["sentence"])
        if plan.workload.is_counts:
            self.stdout.write(counted_in_words(receipt))
        if plan.schema.universe.own_rows and not plan.schema.universe.counts_apart:
            self.stdout.write("There are no synthetic rows unless --option rows_counted=same is given.")
        self.stdout.write(
            f"Wrote {', '.join(sorted(path.name for path in options['out'].iterdir()))} to {options['out']}"
        )

    def _declare(self, dataset: Dataset, schema: Schema, options: dict[str, Any], operator: User) -> None:
        """Columns, protection and, for a table never seen before, the budget."""
        services.datasets.declare_schema_columns(dataset=dataset, schema=schema, says_impossible=True, by=operator)
        budget = services.datasets.declare_protection(
            dataset=dataset, unit=schema.unit, neighbours=schema.neighbours, by=operator
        )
        if budget.is_granted:
            self._respect_limit(budget, options)
            return
        policy = Policy(options["policy"])
        epsilon = options["budget"] or Organisation.current().default_epsilon or settings.DEFAULT_BUDGET_EPSILON
        if options["budget"] is None:
            self.stderr.write(f"No --budget: this table may spend epsilon {epsilon} in all, the default.")
        delta = "0" if policy is Policy.PURE else options["budget_delta"] or default_delta(options["delta"])
        # In one transaction, so that no reviewer is asked for what is decided already.
        with transaction.atomic():
            request = services.budgets.request_budget(
                dataset=dataset,
                epsilon=epsilon,
                delta=delta,
                policy=policy,
                reason="from the command line",
                by=operator,
                has_a_shell=True,
            )
            if not Organisation.current().is_two_person:
                request = grant_or_join(request, operator)
        if request.state != RequestState.APPROVED:
            raise NeedsReview(
                f"The budget waits for two reviewers, as the two-person rule wants: epsilon {epsilon} for this table. "
                f"Nothing is released. Once they have granted it on the site, give the same command again."
            )
        dataset.refresh_from_db()
        if dataset.budget != budget:
            self.stderr.write("This content is on the site already, so nothing new was granted.")
            self._respect_limit(dataset.budget, options)

    def _respect_limit(self, budget: Any, options: dict[str, Any]) -> None:
        """A table seen before keeps its budget: --budget can neither renew nor raise it."""
        if options["budget"] is None:
            return
        if exact(options["budget"], field="budget") != exact(budget.epsilon, field="budget"):
            self.stderr.write(
                f"This content was seen before and has a budget of epsilon {budget.epsilon}; --budget "
                f"{options['budget']} is ignored. A reviewer can grant more on the site."
            )


def said_of(error: Exception) -> str:
    """An error, with the option that says otherwise where it is about how the file is written."""
    if isinstance(error, UnreadableTable):
        return f"{error} Options such as --separator, --encoding and --decimal say how the file is written."
    if type(error) is not InvalidInput:
        return str(error)
    if error.field in FACTS:
        return in_words(error, place=f"--{error.field.replace('_', '-')}")
    return str(error) + separators(error.value, error.rule)


def grant_or_join(request: BudgetRequest, operator: User) -> BudgetRequest:
    """Grant what was asked for; where the very same rows have a budget, let them spend from that one."""
    try:
        # Undone by itself if it fails: what was asked for is still there to be decided.
        with transaction.atomic():
            return services.budgets.approve_request(request=request, by=operator, has_a_shell=True)
    except services.budgets.RowsKnown as error:
        request.refresh_from_db()
        return services.budgets.join_request(request=request, to=error.budgets[0].pk, by=operator, has_a_shell=True)


def delta_beforehand(options: Mapping[str, Any]) -> str:
    """The delta of a release where none is given and the table's is not known yet, as if it was never seen before."""
    if options["policy"] == Policy.PURE:
        return "0"
    granted = options["budget_delta"] or str(settings.DEFAULT_BUDGET_DELTA)
    return decimal_text(usual_delta(exact(granted, field="budget_delta")), places=30)


def find_or_ingest(table: Path, *, owner: User, facts: FileFacts) -> Dataset:
    """The stored copy of this content, with numbers of the same form, or a new one."""
    dataset = services.datasets.ingest_dataset(owner=owner, title=table.stem, source=table, facts=facts)
    same = Dataset.objects.filter(digest=dataset.digest, owner=owner).exclude(pk=dataset.pk).order_by("created_at")
    stored = next((each for each in same if each.read_as.number_form == dataset.read_as.number_form), None)
    if stored is None:
        return dataset
    services.datasets.discard_dataset(dataset=dataset, by=owner)
    return stored


def connection_of(table: str) -> Connection:
    """The connection of the site that a table is named by, or whose address it begins with."""
    # Spark is called so in many places. What is meant is its Spark Connect, and never the master of a cluster.
    address = re.sub("^spark://", "sc://", table.partition("#")[0])
    found = services.connections.all_connections()
    named = {each.address: each for each in found} | {each.name: each for each in found}
    if address in named and (fault := named[address].fault):
        raise CommandError(f"--table: the connection {named[address].name} is not used. It {fault}.")
    if address not in named:
        raise CommandError(
            "--table: the site has no such connection. An administrator can register it under Review, Connections, or "
            "name it in the settings CONNECTIONS and CONNECTION_NAME. The password, which is in no address, belongs "
            "into CONNECTION_NAME_PASSWORD."
        )
    return named[address]


def find_or_register(connection: Connection, table: str, *, owner: User) -> Dataset:
    """The dataset of this table, or a new one."""
    try:
        listed = services.connections.tables_of(connection)
        made = services.connections.register_table(owner=owner, title=table, listed=listed, table=table)
    except services.connections.Unavailable as error:
        raise CommandError(str(error)) from None
    before = Dataset.objects.filter(location=made.location, owner=owner).exclude(pk=made.pk).order_by("created_at")
    stored = next((each for each in before if each.catalogue == made.catalogue), None)
    if stored is None:
        return made
    services.datasets.discard_dataset(dataset=made, by=owner)
    return stored


def the_operator() -> User:
    """The account that releases from the command line belong to: whoever has a shell here is trusted with the data."""
    operator, made = User.objects.get_or_create(
        username="operator", defaults={"first_name": "Command", "last_name": "line"}
    )
    if made:
        operator.set_unusable_password()
        operator.save()
        for role in (Role.CURATOR, Role.REVIEWER):
            services.roles.give_role(person=operator, role=role, by=None)
    return operator


def default_delta(delta: str | None) -> str:
    """The table's whole delta where none is given: the setting's, or ten releases' worth if that is more."""
    if delta is None:
        return str(settings.DEFAULT_BUDGET_DELTA)
    wanted = 10 * exact(delta, field="delta")
    least = exact(settings.DEFAULT_BUDGET_DELTA, field="delta")
    return str(settings.DEFAULT_BUDGET_DELTA) if wanted <= least else f"{Decimal(delta) * 10:f}"


def read_codebook(path: Path) -> Any:
    """The schema in JSON, or in another format where the file is called so."""
    kind = path.suffix.lower()
    read = OTHER_CODEBOOKS[kind](read_text(path)) if kind in OTHER_CODEBOOKS else read_json(path)
    if not is_standard(read):
        return read
    codebook, decided = from_standard(read)
    for sentence in decided:
        print(sentence, file=sys.stderr)  # noqa: T201  the command has no output of its own yet
    return codebook


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"{path} cannot be read as text.") from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError:
        raise CommandError(f"{path} cannot be read.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not JSON: {error}") from None


def read_workload(text: str, pairs: list[str], universe: Universe) -> tuple[Question, WorkloadVersion | None]:
    """The questions of a file, or of the newest version of a saved workload, with that version."""
    if Path(text).exists():
        if pairs:
            raise InvalidInput("column", pairs[0], "belongs to a saved workload; a file names the table's own columns")
        return read_question(read_json(Path(text)), universe), None
    ensure_database()
    version = services.workloads.workload_named(text).latest
    questions = services.workloads.mapped_questions(version, universe, read_pairs("column", pairs, "NEEDED=NAME"))
    return read_question(questions, universe), version


def read_pairs(field: str, pairs: list[str], form: str) -> dict[str, str]:
    chosen = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise InvalidInput(field, pair, f"must be {form}")
        chosen[name.strip()] = value.strip()
    return chosen


def read_options(pairs: list[str], rows: str | None) -> dict[str, str]:
    chosen = read_pairs("option", pairs, "NAME=VALUE")
    if rows is not None:
        chosen["rows"] = rows
    return chosen


def write_out(release: Release, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    folder = files.folder_of(release)
    assert release.result is not None
    receipt = release.result["receipt"]
    wanted = ("answers.csv", "totals.csv", "synthetic.csv", "receipt.json")
    names = [name for name in wanted if (folder / name).exists()]
    for name in names:
        shutil.copyfile(folder / name, out / name)
    (out / DICTIONARY).write_text(archive.dictionary_of(folder, release.result))
    address = f"{settings.SITE_ADDRESS}{path_of(receipt)}"
    check = check_in_readme(release, lambda each: f"{settings.SITE_ADDRESS}{reverse('release_detail', args=[each.pk])}")
    (out / README).write_text(archive.readme_of(folder, release.result, names, address=address, check=check))
