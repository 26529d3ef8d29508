"""From an e-mail address to the Slurm user names a person may get, the nicest first."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count

MAX_LENGTH = 31
"""The longest `UserName`."""

RESERVED = frozenset(
    {
        *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data"),
        *("backup", "list", "irc", "gnats", "nobody", "_apt", "systemd-network", "messagebus", "sshd", "mysql"),
        *("munge", "slurm", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurmuser"),
        *("operator", "admin", "administrator", "clusterra", "all", "none"),
    }
)
"""Never given to a person: Slurm matches a token's name with slurmdbd's users, so that the name of one with more
rights would hand those over, whatever the uid says."""


def base_name(email: str) -> str:
    """The local part as a user name: lower case ASCII, dots and other signs as `-`, always valid."""
    local = email.rpartition("@")[0].partition("+")[0]
    plain = unicodedata.normalize("NFKD", local).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-")
    if not name or not re.match(r"[a-z_]", name):
        name = f"u{name}"
    return name[:MAX_LENGTH].rstrip("-")


def names_for(email: str) -> Iterator[str]:
    """All names for this person in the order to try them: `ada`, `ada-2`, `ada-3`, ... without reserved ones."""
    base = base_name(email)
    if base not in RESERVED:
        yield base
    for number in count(2):
        suffix = f"-{number}"
        yield f"{base[: MAX_LENGTH - len(suffix)]}{suffix}"
