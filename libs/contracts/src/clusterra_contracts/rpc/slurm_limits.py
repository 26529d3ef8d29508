"""`slurm.<tenant>.<cluster>.block-submits`: whose jobs slurmdbd's associations are to refuse."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import Wire

MAX_BLOCKED = 1000


class BlockSubmits(Wire):
    """Have Slurm refuse new jobs of these users and accounts, and accept those of all others again.

    It is the whole wanted state, so a repetition changes nothing. Only for a cluster whose binding says that its
    accounting is enforced; `users` alone also for one where Clusterra keeps the associations.
    """

    schema_name: ClassVar[str] = "slurm.block-submits.v1"

    users: Annotated[tuple[str, ...], Field(max_length=MAX_BLOCKED)] = ()
    accounts: Annotated[tuple[str, ...], Field(max_length=MAX_BLOCKED)] = ()
    everybody: bool = False
    """The whole cluster, by the association of its root account."""
