"""Derives Slurm user names from an e-mail address, the shortest first."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count

from clusterra_gateway.accounts.reserved_names import RESERVED

MAX_LENGTH = 31
"""The longest `UserName`."""


def base_name(email: str) -> str:
    """The local part of an address as a valid user name: lower-case ASCII, with `-` for all other characters."""
    local = email.rpartition("@")[0].partition("+")[0]
    plain = unicodedata.normalize("NFKD", local).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-")
    if not name or not re.match(r"[a-z_]", name):
        name = f"u{name}"
    return name[:MAX_LENGTH].rstrip("-")


def names_for(email: str) -> Iterator[str]:
    """The names to try for this person, in order: `ada`, `ada-2`, `ada-3`, ... without reserved ones."""
    base = base_name(email)
    if base not in RESERVED:
        yield base
    for number in count(2):
        suffix = f"-{number}"
        yield f"{base[: MAX_LENGTH - len(suffix)]}{suffix}"
