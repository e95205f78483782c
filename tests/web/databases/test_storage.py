"""Tables in storage that speaks S3: Parquet files below a prefix, on a server that moto runs in this process."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import pytest
from django.core.management import CommandError
from django.urls import reverse

from releases import services
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.tables import catalogue, registry, storage
from releases.engine.tables.databases import Database
from releases.engine.tables.query import TableCounts, open_table
from releases.models import Ending, EntryKind, LedgerEntry, RegisteredConnection, ReleaseState
from releases.services import reading, stored_tables
from releases.services.connections import Unavailable
from releases.services.release_inputs import Refusal
from releases.storage import addresses
from releases.storage.addresses import fault_of_address, without_secrets
from tests.conftest import REQUIRED
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import counted
from tests.web.pages import body

pytestmark = pytest.mark.django_db

#: Needs escaping wherever it is written into a URL.
SECRET = "s3cr/et+wi th@%41#"
STAYS = {"sex": ["female", "male", "male"] * 20, "age": pa.array([1, 2, 3] * 20, pa.int16()), "codes": [["a"]] * 60}


class Bucket:
    """A bucket, and what happens to those who ask for something in it."""

    def __init__(self, application):
        self.application, self.asked, self.denies, self.before = application, [], False, None

    def __call__(self, environ, start):
        signed = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], signed))
        if self.before is not None:
            self.before(environ)
        if self.denies and signed != "owner":
            start(*self.denies)
            return [b""]
        return self.application(environ, start)

    def put(self, name="stays.parquet", **columns):
        file = io.BytesIO()
        pyarrow.parquet.write_table(pa.table(columns), file)
        self.put_bytes(name, file.getvalue())

    def put_bytes(self, name, content):
        owner = self.system("owner")
        owner.create_dir("clinic")
        with owner.open_output_stream(f"clinic/ward/{name}") as sent:
            sent.write(content)

    def system(self, key):
        return pyarrow.fs.S3FileSystem(
            access_key=key,
            secret_key=SECRET,
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            allow_bucket_creation=True,
        )

    @property
    def address(self):
        return f"s3://reader@clinic/ward?endpoint=http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def served():
    moto, serving = (
        importlib.import_module(each) if REQUIRED else pytest.importorskip(each)
        for each in ("moto.server", "werkzeug.serving")
    )
    made = Bucket(moto.DomainDispatcherApplication(moto.create_backend_app))
    server = serving.make_server("127.0.0.1", 0, made, threaded=True, request_handler=_quiet(serving))
    made.port = server.port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        # As in a process that reads tables (see `runner._make`): nothing is looked for at a service of the machine.
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        thread.start()
        yield made
    server.shutdown()
    thread.join()
    server.server_close()


def _quiet(serving):
    class Quiet(serving.WSGIRequestHandler):
        def log(self, *said):
            pass

    return Quiet


@pytest.fixture
def bucket(served, settings, monkeypatch):
    served.denies, served.before = False, None
    served.put(**STAYS)
    served.asked.clear()
    settings.CONNECTIONS, settings.CONNECTIONS_READ_ONLY = {"store": served.address}, ["store"]
    monkeypatch.setenv("CONNECTION_STORE_PASSWORD", SECRET)
    yield served
    served.denies, served.before = False, None
    owner = served.system("owner")
    owner.delete_dir_contents("clinic/ward")


@pytest.fixture
def register(bucket, register_of):
    return lambda table="stays.parquet": register_of(table, connection="store")


@pytest.fixture
def queued(register, prepare, queue):
    return queue(prepare(register(), COLUMNS[1:]))


def schema_of(columns, unit=None):
    return Schema.from_json(
        {"version": 1, "unit": unit or {"kind": "row"}, "neighbours": "add_remove", "columns": columns}
    )


def returned():
    return LedgerEntry.objects.filter(kind=EntryKind.RETURN).count()


@pytest.mark.confined
def test_an_administrator_registers_storage_and_a_curator_releases_from_it(
    bucket, settings, as_, sofia, alice, prepare, queue, caplog, monkeypatch
):
    settings.CONNECTIONS = {}
    # Of another account, for whatever runs beside.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ambient")
    sent = {"name": "store", "address": bucket.address}
    refused = as_(sofia).post(reverse("connections"), sent)
    assert (refused.status_code, RegisteredConnection.objects.count()) == (400, 0)
    assert "cannot be asked what this site may do there" in body(refused)
    assert as_(sofia).post(reverse("connections"), sent | {"reads_only": "on"}).status_code == 302
    assert RegisteredConnection.objects.get().address == bucket.address
    page = reverse("database_table", args=["store"])
    as_(alice).post(page, {"table": "stays.parquet", "title": "Stays"})
    dataset = alice.datasets.get()
    assert dataset.columns == ["sex", "age"]
    release = queue(prepare(dataset, COLUMNS[1:]))
    assert services.execution.execute_release(release_id=release.pk)
    release.refresh_from_db()
    assert counted(release) == {"female": 20, "male": 40}
    assert {signed for _, _, signed in bucket.asked} == {"reader"}
    assert {method for method, _, _ in bucket.asked} == {"GET", "HEAD"}
    shown = body(as_(sofia).get(reverse("connections")))
    assert "reader@clinic/ward" in shown
    assert SECRET not in shown + caplog.text + json.dumps(dataset.catalogue) + dataset.location
    assert not settings.TABLES_DIR.exists() or not list(settings.TABLES_DIR.iterdir())


def test_an_upload_a_folder_and_storage_give_equal_counts_of_one_table(bucket, tmp_path, opens_tables):
    """Text, numbers, dates and truths with gaps, and a dictionary that differs between the parts of the file."""
    rng = np.random.default_rng(7)
    size = 5_000
    columns = {
        "person": [f"p{each}" for each in rng.integers(900, size=size)],
        "word": pa.array([("a", " b", "é", "", None)[each] for each in rng.integers(5, size=size)]).dictionary_encode(),
        "cost": pa.array([None if each % 9 == 0 else each / 4 for each in rng.integers(400, size=size)], pa.float32()),
        "paid": pa.array([Decimal(int(each)) / 100 for each in rng.integers(4_000, size=size)], pa.decimal128(9, 2)),
        "day": [date(2026, 1, 1 + int(each)) for each in rng.integers(28, size=size)],
        "at": pa.array([datetime(2026, 1, 1, int(each), tzinfo=UTC) for each in rng.integers(24, size=size)]),
        "well": pa.array(rng.integers(2, size=size).astype(bool)),
    }
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=700)
    bucket.put_bytes("table.parquet", path.read_bytes())
    made = services.reading.upload(path, tmp_path / "stored.parquet", table=services.datasets.upload_limits())
    assert made.columns == tuple(columns)
    columns_json = [
        {"name": "word", "type": "categorical", "categories": ["a", "b", "é", "other"], "outside": "other"},
        {"name": "cost", "type": "number", "edges": [0, 20, 50, 100], "decimals": 2},
        {"name": "paid", "type": "number", "edges": [0, 10, 40], "decimals": 2},
        {"name": "day", "type": "categorical", "categories": [f"2026-01-{each:02}" for each in range(1, 29)]},
        {
            "name": "at",
            "type": "categorical",
            "categories": [*(f"2026-01-01 {each:02}:00:00+00" for each in range(23)), "other"],
            "outside": "other",
        },
        {"name": "well", "type": "categorical", "categories": ["false", "true"]},
    ]
    location = f"s3://reader:x@clinic/ward?endpoint=http://127.0.0.1:{bucket.port}#table.parquet"
    for unit in ({"kind": "row"}, {"kind": "person", "id": "person", "max_rows": 2}):
        schema = schema_of(columns_json, unit)
        found = []
        for each in (str(tmp_path / "stored.parquet"), str(path), location):
            table = TableCounts(open_table(each), schema, folder=tmp_path)
            texts = table.texts("word")
            found.append(
                [*table.marginals([(name,) for name in schema.universe.names]), table.marginal(("word", "well"))]
            )
            found[-1] += [np.sort(texts.counts), *(np.sort(part) for part in table.tally(("paid",)).values)]
        assert sum(found[0][0]) > 1_000
        for other in found[1:]:
            assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found[0], other, strict=True))


def test_only_declared_columns_are_fetched_and_texts_that_are_no_utf_8_end_the_run(bucket, opens_tables, monkeypatch):
    asked = []
    read = pyarrow.parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        pyarrow.parquet.ParquetFile,
        "iter_batches",
        lambda self, *given, columns, **named: asked.append(columns) or read(self, *given, columns=columns, **named),
    )
    schema = schema_of(COLUMNS[1:])
    location = f"s3://reader:x@clinic/ward?endpoint=http://127.0.0.1:{bucket.port}#stays.parquet"
    assert TableCounts(open_table(location), schema).histogram().tolist() == [20, 40]
    assert asked
    assert all(each == ["sex"] for each in asked)
    wrong = pa.array([b"male", b"\xff"]).view(pa.string())
    bucket.put(sex=wrong, age=[1, 2])
    table = TableCounts(open_table(location), schema)
    with pytest.raises(Exception, match="UTF8"):
        table.histogram()
    # Columns that are told apart by case alone are none.
    bucket.put(sex=["male"], Age=[1], AGE=[2])
    assert open_table(location).columns == ("sex",)


@pytest.mark.parametrize("change", ["run", "object"])
def test_an_object_that_changes_during_a_run_gives_no_result_and_the_charge_stays(
    queued, bucket, until_it_ends, monkeypatch, change
):
    """Between the reading and the end of the run; and as it is opened to be read."""
    written = itertools.count(1)

    def replace():
        females = next(written)
        bucket.put(sex=["female"] * females + ["male"] * (60 - females), age=STAYS["age"])

    if change == "run":
        run = reading.run_plan

        def replaced(*given, **named):
            made = run(*given, **named)
            replace()
            return made

        monkeypatch.setattr(reading, "run_plan", replaced)
    else:
        offered = storage.ObjectTable.batches

        def replaced_before_it_is_read(*given):
            replace()
            return offered(*given)

        monkeypatch.setattr(storage.ObjectTable, "batches", replaced_before_it_is_read)
        # The version that was seen before is compared by the process that reads, too.
        monkeypatch.setattr(stored_tables.StoredTable, "refuse_if_changed", lambda self: None)
    ended = until_it_ends(queued)
    assert (ended.status, returned(), ended.ended_because) == (ReleaseState.FAILED, 0, "")


DENIED = ("403 Forbidden", [("Content-Length", "0")])


@pytest.mark.parametrize("answer", [DENIED, ("503 Slow Down", [("Content-Length", "0")])])
@pytest.mark.parametrize("is_opened", [False, True])
def test_storage_that_is_away_or_denies_costs_nothing_before_it_is_read_and_has_one_reason_afterwards(
    queued, bucket, until_it_ends, monkeypatch, answer, is_opened
):
    if is_opened:
        run = reading.run_plan

        def denied(*given, **named):
            bucket.denies = answer
            return run(*given, **named)

        monkeypatch.setattr(reading, "run_plan", denied)
    else:
        bucket.denies = answer
    ended = until_it_ends(queued)
    assert (returned(), ended.ended_because) == ((0, "") if is_opened else (1, Ending.AWAY))
    with pytest.raises(Unavailable, match="does not answer, or does not let this site sign in"):
        services.connections.tables_of(services.connections.connection_named("store"))


def test_storage_that_goes_away_after_it_has_named_the_columns_costs_nothing(
    queued, bucket, until_it_ends, monkeypatch
):
    location = services.connections.opened(queued.dataset, queued.dataset.schema)
    monkeypatch.setattr(services.connections, "opened", lambda *_, **named: location)
    bucket.denies = DENIED
    assert until_it_ends(queued).ended_because == Ending.AWAY
    assert returned() == 1


def test_a_column_that_is_gone_or_has_another_type_is_refused_before_the_charge(bucket, register, prepare, queue):
    dataset = prepare(register(), COLUMNS)
    for columns, says in (
        ({"sex": STAYS["sex"], "age": ["1"] * 60}, "has another type now: VARCHAR and not SMALLINT"),
        ({"age": STAYS["age"]}, "has no column sex any more"),
    ):
        bucket.put(**columns)
        with pytest.raises(Refusal, match=f"{says}.*Nothing was charged"):
            queue(dataset)
    bucket.put("other.parquet", **STAYS)
    bucket.system("owner").delete_file("clinic/ward/stays.parquet")
    with pytest.raises(Refusal, match=r"lists no table .* any more"):
        queue(dataset)
    assert not LedgerEntry.objects.filter(kind=EntryKind.CHARGE).exists()


def test_who_signs_in_is_who_the_address_names_and_nobody_where_it_names_none(bucket, settings, register, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ambient")
    monkeypatch.delenv("CONNECTION_STORE_PASSWORD")
    with pytest.raises(Unavailable):
        register()
    assert not bucket.asked
    settings.CONNECTIONS = {"store": bucket.address.replace("reader@", "")}
    assert not services.connections.connection_named("store").needs_secret
    register()
    assert {signed for _, _, signed in bucket.asked} == {""}


def test_the_files_directly_below_the_prefix_are_its_tables(bucket, register):
    bucket.put("inner/deep.parquet", **STAYS)
    bucket.put_bytes("notes.txt", b"x")
    bucket.put_bytes("damaged.parquet", b"PAR1 and no more")
    listed = services.connections.tables_of(services.connections.connection_named("store"))
    assert listed.tables == ("damaged.parquet", "stays.parquet")
    with pytest.raises(Unavailable):
        register("damaged.parquet")
    for table in ("inner/deep.parquet", "../ward/stays.parquet", "notes.txt"):
        with pytest.raises(InvalidInput):
            register(table)


def test_the_command_line_releases_from_storage_by_name_or_address(bucket, command):
    counts = {"female": 20, "male": 40}
    assert command("store#stays.parquet", COLUMNS[1:]) == counts
    assert command(f"{bucket.address}#stays.parquet", COLUMNS[1:]) == counts
    with pytest.raises(CommandError, match="no such connection"):
        command(f"{bucket.address.replace('ward', 'yard')}#stays.parquet")


def test_the_command_line_refuses_in_the_words_of_the_page(bucket, command, refused_alike, settings):
    with pytest.raises(CommandError, match="must be one of the tables that store lists"):
        command("store#notes.txt")
    settings.CONNECTIONS_READ_ONLY = []
    assert "store cannot be asked what this site may do there" in refused_alike("store", "stays.parquet")
    settings.CONNECTIONS_READ_ONLY = ["store"]
    bucket.denies = DENIED
    assert "store does not answer, or does not let this site sign in" in refused_alike("store", "stays.parquet")


HTTPS = "s3://key@clinic/ward?endpoint=https://store.example.org"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (HTTPS, ""),
        (f"{HTTPS}:9000&region=eu-central-1", ""),
        ("s3://clinic?endpoint=http://[::1]:9000", ""),
        ("s3://clinic?endpoint=http://plain.example.org", ""),
        (HTTPS.replace("https", "http"), "must have an endpoint by https"),
        ("s3://clinic?endpoint=http://127.0.0.1.example.org", "must have an endpoint by https"),
        (HTTPS.replace("key@", "key:hush@"), "must have no password"),
        *(
            (f"{HTTPS}{each}", "and nothing else")
            for each in ("&secret=hush", "&endpoint=https://b.org", "&region=a&region=b")
        ),
        ("s3://key@clinic/ward", "must name the endpoint once"),
        *(
            (f"s3://clinic?endpoint={each}", "endpoint")
            for each in ("https://u:hush@h", "https://h/p", "h", "https://h:99999")
        ),
        *((HTTPS.replace("/ward", each), "prefix") for each in ("/", "/ward/", "/a//b", "/a/../b", "/a%2fb", "/a b")),
        (HTTPS.replace("clinic", "Clinic"), "must be s3://KEY@BUCKET/PREFIX"),
        (HTTPS.replace("clinic", "clinic:80"), "must be s3://KEY@BUCKET/PREFIX"),
        (f"{HTTPS}#stays.parquet", "must name no table"),
        ("bigquery://reader@project/clinic", "is of a kind of databases for which this version has no driver"),
        ("oracle://reader@db.example.org/clinic", "must be file:///FOLDER or postgresql://"),
    ],
)
def test_an_address_names_one_endpoint_and_holds_no_secret(settings, address, says):
    settings.CONNECTABLE_HTTP_HOSTS = ["plain.example.org"]
    fault = fault_of_address("store", address)
    assert says in fault
    assert bool(says) == bool(fault)
    assert "hush" not in fault + without_secrets(address)


def test_a_kind_says_everything_and_no_place_of_another_kind_is_read(opens_tables):
    """So a new kind is in each of these, or is refused."""
    assert {each.title for each in registry.KINDS.values()} == {"folder", "database", "storage"}
    files = {each for each in registry.KINDS.values() if not isinstance(each, Database)}
    assert set(addresses._FAULTS) == files
    for refused in (open_table, catalogue.tables, catalogue.columns, lambda each: reading._network(each)):
        with pytest.raises(InvalidInput, match="must be a file"):
            refused("oracle://reader@db/clinic#patients")
