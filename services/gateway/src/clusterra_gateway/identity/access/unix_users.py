"""Who a member is on a cluster. `directory` knows the maps of the sites, and decides it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.store import Write

from clusterra_gateway.accounts.records import Member


@dataclass(frozen=True, slots=True)
class UnixUser:
    """Who a member is on a cluster. `user` is None where they are nobody there, and `reason` says why."""

    user: SlurmUser | None
    reason: str = ""


class UnixUsers(Protocol):
    """The Unix users of members."""

    async def of(self, member: Member, binding: ClusterBinding) -> UnixUser:
        """The user of a member on a cluster of their tenant. Raises StoreError."""
        ...

    async def by_source(
        self, member: Member, clusters: Mapping[ClusterRef, ClusterBinding]
    ) -> dict[str | None, SlurmUser]:
        """The member's Unix user by identity source, for all sources of the tenant's clusters.

        The key None stands for Clusterra's own uids. A source that does not know the member is absent.

        Raises StoreError.
        """
        ...


class Deactivations(Protocol):
    """Whom a tenant's directory has deactivated."""

    async def deactivated(self, tenant: str, address: str) -> bool:
        """Whether the directory says that the person with this address may not sign in. Raises StoreError."""
        ...

    async def admission(self, tenant: str, address: str) -> Write | None:
        """The write that a transaction needs which makes the person with this address a member. Raises StoreError.

        It fails if the directory changes the person at the same moment. None where the directory has deactivated them.
        """
        ...
