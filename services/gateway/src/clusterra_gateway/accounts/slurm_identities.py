"""User names and uids that people and service accounts get in Slurm: derived, reserved and counted."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count

from clusterra_runtime.store.store import Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, uid_counter_key

FIRST_UID = 20001
"""The first uid of a person or a service account. Lower ones are for services, such as a cluster's operator."""
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
"""Names that no person gets. Slurm matches the name in a token with slurmdbd's users, so the name of a user with more
rights would grant those rights, whatever the uid."""


async def next_uid(store: Store, tenant: str) -> int:
    """A uid that nobody in the tenant has had, from an atomic counter."""
    counter = await store.write(Update(ACCOUNTS, uid_counter_key(tenant), add={"given": 1}))
    return FIRST_UID - 1 + int(str(counter.attributes["given"]))


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
