"""Who a member is on a cluster, and for whom jobs are submitted.

The room `directory` decides who a member is there, by the maps of the sites, and whom a tenant's directory has
deactivated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.store import Write

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Role, Scope, includes
from clusterra_gateway.http.requests.errors import Forbidden


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


class Person(Protocol):
    """Whoever jobs are submitted and files are copied for: a caller, or the absent owner of a schedule."""

    @property
    def member(self) -> Member:
        """Their record."""
        ...

    @property
    def slurm_user(self) -> SlurmUser:
        """The user as whom their jobs run. Raises Forbidden where they are nobody on the cluster."""
        ...

    def require(self, role: Role, scope: Scope) -> None:
        """Raises Forbidden where they lack the role, or their credential the scope."""
        ...


@dataclass(frozen=True)
class AbsentOwner:
    """The owner of something that is submitted without a request of theirs, such as a schedule. They have no scopes."""

    member: Member
    slurm_user: SlurmUser

    def require(self, role: Role, scope: Scope) -> None:
        """Raises Forbidden where they lack the role. The scope was asked for when they made it."""
        if not includes(self.member.role, role):
            raise Forbidden(f"{scope} needs the role {role}, and the owner's is {self.member.role}")


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
