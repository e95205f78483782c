"""Connections: databases, folders and storage whose tables become datasets where they are."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Schema, Status

from releases import services
from releases.api.answers import answer_of_dataset
from releases.models import RegisteredConnection
from releases.models.role_rules import check_may_administer, check_may_upload, may_administer
from releases.permissions import own_group, signed_in
from releases.services.connections import Connection

router = Router()


class ConnectionIn(Schema):
    name: str
    address: str
    reads_only: bool = False


class TableIn(Schema):
    table: str
    title: str
    group: str | None = None


@router.get("/connections")
def list_connections(request: HttpRequest) -> Any:
    """The databases, folders and storage whose tables a curator may use, by name. Administrators are given all of them,
    with their addresses, where their passwords are read, and why one is not used."""
    person = signed_in(request)
    if may_administer(person):
        return [_connection(each) for each in services.connections.all_connections()]
    check_may_upload(person)
    return [_named(each) for each in services.connections.connections()]


@router.post("/connections", response={201: Any})
def register_connection(request: HttpRequest, asked: ConnectionIn) -> Any:
    """Register a database, as `postgresql://ROLE@HOST/DATABASE`, or with `mariadb` or `mysql` in its place, a Spark
    server, as `sc://HOST:PORT?use_ssl=true`, a folder of Parquet files, as `file:///FOLDER`, or storage, as
    `s3://KEY@BUCKET/PREFIX?endpoint=https://HOST`. The address holds no password. Spark and storage cannot
    be asked what this site may do there: with `reads_only` you confirm that it can only read. For administrators."""
    made = services.connections.register_connection(**asked.dict(), by=signed_in(request))
    return Status(201, _connection(made))


@router.delete("/connections/{slug:database}", response={204: None})
def remove_connection(request: HttpRequest, database: str) -> Any:
    """Remove a connection that was registered. Its datasets are refused from then on. For administrators."""
    person = signed_in(request)
    check_may_administer(person, what="removing connections")
    registered = get_object_or_404(RegisteredConnection, name=database)
    services.connections.remove_connection(connection=registered, by=person)
    return Status(204, None)


@router.get("/connections/{slug:database}/tables")
def list_tables(request: HttpRequest, database: str) -> Any:
    """The tables that a database lists, or the files of a folder or of storage, for curators."""
    check_may_upload(signed_in(request))
    return list(services.connections.tables_of(_of_site(database)).tables)


@router.post("/connections/{slug:database}/datasets", response={201: Any})
def use_table(request: HttpRequest, database: str, chosen: TableIn) -> Any:
    """Make a dataset of one of these tables. It stays where it is, and none of its rows is copied."""
    person = signed_in(request)
    check_may_upload(person)
    made = services.connections.register_table(
        owner=person,
        title=chosen.title,
        listed=services.connections.tables_of(_of_site(database)),
        table=chosen.table,
        group=own_group(person, chosen.group),
    )
    return Status(201, answer_of_dataset(made))


def _of_site(name: str) -> Connection:
    if (found := services.connections.find_connection(name)) is None:
        raise Http404
    return found


def _named(each: Connection) -> dict[str, Any]:
    return {"name": each.name, "is_folder": each.is_folder}


def _connection(each: Connection) -> dict[str, Any]:
    row = each.registered
    return {
        **_named(each),
        "address": each.shown_address,
        "why_not": each.fault,
        "password": each.password_place or None,
        "reads_only": each.reads_only,
        "registered_by": str(row.registered_by) if row is not None else None,
        "registered_at": row.registered_at.isoformat() if row is not None else None,
        "server_version": row.server_version if row is not None else None,
        "software": row.software if row is not None else None,
    }
