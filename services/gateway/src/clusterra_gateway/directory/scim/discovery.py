"""What SCIM clients ask first: what the service can do, its resource types and their schemas."""

from typing import Any

from aiohttp import web
from scim2_models import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    ETag,
    Filter,
    ListResponse,
    NotFoundException,
    Patch,
    Resource,
    ResourceType,
    Schema,
    ServiceProviderConfig,
    Sort,
)

from clusterra_gateway.directory.scim.protocol import SCIM, dumped, scim_response, scim_routes
from clusterra_gateway.directory.scim.requests import MAX_COUNT
from clusterra_gateway.directory.scim.resources import Group, PosixGroup, PosixUser, User
from clusterra_gateway.identity.access.authentication import Caller

RESOURCE_TYPES = {each.id: each for each in (ResourceType.from_resource(User), ResourceType.from_resource(Group))}
SCHEMAS = {
    each.id: each for each in (User.to_schema(), Group.to_schema(), PosixUser.to_schema(), PosixGroup.to_schema())
}
SERVICE_PROVIDER_CONFIG = ServiceProviderConfig(
    patch=Patch(supported=True),
    bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
    filter=Filter(supported=True, max_results=MAX_COUNT),
    change_password=ChangePassword(supported=False),
    sort=Sort(supported=False),
    etag=ETag(supported=True),
    authentication_schemes=[
        AuthenticationScheme(
            type=AuthenticationScheme.Type.oauthbearertoken,
            name="Key of a service account",
            description="A key with the scope scim alone, in the header Authorization: Bearer",
            primary=True,
        )
    ],
)


api = scim_routes()


class Discovery:
    """The handlers of discovery."""

    @api.get("scim_service_provider_config", f"{SCIM}/ServiceProviderConfig", result=ServiceProviderConfig)
    async def service_provider_config(self, _request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Returns what this service of SCIM can do."""
        return scim_response(dumped(SERVICE_PROVIDER_CONFIG))

    @api.get("scim_resource_types", f"{SCIM}/ResourceTypes", result=ListResponse[ResourceType])
    async def resource_types(self, _request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Lists the types of resources: users and groups, with their extensions."""
        return _all(ResourceType, tuple(RESOURCE_TYPES.values()))

    @api.get("scim_resource_type", f"{SCIM}/ResourceTypes/{{type_name}}", result=ResourceType)
    async def resource_type(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Returns a type of resources."""
        return _one(RESOURCE_TYPES.get(request.match_info["type_name"]))

    @api.get("scim_schemas", f"{SCIM}/Schemas", result=ListResponse[Schema])
    async def schemas(self, _request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Lists the schemas of users, groups and their extensions, with all attributes that are kept."""
        return _all(Schema, tuple(SCHEMAS.values()))

    @api.get("scim_schema", f"{SCIM}/Schemas/{{schema_id}}", result=Schema)
    async def schema(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Returns a schema."""
        return _one(SCHEMAS.get(request.match_info["schema_id"]))


def _one(found: Resource[Any] | None) -> web.Response:
    if found is None:
        raise NotFoundException(detail="there is no such schema or resource type")
    return scim_response(dumped(found))


def _all(model: type[Resource[Any]], found: tuple[Resource[Any], ...]) -> web.Response:
    head = ListResponse.__class_getitem__(model)(
        total_results=len(found), start_index=1, items_per_page=len(found), resources=[]
    ).model_dump()
    return scim_response({**head, "Resources": [dumped(each) for each in found]})
