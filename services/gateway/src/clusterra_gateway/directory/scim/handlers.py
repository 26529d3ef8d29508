"""The routes of provisioned users and groups."""

from functools import partial

from aiohttp import web
from scim2_models import Context, ListResponse, PatchOp

from clusterra_gateway.directory.scim.groups import Groups, patched_group
from clusterra_gateway.directory.scim.protocol import RESOURCE_ID, SCIM, scim_routes
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.directory.scim.requests import (
    GROUP_BODY,
    IF_MATCH,
    USER_BODY,
    AttributesQuery,
    ListQuery,
    applied,
    read_patch,
    read_resource,
    wanted_match,
)
from clusterra_gateway.directory.scim.resources import GROUPS, USERS, Group, StoredGroup, StoredUser, User
from clusterra_gateway.directory.scim.users import Users
from clusterra_gateway.directory.scim.views import View, listed
from clusterra_gateway.http.answers.responses import no_content
from clusterra_gateway.http.requests.parameters import path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller

api = scim_routes()

ALL_USERS = f"{SCIM}/Users"
ONE_USER = f"{ALL_USERS}/{{resource_id}}"
ALL_GROUPS = f"{SCIM}/Groups"
ONE_GROUP = f"{ALL_GROUPS}/{{resource_id}}"
CHANGES = (IF_MATCH,)
"""The header of a request that changes a resource."""


class UserHandlers:
    """The handlers of provisioned users."""

    def __init__(self, users: Users, provisioned: ProvisionedDirectory, public_url: str) -> None:
        self._users = users
        self._provisioned = provisioned
        self._public_url = public_url

    @api.post("scim_users_create", ALL_USERS, status=201, body=User, result=User, names=(Named(ONE_USER, "/id"),))
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Provisions a person. They become a member when they first sign in with one of their addresses.

        `userName` or one of the `emails` must be an address in a domain of the workspace. Addresses elsewhere are kept
        and count for nothing. With `active: false` they cannot sign in.
        """
        wanted = await read_resource(request, User, USER_BODY, Context.RESOURCE_CREATION_REQUEST)
        return await self._view(caller).answer(await self._users.create(caller.member, wanted), status=201)

    @api.get(
        "scim_users_list",
        ALL_USERS,
        query=ListQuery,
        result=ListResponse[User],
        names=(Named(ONE_USER, "/Resources/0/id"),),
    )
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists provisioned users, or finds one by `userName`, `externalId` or `id`."""
        return await listed(self._view(caller), query(request, ListQuery))

    @api.get("scim_users_get", ONE_USER, query=AttributesQuery, result=User)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a provisioned user."""
        parameters = query(request, AttributesQuery).parameters(User)
        found = await self._provisioned.one(USERS, caller.member.tenant, path_id(request, RESOURCE_ID))
        return await self._view(caller).answer(found, parameters)

    @api.put("scim_users_replace", ONE_USER, parameters=CHANGES, body=User, result=User)
    async def replace(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Replaces a user. Without `active`, they stay as active as they are.

        `active: false` disables the member who is this user: within a second, on all replicas, no session and no token
        of theirs works. The last owner of the workspace cannot be disabled.
        """
        user_id = path_id(request, RESOURCE_ID)
        wanted = await read_resource(request, User, USER_BODY, Context.RESOURCE_REPLACEMENT_REQUEST)
        found = await self._users.change(caller.member, user_id, lambda _: wanted, wanted_match(request))
        return await self._view(caller).answer(found)

    @api.patch("scim_users_change", ONE_USER, parameters=CHANGES, body=PatchOp[User], result=User)
    async def change(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Changes attributes of a user. `active` counts as in a replacement."""
        user_id, patch = path_id(request, RESOURCE_ID), await read_patch(request, User, USER_BODY)
        found = await self._users.change(caller.member, user_id, partial(applied, patch), wanted_match(request))
        return await self._view(caller).answer(found)

    @api.delete("scim_users_delete", ONE_USER, parameters=CHANGES)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a user, and disables the member who is this user. Their jobs go on, and their uid stays theirs.

        For a year they cannot join again by their address alone. Provision them again to let them in.
        """
        await self._users.delete(caller.member, path_id(request, RESOURCE_ID), wanted_match(request))
        return no_content()

    def _view(self, caller: Caller) -> View[User, StoredUser]:
        tenant = caller.member.tenant
        return View(USERS, self._provisioned, tenant, self._public_url + ALL_USERS.format(tenant_id=tenant))


class GroupHandlers:
    """The handlers of provisioned groups."""

    def __init__(self, groups: Groups, provisioned: ProvisionedDirectory, public_url: str) -> None:
        self._groups = groups
        self._provisioned = provisioned
        self._public_url = public_url

    @api.post("scim_groups_create", ALL_GROUPS, status=201, body=Group, result=Group, names=(Named(ONE_GROUP, "/id"),))
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Provisions a group of users. It gives nobody a role. With a `gidNumber` it is a Unix group on clusters."""
        wanted = await read_resource(request, Group, GROUP_BODY, Context.RESOURCE_CREATION_REQUEST)
        return await self._view(caller).answer(await self._groups.create(caller.member, wanted), status=201)

    @api.get(
        "scim_groups_list",
        ALL_GROUPS,
        query=ListQuery,
        result=ListResponse[Group],
        names=(Named(ONE_GROUP, "/Resources/0/id"),),
    )
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists provisioned groups, or finds one by `displayName`, `externalId` or `id`."""
        return await listed(self._view(caller), query(request, ListQuery))

    @api.get("scim_groups_get", ONE_GROUP, query=AttributesQuery, result=Group)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a provisioned group with its members."""
        parameters = query(request, AttributesQuery).parameters(Group)
        found = await self._provisioned.one(GROUPS, caller.member.tenant, path_id(request, RESOURCE_ID))
        return await self._view(caller).answer(found, parameters)

    @api.put("scim_groups_replace", ONE_GROUP, parameters=CHANGES, body=Group, result=Group)
    async def replace(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Replaces a group with its members."""
        group_id = path_id(request, RESOURCE_ID)
        wanted = await read_resource(request, Group, GROUP_BODY, Context.RESOURCE_REPLACEMENT_REQUEST)
        found = await self._groups.change(caller.member, group_id, lambda _: wanted, wanted_match(request))
        return await self._view(caller).answer(found)

    @api.patch("scim_groups_change", ONE_GROUP, parameters=CHANGES, body=PatchOp[Group], result=Group)
    async def change(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Changes attributes of a group: mostly, adds and removes members."""
        group_id, patch = path_id(request, RESOURCE_ID), await read_patch(request, Group, GROUP_BODY)
        found = await self._groups.change(caller.member, group_id, partial(patched_group, patch), wanted_match(request))
        return await self._view(caller).answer(found)

    @api.delete("scim_groups_delete", ONE_GROUP, parameters=CHANGES)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a group. Its users stay."""
        await self._groups.delete(caller.member, path_id(request, RESOURCE_ID), wanted_match(request))
        return no_content()

    def _view(self, caller: Caller) -> View[Group, StoredGroup]:
        tenant = caller.member.tenant
        return View(GROUPS, self._provisioned, tenant, self._public_url + ALL_GROUPS.format(tenant_id=tenant))
