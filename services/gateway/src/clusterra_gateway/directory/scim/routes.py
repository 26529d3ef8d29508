"""The routes of SCIM, for the provisioning clients of a tenant's directory."""

from typing import Any

from clusterra_runtime.nats.registry import Registry
from pydantic import BaseModel
from scim2_models import ListResponse, PatchOp, ResourceType, Schema, ServiceProviderConfig

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.directory.provisioned.directory import ProvisionedDirectory
from clusterra_gateway.directory.provisioned.resources import Group, User
from clusterra_gateway.directory.scim import discovery
from clusterra_gateway.directory.scim.changes import Changes
from clusterra_gateway.directory.scim.groups import Groups
from clusterra_gateway.directory.scim.handlers import CREATED, GroupHandlers, UserHandlers
from clusterra_gateway.directory.scim.requests import IF_MATCH, RESOURCE_ID, AttributesQuery, ListQuery
from clusterra_gateway.directory.scim.route import SCIM, TENANT_ID, ScimRoute
from clusterra_gateway.directory.scim.users import Users
from clusterra_gateway.http.requests.parameters import Parameter, Query
from clusterra_gateway.http.routes.route import Method, Named, Route
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.private_route import CallerHandler
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.people.membership import Membership

TYPE_NAME = Parameter("type_name", "path", "^(User|Group)$")
SCHEMA_ID = Parameter("schema_id", "path", "^urn:[A-Za-z0-9:._-]{1,200}$")


def routes(
    access: Access,
    directory: Directory,
    registry: Registry,
    membership: Membership,
    revocations: Revocations,
    public_url: str,
) -> tuple[Route, ...]:
    """All routes of this room."""
    provisioned, changes = ProvisionedDirectory(directory.store), Changes(directory, registry)
    groups = Groups(provisioned, changes)
    of_users = UserHandlers(Users(directory, membership, revocations, changes, groups), provisioned, public_url)
    of_groups = GroupHandlers(groups, provisioned, public_url)
    return (
        *_discovery(access),
        *_resources(access, "users", f"{SCIM}/Users", User, of_users),
        *_resources(access, "groups", f"{SCIM}/Groups", Group, of_groups),
    )


def _discovery(access: Access) -> tuple[Route, ...]:
    def read(
        name: str, path: str, handler: CallerHandler, result: type[BaseModel], parameter: Parameter | None = None
    ) -> Route:
        parameters = (TENANT_ID, parameter) if parameter else (TENANT_ID,)
        return ScimRoute(name, "GET", path, handler, access=access, parameters=parameters, result=result)

    types, schemas = f"{SCIM}/ResourceTypes", f"{SCIM}/Schemas"
    return (
        read(
            "scim_service_provider_config",
            f"{SCIM}/ServiceProviderConfig",
            discovery.service_provider_config,
            ServiceProviderConfig,
        ),
        read("scim_resource_types", types, discovery.resource_types, ListResponse[ResourceType]),
        read("scim_resource_type", f"{types}/{{type_name}}", discovery.resource_type, ResourceType, TYPE_NAME),
        read("scim_schemas", schemas, discovery.schemas, ListResponse[Schema]),
        read("scim_schema", f"{schemas}/{{schema_id}}", discovery.schema, Schema, SCHEMA_ID),
    )


def _resources(
    access: Access, what: str, folder: str, model: type[Any], handlers: UserHandlers | GroupHandlers
) -> tuple[Route, ...]:
    """The routes of users, or of groups."""
    one = f"{folder}/{{resource_id}}"

    def route(name: str, method: Method, path: str, handler: CallerHandler, **more: Any) -> Route:
        parameters: tuple[Parameter, ...] = (TENANT_ID,) if path == folder else (TENANT_ID, RESOURCE_ID)
        parameters += (IF_MATCH,) if method in ("PUT", "PATCH", "DELETE") else ()
        return ScimRoute(f"scim_{what}_{name}", method, path, handler, access=access, parameters=parameters, **more)

    patch: type[BaseModel] = PatchOp.__class_getitem__(model)
    page: type[BaseModel] = ListResponse.__class_getitem__(model)
    created = (Named(one, "/id"),)
    query: dict[str, type[Query]] = {"query": AttributesQuery}
    return (
        route("create", "POST", folder, handlers.create, status=CREATED, body=model, result=model, names=created),
        route(
            "list", "GET", folder, handlers.list, query=ListQuery, result=page, names=(Named(one, "/Resources/0/id"),)
        ),
        route("get", "GET", one, handlers.get, **query, result=model),
        route("replace", "PUT", one, handlers.replace, body=model, result=model),
        route("change", "PATCH", one, handlers.change, body=patch, result=model),
        route("delete", "DELETE", one, handlers.delete, status=204),
    )
