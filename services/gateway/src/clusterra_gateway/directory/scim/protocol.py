"""How SCIM speaks over HTTP: its routes, its media type, its errors.

Its routes are for the key of a service account that may do nothing else.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, override

import orjson
import structlog
from aiohttp import ETag, web
from clusterra_contracts.wrong_values import summary
from clusterra_runtime.keyed_turns import KeyedTurns
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel, ValidationError
from scim2_models import BaseModel as ScimModel
from scim2_models import Context, Error, ResponseParameters, SCIMException

from clusterra_gateway.accounts.roles import Role, Scope
from clusterra_gateway.directory.scim.resources import Unreadable
from clusterra_gateway.http.answers.problems import RETRY_AFTER_SECONDS, STATUS
from clusterra_gateway.http.answers.responses import COMPRESSED_ON_THREAD_FROM_BYTES, NO_STORE
from clusterra_gateway.http.requests.errors import (
    BadUpstream,
    Forbidden,
    NotFound,
    RequestError,
    TooManyRequests,
    Unavailable,
)
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CallerRoute

log = structlog.get_logger()

SCIM = "/v1/tenants/{tenant_id}/scim/v2"
TENANT_ID = Parameter("tenant_id", "path", "^[a-z0-9][a-z0-9-]{0,38}$")
RESOURCE_ID = Parameter("resource_id", "path", "^[0-9a-f]{32}$")
TYPE_NAME = Parameter("type_name", "path", "^(User|Group)$")
SCHEMA_ID = Parameter("schema_id", "path", "^urn:[A-Za-z0-9:._-]{1,200}$")
SCOPE: Scope = "scim"
MEDIA_TYPE = "application/scim+json"
MAX_DETAIL = 500
AT_ONCE = 2
"""The requests of one tenant's directory that are answered at a time: one may be about thousands of users."""
MAX_WAITING = 98
"""How many more requests of a directory wait for their turns. Further ones are 429."""


def _too_many(_present: int) -> TooManyRequests:
    return TooManyRequests("too many requests of your directory are under way", hint="wait for their answers")


TURNS = KeyedTurns[str](AT_ONCE, MAX_WAITING, _too_many)
"""By tenant, in this process."""


@dataclass(frozen=True)
class ScimRoute(CallerRoute):
    """A route below `/v1/tenants/{tenant_id}/scim/v2`. No handler can reach another tenant's resources."""

    security: ClassVar[tuple[SecurityScheme, ...]] = (SecurityScheme("bearer", {"type": "http", "scheme": "bearer"}),)
    error: ClassVar[type[BaseModel] | str | None] = Error
    error_type: ClassVar[str] = MEDIA_TYPE
    result_type: ClassVar[str] = MEDIA_TYPE

    _: KW_ONLY
    scope: Scope = SCOPE
    role: Role = "admin"
    body_type: str = MEDIA_TYPE

    @property
    @override
    def has_head(self) -> bool:
        return False

    @override
    async def serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await super().serve(request)
        except RequestError as error:
            return error_response(error)
        except SCIMException as exception:
            return scim_error_response(exception)
        except ValidationError as invalid:
            return invalid_response(invalid)
        except Unreadable as error:
            log.error("provisioned_unreadable", key=str(error))  # noqa: TRY400 - not the record
            return error_response(BadUpstream("this record cannot be read", hint="give the operators its id"))
        except (StoreUnavailable, BusUnavailable):
            return error_response(Unavailable("a part of the gateway does not answer now", hint="try again"))

    @override
    async def _handle_for(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        if caller.member.kind != "service_account" or caller.scopes != (SCOPE,):
            raise Forbidden(
                "only the key of a service account that may do nothing else provisions people",
                hint="ask an owner to make a key for SCIM, which has no other use",
            )
        if path_id(request, TENANT_ID) != caller.member.tenant:
            raise NotFound("there is no such workspace", hint="send the id of the workspace that the key belongs to")
        async with TURNS.turn(caller.member.tenant):
            return await super()._handle_for(request, caller)


def scim_routes() -> RouteGroup[[web.Request, Caller]]:
    """Routes below `/v1/tenants/{tenant_id}/scim/v2`."""
    return RouteGroup(ScimRoute, (TENANT_ID, RESOURCE_ID, TYPE_NAME, SCHEMA_ID))


def scim_response(
    content: Mapping[str, Any],
    *,
    status: int = HTTPStatus.OK,
    version: int | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> web.Response:
    """SCIM content that is dumped already. `version` is that of a resource: its ETag."""
    response = web.Response(
        body=orjson.dumps(content),
        status=status,
        content_type=MEDIA_TYPE,
        headers={**NO_STORE, **headers},
        zlib_executor_size=COMPRESSED_ON_THREAD_FROM_BYTES,
    )
    if version is not None:
        response.etag = ETag(str(version), is_weak=True)
    return response


def dumped(model: ScimModel, parameters: ResponseParameters[Any] | None = None) -> dict[str, Any]:
    """A model as an answer has it, with the attributes that the client asked for."""
    return model.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=parameters)


def error_response(error: RequestError) -> web.Response:
    """The answer to a request that failed for a reason that SCIM has no keyword for."""
    status, headers = STATUS[type(error)], {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    detail = f"{error.detail}: {error.hint}" if error.hint else error.detail
    return scim_response(dumped(Error(status=status, detail=detail)), status=status, headers=headers)


def scim_error_response(exception: SCIMException) -> web.Response:
    """The answer to a request that failed for a reason of SCIM's own."""
    if isinstance(exception.__cause__, ValidationError):
        return invalid_response(exception.__cause__)
    return _response_of(exception.to_error())


def invalid_response(invalid: ValidationError) -> web.Response:
    """The answer to a body that does not fit its schema: what is wrong with its first wrong value."""
    error = Error.from_validation_errors(invalid)[0]
    return _response_of(error.model_copy(update={"detail": summary(invalid, whole="the body", most=1)}))


def _response_of(error: Error) -> web.Response:
    status = error.status or HTTPStatus.BAD_REQUEST
    told = error.model_copy(update={"detail": (error.detail or "")[:MAX_DETAIL]})
    return scim_response(dumped(told), status=status)
