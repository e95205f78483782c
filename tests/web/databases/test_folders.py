"""Tables in a folder of Parquet files that the settings name."""

import os
from datetime import date

import pyarrow as pa
import pyarrow.parquet
import pytest
from django.core.management import CommandError

from releases import checks, services
from releases.engine.errors import InvalidInput
from releases.models import Dataset, EntryKind, LedgerEntry, ReleaseState
from releases.services import reading
from releases.services.connections import Unavailable
from tests.web.conftest import COLUMNS
from tests.web.databases.conftest import counted


@pytest.fixture
def folder(tmp_path, settings):
    made = tmp_path / "share"
    made.mkdir()
    settings.CONNECTIONS = {"share": f"file://{made}"}
    return made


def write(path, **columns):
    """As a whole, by renaming."""
    beside = path.with_suffix(".new")
    pyarrow.parquet.write_table(pa.table(columns), beside)
    beside.rename(path)


@pytest.fixture
def stays(folder):
    columns = {
        "sex": ["female", "male", "male"] * 20,
        "age": pa.array([1, 2, 3] * 20, pa.int16()),
        "cost": pa.array([1.5] * 60, pa.float64()),
        "day": [date(2026, 1, 1)] * 60,
        "codes": [["a"]] * 60,
        "parts": [{"a": 1}] * 60,
    }
    write(folder / "stays.parquet", **columns)
    return folder / "stays.parquet"


@pytest.fixture
def register(folder, register_of):
    return lambda table="stays.parquet": register_of(table, connection="share")


@pytest.fixture
def queued(register, stays, prepare, queue):
    return queue(prepare(register(), COLUMNS[1:]))


@pytest.mark.confined
def test_a_file_of_a_folder_is_counted_where_it_is(queued, settings):
    assert queued.dataset.columns == ["sex", "age", "cost", "day"]
    assert services.execution.execute_release(release_id=queued.pk)
    queued.refresh_from_db()
    assert counted(queued) == {"female": 20, "male": 40}
    assert not settings.TABLES_DIR.exists() or not list(settings.TABLES_DIR.iterdir())


def test_a_file_that_changes_while_it_is_read_gives_no_result_and_the_charge_stays(
    queued, stays, until_it_ends, monkeypatch
):
    run = reading.run_plan

    def replaced(*given, **named):
        made = run(*given, **named)
        write(stays, sex=["female"])
        return made

    monkeypatch.setattr(reading, "run_plan", replaced)
    assert until_it_ends(queued).status is ReleaseState.FAILED
    assert not LedgerEntry.objects.filter(kind=EntryKind.RETURN).exists()


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_file_that_is_gone_or_became_a_link_out_of_its_folder_costs_nothing(
    queued, stays, tmp_path, until_it_ends, is_linked
):
    stays.unlink()
    if is_linked:
        write(tmp_path / "elsewhere.parquet", sex=["male"])
        os.symlink(tmp_path / "elsewhere.parquet", stays)
    until_it_ends(queued)
    assert LedgerEntry.objects.filter(kind=EntryKind.RETURN).count() == 1


def test_the_command_line_releases_from_a_file_of_a_folder_by_name_or_address(folder, stays, command):
    for named in ("share", f"file://{folder}"):
        assert command(f"{named}#stays.parquet", COLUMNS[1:]) == {"female": 20, "male": 40}
    with pytest.raises(CommandError, match="must be one of the tables that share lists"):
        command("share#link.parquet")


def test_the_command_line_says_of_a_folder_that_is_gone_what_the_page_says(folder, refused_alike):
    folder.rmdir()
    assert "share does not answer" in refused_alike("share", "stays.parquet")


def test_a_folder_offers_its_own_files_alone(folder, stays, tmp_path, register):
    write(tmp_path / "elsewhere.parquet", sex=["male"])
    os.symlink(tmp_path / "elsewhere.parquet", folder / "link.parquet")
    (folder / "inner").mkdir()
    write(folder / "inner" / "other.parquet", sex=["male"])
    (folder / "damaged.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Unavailable):
        register("damaged.parquet")
    for table in ("link.parquet", "inner/other.parquet", "../elsewhere.parquet"):
        with pytest.raises(InvalidInput):
            register(table)
    assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        # Its tables have budgets already.
        *((f"file://OWN{inside}", "is the site's own") for inside in ("", "/tables", "/releases/one")),
        *((each, "") for each in ("file://srv/tables", "file:///srv/tables/", "file:")),
    ],
)
def test_no_folder_of_the_site_s_own_and_none_that_is_no_folder_can_be_named(settings, tmp_path, address, says):
    settings.DATA_DIR = tmp_path
    settings.CONNECTIONS = {"share": address.replace("OWN", str(tmp_path))}
    (found,) = checks.connections_are_named_without_passwords(None)
    assert (found.id, says in found.msg) == ("releases.E021", True)
