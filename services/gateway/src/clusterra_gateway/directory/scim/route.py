"""The routes of SCIM: for the key of a service account that may do nothing else, and with SCIM's own errors."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, override

import structlog
from aiohttp import web
from clusterra_runtime.nats.bus import BusUnavailable
from clusterra_runtime.store.store import StoreUnavailable
from pydantic import BaseModel, ValidationError
from scim2_models import Error, SCIMException

from clusterra_gateway.accounts.roles import Role, Scope
from clusterra_gateway.directory.scim.protocol import MEDIA_TYPE, error_response, invalid_response, scim_error_response
from clusterra_gateway.directory.scim.requests import RESOURCE_ID
from clusterra_gateway.directory.scim.resources import Unreadable
from clusterra_gateway.http.requests.errors import BadUpstream, Forbidden, NotFound, RequestError, Unavailable
from clusterra_gateway.http.requests.parameters import Parameter, path_id
from clusterra_gateway.http.routes.route import SecurityScheme
from clusterra_gateway.http.routes.route_group import RouteGroup
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CallerRoute

log = structlog.get_logger()

SCIM = "/v1/tenants/{tenant_id}/scim/v2"
TENANT_ID = Parameter("tenant_id", "path", "^[a-z0-9][a-z0-9-]{0,38}$")
TYPE_NAME = Parameter("type_name", "path", "^(User|Group)$")
SCHEMA_ID = Parameter("schema_id", "path", "^urn:[A-Za-z0-9:._-]{1,200}$")
SCOPE: Scope = "scim"


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
        return await super()._handle_for(request, caller)


def scim_routes() -> RouteGroup[[web.Request, Caller]]:
    """Routes below `/v1/tenants/{tenant_id}/scim/v2`."""
    return RouteGroup(ScimRoute, (TENANT_ID, RESOURCE_ID, TYPE_NAME, SCHEMA_ID))
