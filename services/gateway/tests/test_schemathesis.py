"""The API conforms to its OpenAPI document, whatever requests it gets."""

import asyncio
import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import pytest
import schemathesis
from clusterra_contracts.agent_http import KEY_HEADER, new_key
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.directory.scim.protocol import ScimRoute
from clusterra_gateway.http.routes.openapi import document
from clusterra_gateway.http.routes.route import Route
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.access.private_route import OperatorRoute
from clusterra_runtime.nats import bus
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World
from hypothesis import HealthCheck, given, settings
from operator_tokens import TOKENS
from people_world import make_token, owner
from route_table import route_table
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance
from scim_world import scim_key

EXAMPLES = 5
"""`make test-openapi` sends many more to the running product."""
REFUSES_MORE = frozenset(
    {
        *("runs_start", "runs_list", "device_token", "auth_token", "auth_login", "costs_read"),
        *("tenants_create", "tenants_list", "tenants_change", "tenants_invite"),
        *("tenants_bind_cluster", "tenants_rebind_cluster", "folders_list", "folders_content"),
        *(
            "jobs_submit",
            "jobs_estimate",
            "templates_create",
            "templates_add_version",
            "launchables_render",
            "launchables_submit",
        ),
        *("schedules_create", "scim_users_create", "scim_users_replace", "scim_users_list", "scim_groups_list"),
        *("scim_users_get", "scim_groups_get"),
        *("scim_users_change", "scim_groups_change", "scim_groups_create", "scim_groups_replace"),
        "agent_heartbeat",
    }
)
"""Operations that refuse what no schema can: steps that depend on unknown steps, a cursor of another list, a code, a
domain of another tenant, an address without its scheme, white space that regular expressions disagree about, values
that a template does not have, a definition in YAML, a cron expression, an address at another site, days in another
order, a reference to a secret of no known form, a path with a name of dots, also of a
file to stage, a path of attributes in SCIM's syntax, a time that is far from now."""


@cache
def operations() -> Mapping[str, APIOperation[Any, Any, Any, Any]]:
    """The operations of the document by their ids. To read the document takes longer than to test an operation."""
    schema = schemathesis.openapi.from_dict(json.loads(document(route_table())))
    # No text may have a NUL, which no schema can say of objects of any form.
    schema.config.generation.update(allow_x00=False)
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    return {operation.definition.raw["operationId"]: operation for operation in found}


def check_operation(url: str, token: str, agent_key: str, route: Route) -> None:
    """Sends generated requests to one operation. Raises when a response does not conform to the document."""
    operation = operations()[route.name]

    @given(case=operation.as_strategy())
    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def conforms(case: schemathesis.Case[Any]) -> None:
        if "cluster_id" in case.path_parameters:
            case.path_parameters["cluster_id"] = "main"
        if "tenant_id" in case.path_parameters and isinstance(route, OperatorRoute | ScimRoute):
            case.path_parameters["tenant_id"] = "acme"
        case.headers.pop("Idempotency-Key", None)  # one key with different bodies is rejected, as it should be
        headers = {"Authorization": f"Bearer {token}", KEY_HEADER: agent_key}
        response = case.call(base_url=url, headers=headers, allow_redirects=False, timeout=60)
        # `ignored_auth` takes a wrong cookie beside a valid token for a bypass; test_access covers authentication.
        refuses_more = [positive_data_acceptance] if route.name in REFUSES_MORE else []
        case.validate_response(response, excluded_checks=[ignored_auth, *refuses_more])

    conforms()


# The gateway in the other thread draws random numbers; hypothesis takes them for the strategy's.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize("route", [route for route in route_table() if not route.stream], ids=lambda route: route.name)
async def test_every_operation_conforms_to_the_document(
    world: World, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.clusters.agents.heartbeats.EVERY_SECONDS", 0.0)
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"hello\n")
    token = await token_for(world, route)
    agent_key = new_key()
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        owner = AgentKeyOwner(tenant="acme", cluster="main")
        await put_agent_key(Directory(world.store, outbox), owner, secret_hash(agent_key))

    await asyncio.to_thread(check_operation, world.url, token, agent_key, route)


async def token_for(world: World, route: Route) -> str:
    """A token of whoever may call the route: an operator, a directory that provisions people, or a member."""
    if isinstance(route, OperatorRoute):
        return TOKENS["anna"]
    if isinstance(route, ScimRoute):
        return await scim_key(await owner(world))
    browser = await world.login("ada@acme.example")
    return str((await make_token(browser))["token"])
