"""Addresses of databases and folders: which of them the site reads. Their passwords: where it reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings


def fault_of_name(name: str) -> str:
    """What is wrong with the name of a connection; empty where nothing is."""
    if re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
        return ""
    return "is no name: it begins with a small letter; then come small letters, digits and _"


def fault_of_registered(address: str) -> str:
    """What is wrong, beside `fault_of`, with an address that was not named in the settings; empty where nothing is."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        folder = Path(parts.path).resolve()
        if any(folder.is_relative_to(Path(each).resolve()) for each in settings.CONNECTABLE_FOLDERS):
            return ""
        allowed = ", ".join(settings.CONNECTABLE_FOLDERS) or "none"
        return f"must be one of the folders that the setting CONNECTABLE_FOLDERS allows, or below one; it has {allowed}"
    return "must name one host" if "," in (parts.hostname or "") else ""


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
    where, mark, options = where.partition("?")
    kept = "&".join(each for each in options.split("&") if each.startswith("ssl"))
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
        port = parts.port or 5432
    except ValueError:
        return "must be an address whose host and port can be read"
    if parts.fragment:
        return "must name no table"
    if parts.scheme == "file":
        if parts.hostname or not parts.path.startswith("/") or parts.path.endswith("/"):
            return "must be file:///FOLDER, which begins with / and does not end with it"
        own = (Path(settings.DATA_DIR), Path(settings.TABLES_DIR), Path(settings.RELEASES_DIR))
        folder = Path(parts.path).resolve()
        # The tables in it have budgets already, of which a second would know nothing.
        return "is the site's own folder" if any(folder.is_relative_to(each.resolve()) for each in own) else ""
    if parts.scheme != "postgresql" or not parts.hostname or not parts.username or not parts.path.strip("/"):
        return "must be postgresql://ROLE@HOST/DATABASE or file:///FOLDER"
    if parts.password is not None:
        return f"must have no password; set CONNECTION_{name.upper()}_PASSWORD or ..._PASSWORD_FILE"
    # Others would name another host, database or role than the address does, or a password.
    if others := sorted(name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name[:3] != "ssl"):
        return f"must have no parameter but those of sslmode and its kin; it has {', '.join(others)}"
    site = settings.DATABASES["default"]
    own_place = (site.get("HOST"), int(site.get("PORT") or 5432), site.get("NAME"))
    return "is the site's own database" if own_place == (parts.hostname, port, parts.path[1:]) else ""
