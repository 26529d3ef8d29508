"""A route for clients of slurmrestd: their way to send a token, and their shape of errors."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, override

from aiohttp import web
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel

from clusterra_gateway.http.answers.problems import request_error_of
from clusterra_gateway.http.requests.errors import NotFound, RequestError, Unauthenticated, Unavailable
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
        return await self.access.owner(token.strip())

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
