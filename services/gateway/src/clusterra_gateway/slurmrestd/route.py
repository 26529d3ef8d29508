"""A route for clients of slurmrestd: their way to send a token, their shape of errors, and what is refused, and why."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, override

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel

from clusterra_gateway.http.answers.problems import request_error_of
from clusterra_gateway.http.requests.errors import Forbidden, NotFound, RequestError, Unauthenticated, Unavailable
from clusterra_gateway.http.requests.parameters import Parameter
from clusterra_gateway.http.routes.route import SecurityScheme
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, ClusterRoute, PrivateRoute
from clusterra_gateway.slurmrestd.answers import RestAnswer, error_answer

TOKEN_HEADER = "X-SLURM-USER-TOKEN"  # noqa: S105
"""slurmrestd's own header. Its companion, X-SLURM-USER-NAME, is ignored: the token says who calls."""
SLURM = f"{CLUSTER}/slurm/{{version}}"
SLURMDB = f"{CLUSTER}/slurmdb/{{version}}"
VERSIONS = ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45")
"""The versions of slurmrestd's API that pass. A cluster serves those of its Slurm."""
VERSION = Parameter(
    "version", "path", r"^v0\.0\.4[2-5]$", "A version of slurmrestd's API that the cluster serves.", chosen=True
)


@dataclass(frozen=True)
class RestRoute(ClusterRoute):
    """A route of slurmrestd. Its errors have slurmrestd's shape, and the `empty` fields of its answers."""

    security: ClassVar[tuple[SecurityScheme, ...]] = (
        *PrivateRoute.security,
        SecurityScheme("slurm_token", {"type": "apiKey", "in": "header", "name": TOKEN_HEADER}),
    )
    error: ClassVar[type[BaseModel] | None] = RestAnswer

    _: KW_ONLY
    empty: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    """The public description, where it is not that of the handler."""

    @property
    @override
    def description(self) -> str:
        return self.text or super().description

    @property
    @override
    def refuses(self) -> frozenset[HTTPStatus]:
        # What is not passed on meets no state of Slurm.
        of_slurm = {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}
        return super().refuses - (of_slurm if isinstance(self.handler, Refusal) else frozenset())

    @property
    @override
    def has_head(self) -> bool:
        return False

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await super().serve(request)
        except RequestError as error:
            return error_answer(request, error, self.empty)
        except RpcFailed as failed:
            return error_answer(request, request_error_of(failed.error), self.empty)
        except (StoreUnavailable, BusUnavailable):
            unavailable = Unavailable("a part of the gateway does not answer now", hint="try again")
            return error_answer(request, unavailable, self.empty)

    @override
    async def _caller(self, request: web.Request) -> Caller:
        token = request.headers.get(TOKEN_HEADER)
        if token is None:
            return await self.access.caller(request)
        if "Authorization" in request.headers:
            raise Unauthenticated(
                f"the request has a token in {TOKEN_HEADER} and one in Authorization", hint="send one of them"
            )
        return await self.access.owner(request, token.strip())

    @override
    async def _handle_for(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        caller, ref = await self.access.on_cluster(request, caller)
        version = request.match_info["version"]
        if version not in VERSIONS:
            raise NotFound(f"the API version {version[:20]} is not served", hint=f"send one of {', '.join(VERSIONS)}")
        return await self.handler(request, caller, ref)


def spellings(path: str) -> tuple[str, ...]:
    """The other spelling of a path: slurmrestd takes each with and without a slash at its end."""
    return (path.removesuffix("/"),) if path.endswith("/") else (f"{path}/",)


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
