"""Addresses of databases, folders and storage: which of them the site reads. Their secrets: where it reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from django.conf import settings

from releases.engine.errors import InvalidInput
from releases.engine.tables.databases import Database
from releases.engine.tables.places import FOLDER, STORAGE, USUAL_REGION, Secret
from releases.engine.tables.registry import KINDS, WITHOUT_SESSION, kind_of
from releases.engine.tables.servers.spark import SPARK


class Signed(str):
    """An address with its password. What shows it, or a value that holds it, as a page about an error does, shows it
    without. The process that reads gets a plain text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(without_secrets(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def fault_of_name(name: str) -> str:
    """What is wrong with the name of a connection; empty where nothing is."""
    if re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
        return ""
    return "is no name: it begins with a small letter; then come small letters, digits and _"


def fault_of_registered(address: str) -> str:
    """What is wrong, beside `fault_of`, with an address that was not named in the settings; empty where nothing is."""
    parts, kind = urlsplit(address), kind_of(address)
    if kind is FOLDER:
        folder = Path(parts.path).resolve()
        if any(folder.is_relative_to(Path(each).resolve()) for each in settings.CONNECTABLE_FOLDERS):
            return ""
        allowed = ", ".join(settings.CONNECTABLE_FOLDERS) or "none"
        return f"must be one of the folders that the setting CONNECTABLE_FOLDERS allows, or below one; it has {allowed}"
    if isinstance(kind, Database) and needs_secret(address) and not kind.guard:
        return "is of a kind whose servers read the password, so only the settings may name it"
    return "must name one host" if "," in (parts.hostname or "") else ""


def needs_secret(address: str) -> bool:
    """Whether nothing is read without a secret, also of an address that has a fault."""
    scheme, _, rest = address.partition("://")
    kind = KINDS.get(scheme)
    if kind is None or kind.secret is Secret.NONE:
        return False
    return kind.secret is Secret.ALWAYS or "@" in rest


def without_secrets(address: str) -> str:
    """What somebody typed as an address, without what could be a password."""
    scheme, separator, rest = address.partition("://")
    if scheme == "file":
        return address
    if not separator:
        scheme, rest = "", address
    signs_in, at, where = rest.rpartition("@")
    if "?" in signs_in:
        # Which of the two signs belongs to a password cannot be said.
        where = ""
    # Spark writes its parameters, a token among them, behind semicolons.
    where, mark, options = where.partition(";")[0].partition("?")
    harmless = KINDS[scheme].options if scheme in KINDS else ()
    kept = "&".join(each for each in options.split("&") if each.startswith(harmless))
    role = re.split("[:/?@]", signs_in)[0]
    return f"{scheme}{separator}{role}{at}{where}{mark if kept else ''}{kept}"


def password_of(name: str) -> str:
    """The password of a connection; empty where there is none."""
    return next((found for _, found in _passwords(name) if found), "")


def place_of_password(name: str) -> str:
    """Where the password of a connection is read, in words; empty where there is none."""
    return next((place for place, found in _passwords(name) if found), "")


def places_of_password(name: str) -> list[str]:
    """All the places where the password of a connection may be, in words."""
    return [place for place, _ in _passwords(name)]


def _passwords(name: str) -> Iterator[tuple[str, str]]:
    variable = f"CONNECTION_{name.upper()}_PASSWORD"
    yield f"the file that {variable}_FILE names", _text_of(os.environ.get(f"{variable}_FILE", ""))
    yield f"the variable {variable}", os.environ.get(variable, "")
    if settings.SECRETS_DIR:
        path = f"{settings.SECRETS_DIR}/{variable}"
        yield f"the file {path}", _text_of(path)


def _text_of(path: str) -> str:
    """Empty of a file that is not there or cannot be read."""
    try:
        return Path(path).read_text().rstrip("\r\n") if path else ""
    except (OSError, UnicodeDecodeError):
        return ""


def fault_of(name: str, address: str) -> str:
    """What is wrong with a connection, so that nothing is read by it; empty where nothing is."""
    return fault_of_name(name) or fault_of_address(name, address)


def fault_of_address(name: str, address: str) -> str:
    """What is wrong with the address of a connection; empty where nothing is."""
    try:
        parts = urlsplit(address)
        if parts.fragment:
            return "must name no table"
        if parts.password is not None:
            return f"must have no password; set CONNECTION_{name.upper()}_PASSWORD or ..._PASSWORD_FILE"
        kind = kind_of(address)
        return _fault_of_database(kind, parts) if isinstance(kind, Database) else _FAULTS[kind](parts)
    except InvalidInput:
        if parts.scheme in WITHOUT_SESSION:
            return "is of a kind of databases for which this version has no driver"
        return f"must be {' or '.join(each.form for each in KINDS.values())}"
    except ValueError:
        return "must be an address whose host and port can be read"


def _fault_of_folder(parts: SplitResult) -> str:
    if parts.netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
        return f"must be {FOLDER.form}, which begins with / and does not end with it"
    own = (Path(settings.DATA_DIR), Path(settings.TABLES_DIR), Path(settings.RELEASES_DIR))
    folder = Path(parts.path).resolve()
    # The tables in it have budgets already, of which a second would know nothing.
    return "is the site's own folder" if any(folder.is_relative_to(each.resolve()) for each in own) else ""


def _fault_of_database(kind: Database, parts: SplitResult) -> str:
    if not kind.is_of_form(parts):
        return f"must be {kind.form}"
    # Others would name another host, database or role than the address does, or a password.
    given = sorted(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if others := [name for name in given if not name.startswith(kind.options)]:
        allowed = "".join(f" but those that begin with {each}" for each in kind.options)
        return f"must have no parameter{allowed}; it has {', '.join(others)}"
    if not kind.is_installed:
        return f"needs the package {kind.driver}, which is not installed here"
    if kind is SPARK and not parts.query and not _may_be_plain(str(parts.hostname)):
        return "must end with ?use_ssl=true; the setting CONNECTABLE_HTTP_HOSTS names no such host"
    site = settings.DATABASES["default"]
    own_place = (site.get("HOST"), int(site.get("PORT") or 5432), site.get("NAME"))
    its_place = (parts.hostname, parts.port or kind.port, parts.path[1:])
    return "is the site's own database" if its_place == own_place else ""


def _fault_of_storage(parts: SplitResult) -> str:
    # Nothing in it is written in two ways, so that two addresses of one place are seen to be of one.
    if not re.fullmatch(r"([\w.+=-]+@)?[a-z0-9][a-z0-9.-]+[a-z0-9]", parts.netloc, re.ASCII):
        return f"must be {STORAGE.form}, with or without KEY@"
    steps = parts.path.split("/")[1:]
    if not all(re.fullmatch(r"[\w.=+-]+", each, re.ASCII) and each.strip(".") for each in steps):
        return "must have a prefix of letters, digits and . _ = + - between single /, none at its end"
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    if not {"endpoint"} <= options.keys() <= {"endpoint", "region"} or len(options) != len(given):
        return "must name the endpoint once, perhaps the region, and nothing else"
    if not re.fullmatch("[a-z0-9-]+", options.get("region", USUAL_REGION)):
        return "must have a region of small letters, digits and -"
    return _fault_of_endpoint(options["endpoint"])


def _fault_of_endpoint(endpoint: str) -> str:
    found = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", endpoint)
    if found is None:
        return "must have as its endpoint https://HOST or https://HOST:PORT"
    scheme, host, port = found.groups()
    if port is not None and int(port[1:]) not in range(1, 1 << 16):
        return "must have an endpoint whose port is at most 65535"
    if scheme == "https" or _may_be_plain(host):
        return ""
    return "must have an endpoint by https; the setting CONNECTABLE_HTTP_HOSTS names no such host for http"


def _may_be_plain(host: str) -> bool:
    return host in settings.CONNECTABLE_HTTP_HOSTS or _is_this_machine(host)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


#: What is wrong with an address of files, by its kind: one of a kind that is not here is refused.
_FAULTS = {FOLDER: _fault_of_folder, STORAGE: _fault_of_storage}
