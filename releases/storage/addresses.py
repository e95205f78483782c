"""Addresses of databases and folders that the settings name: which of them the site reads."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from django.conf import settings


def fault_of(name: str, address: str) -> str:
    """What is wrong with a connection of the settings, so that nothing is read by it; empty where nothing is."""
    try:
        parts = urlsplit(address)
        port = parts.port or 5432
    except ValueError:
        return "must be an address whose host and port can be read"
    if not re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
        return "is no name: it begins with a small letter; then come small letters, digits and _"
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
