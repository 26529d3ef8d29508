"""Whoever jobs are submitted and files are copied for: the caller of a request, or the owner of a schedule."""

from dataclasses import dataclass
from typing import Protocol

from clusterra_contracts.identity import SlurmUser

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Role, Scope, includes
from clusterra_gateway.http.requests.errors import Forbidden


class Person(Protocol):
    """A member, and who they are on a cluster."""

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
