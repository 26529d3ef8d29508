"""Quotas, what is used of them, and reservations, as models of items of the accounts table."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from clusterra_contracts.identity import Id, Moment
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.requests.errors import Unavailable

Mode = Literal["warn", "block", "block_and_kill"]
"""What happens beyond the ceiling. `warn`: the answer of a submit warns. `block`: a submit is refused.
`block_and_kill`: running and waiting jobs are cancelled, too, the newest first."""

ScopeKind = Literal["user", "account", "tenant"]

MAX_MICRO_USD = 10**15
"""A billion US dollars."""


class QuotaScope(BaseModel):
    """Whose jobs a quota is for: a user or an account of Slurm by its name, or all of the tenant."""

    model_config = ConfigDict(frozen=True)

    kind: ScopeKind
    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]

    def __str__(self) -> str:
        return f"{self.kind}#{self.name}"


MAX_SUBJECT = 70
"""How much of a scope is in the id of an event, which has 200 characters at most."""


def subject_of(scope: QuotaScope) -> str:
    """What an event about the limit of a scope is about."""
    return f"{scope.kind}:{scope.name}"[:MAX_SUBJECT]


def month_of(at: datetime) -> str:
    """The month that a job which is submitted at this moment counts in."""
    return f"{at:%Y-%m}"


class MonthlyLimit(Record):
    """What the jobs of a scope may or should cost in a month (UTC)."""

    scope: QuotaScope
    limit_micro_usd: Annotated[int, Field(ge=0, le=MAX_MICRO_USD)]
    set_by: str
    set_at: Moment


class Quota(MonthlyLimit):
    """A limit on the cost of a month."""

    mode: Mode
    buffer_percent: Annotated[int, Field(ge=0, le=1000)]

    @property
    def ceiling_micro_usd(self) -> int:
        """The limit with its buffer: up to here, jobs are accepted."""
        return self.limit_micro_usd * (100 + self.buffer_percent) // 100


@dataclass(frozen=True)
class Quotas:
    """The quotas of a tenant."""

    readable: tuple[Quota, ...]
    unreadable: tuple[QuotaScope, ...]
    """The scopes of quotas that cannot be read, whose limits are unknown. A quota of an unknown kind counts for
    nobody."""

    def counting(self, scopes: Collection[QuotaScope]) -> tuple[Quota, ...]:
        """The quotas of these scopes. Raises Unavailable where one of them cannot be read."""
        if blind := set(scopes).intersection(self.unreadable):
            names = ", ".join(sorted(f"{scope.kind} {scope.name}" for scope in blind))
            raise Unavailable(f"the quota of the {names} cannot be read", hint="ask an admin to set or remove it")
        return tuple(quota for quota in self.readable if quota.scope in scopes)


class Reservation(Record):
    """The projected cost of a job, which counts as used until the job has ended and its real cost is known."""

    id: str
    tenant: Id
    cluster: Id
    month: str
    """The month that it counts in, such as `2026-11`: the one of the submit."""
    scopes: tuple[QuotaScope, ...]
    micro_usd: int
    user: str
    made_at: Moment
    job_id: str = ""
    """Empty until the answer of Slurm is known."""
    grown_at: Moment | None = None
    """When more was reserved for the job than was left: its record, as it ran, cost more than its submit."""

    @property
    def newest_at(self) -> Moment:
        """Since when the job takes what it takes. A quota kills the newest first: not those who came into its room."""
        return self.grown_at or self.made_at
