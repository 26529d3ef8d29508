"""What of slurmrestd is not passed on, and why."""

from dataclasses import dataclass
from typing import override

from aiohttp import web
from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.http.requests.errors import Forbidden, NotFound
from clusterra_gateway.http.requests.parameters import Parameter
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.slurmrestd.route import RestRoute

OPERATION = Parameter("operation", "path", "^.{1,200}$", "Any other operation of slurmrestd.")

_WORKERS = "workers are made and removed as jobs need them, and nobody else changes nodes"
_OPERATORS = "it belongs to those who operate the cluster"
_OTHERS = "it tells of other people"
_ACCOUNTING = "accounting is set up by those who operate the cluster"
REASONS: dict[tuple[str, str], str] = {
    ("slurm", "conf"): _OPERATORS,
    ("slurm", "reconfigure"): _OPERATORS,
    ("slurm", "partition"): _OPERATORS,
    ("slurm", "partitions"): _OPERATORS,
    ("slurm", "reservation"): _OPERATORS,
    ("slurm", "reservations"): _OPERATORS,
    ("slurm", "node"): _WORKERS,
    ("slurm", "nodes"): _WORKERS,
    ("slurm", "new"): _WORKERS,
    ("slurm", "shares"): _OTHERS,
    ("slurm", "resources"): "the job's own record has what it holds",
    ("slurm", "jobs"): "`jobs/state` tells of other people's jobs; `jobs/` has the states of yours",
    ("slurm", "job"): "an allocation without a script is not accepted; to queue a job again, use POST jobs/requeue: a "
    "GET must not change anything",
    ("slurmdb", "users"): _OTHERS,
    ("slurmdb", "user"): _OTHERS,
    **{
        ("slurmdb", name): _ACCOUNTING
        for name in (
            *("account", "accounts", "accounts_association", "association", "associations", "cluster", "clusters"),
            *("conf", "config", "diag", "instance", "instances", "job", "jobs", "qos", "tres", "users_association"),
            *("wckey", "wckeys"),
        )
    },
}
"""Why an operation is not passed on, by its first word."""


@dataclass(frozen=True)
class RefusedRoute(RestRoute):
    """The route of everything that is not passed on, whatever its query."""

    any_query: bool = True

    @property
    @override
    def pattern(self) -> str:
        return self.path.replace("{operation}", "{operation:.+}")


@dataclass(frozen=True)
class Refusal:
    """Refuses operations of slurmrestd by their names: those in the path, or the one that is given."""

    family: str
    operation: str = ""

    async def __call__(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Answers 403 with the reason for what slurmrestd has and we do not pass on, and 404 for anything else."""
        operation = self.operation or request.match_info["operation"]
        reason = REASONS.get((self.family, operation.partition("/")[0]))
        shown = f"{request.method} {self.family}/{operation[:100]}"
        if reason is None:
            raise NotFound(f"{shown}: slurmrestd has no such operation")
        raise Forbidden(f"{shown} is not passed on: {reason}")
