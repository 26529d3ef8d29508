"""The API conforms to its OpenAPI document, whatever requests it gets."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import aiohttp
import hypothesis
import pytest
import schemathesis
from built_console import SCRIPT_NAME, written
from clusterra_contracts.agent_http import KEY_HEADER, new_key
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecord, SessionRecords
from clusterra_gateway.clusters.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.directory.scim.protocol import ScimRoute
from clusterra_gateway.http.routes.openapi import document
from clusterra_gateway.http.routes.route import Route
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.access.private_route import OperatorRoute
from clusterra_gateway.settings import Settings
from clusterra_gateway.slurmrestd.route import TOKEN_HEADER
from clusterra_runtime.nats import bus
from clusterra_runtime.store.outbox import Outbox
from files_world import UPLOADS, FilesWorld
from gateway_world import World, running
from hypothesis import HealthCheck
from issuer_stand_in import IssuerStandIn
from operator_tokens import TOKENS
from people_world import make_token, me, owner
from route_table import route_table
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance
from scim_world import GROUP, USER, person, scim_key
from scim_world import Directory as ScimDirectory
from template_definition import OWN

SEEN = "data/seen"
OF_FILES = ("files_", "uploads_", "storage_")
ADMIN = "boss@acme.example"
OF_ADMINS = ("webhooks_",)
"""Operations that an admin is asked to call; a member others."""
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
        *(
            "schedules_create",
            "schedules_change",
            "webhooks_create",
            "webhooks_change",
            "webhooks_replay",
            "webhooks_rotate_secret",
            "scim_users_create",
            "scim_users_replace",
            "scim_users_list",
            "scim_groups_list",
        ),
        *("scim_users_get", "scim_groups_get"),
        *("scim_users_change", "scim_groups_change", "scim_groups_create", "scim_groups_replace"),
        *("hook_event", "hook_batch"),
        *("agent_heartbeat", "jobs_output", "storage_presigned_url", "files_list", "files_copy", "files_rename"),
        *("files_delete", "files_delete_many", "uploads_begin", "uploads_list", "uploads_parts"),
        *("uploads_sign_parts", "uploads_complete", "uploads_abort", "sessions_start"),
    }
)
"""Operations that refuse what no schema can: steps that depend on unknown steps, a cursor of another list, a code, a
domain of another tenant, an address without its scheme, white space that regular expressions disagree about, values
that a template does not have, a definition in YAML, a cron expression, an address at another site, days in another
order, a reference to a secret of no known form, a path with a name of dots, also of a
file to stage, a path of attributes in SCIM's syntax, a time that is far from now, a place behind an output's end, parts
that an upload does not have."""


@cache
def operations() -> Mapping[str, APIOperation[Any, Any, Any, Any]]:
    """The operations of the document by their ids. To read the document takes longer than to test an operation."""
    schema = schemathesis.openapi.from_dict(json.loads(document(route_table())))
    # No text may have a NUL, which no schema can say of objects of any form.
    schema.config.generation.update(allow_x00=False)
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    return {operation.definition.raw["operationId"]: operation for operation in found}


NEVER_FOUND = frozenset(
    {
        *("slurm_refused_read", "slurm_refused_change", "slurm_refused_deletion"),
        *("slurmdb_refused_read", "slurmdb_refused_change", "slurmdb_refused_deletion"),
    }
)
"""Operations that answer every caller with 404."""


NAMES = {"problem_type": {"name": "not-found"}, "console_file": {"name": SCRIPT_NAME}}
"""What exists, by operations, of which a path says no more than its name."""


@pytest.fixture(name="world")
async def world_with_a_console(settings: Settings, issuer: IssuerStandIn, tmp_path: Path) -> AsyncIterator[World]:
    async with running(settings.model_copy(update={"console_dir": written(tmp_path / "console")}), issuer) as world:
        yield world


@dataclass(frozen=True)
class Given:
    """What exists: values of path parameters, and of query parameters and fields of the body."""

    ids: Mapping[str, str]
    fields: Mapping[str, Any]

    def put_into(self, case: schemathesis.Case[Any]) -> None:
        """Have a case name what exists, in place of what was generated."""
        for values, known in ((case.path_parameters, self.ids), (case.query, self.fields), (case.body, self.fields)):
            if isinstance(values, dict):
                values.update({name: known[name] for name in values.keys() & known})
        # Beside the token of the test, it would be refused before anything else is looked at.
        case.headers.pop(TOKEN_HEADER, None)


def check_operation(url: str, token: str, agent_key: str, route: Route, given: Given) -> None:
    """Sends generated requests to one operation: of four, three name what exists.

    Raises when a response does not conform to the document, when every one is 404, and for a refusal that the document
    does not list.
    """
    operation, sent, statuses = operations()[route.name], itertools.count(), set[int]()

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    def conforms(case: schemathesis.Case[Any]) -> None:
        if next(sent) % 4 != 3:
            given.put_into(case)
        if "cluster_id" in case.path_parameters:
            case.path_parameters["cluster_id"] = "main"
        if "tenant_id" in case.path_parameters and isinstance(route, OperatorRoute | ScimRoute):
            case.path_parameters["tenant_id"] = "acme"
        case.headers.pop("Idempotency-Key", None)  # one key with different bodies is rejected, as it should be
        headers = {"Authorization": f"Bearer {token}", KEY_HEADER: agent_key}
        response = case.call(base_url=url, headers=headers, allow_redirects=False, timeout=60)
        statuses.add(response.status_code)
        # `ignored_auth` takes a wrong cookie beside a valid token for a bypass; test_access covers authentication.
        refuses_more = [positive_data_acceptance] if route.name in REFUSES_MORE else []
        case.validate_response(response, excluded_checks=[ignored_auth, *refuses_more])

    conforms()
    assert statuses != {404} or route.name in NEVER_FOUND
    listed = {int(status) for status in operation.definition.raw["responses"] if status.isdigit()}
    assert {status for status in statuses if 400 <= status < 500} <= listed


# The gateway in the other thread draws random numbers; hypothesis takes them for the strategy's.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize(
    "route",
    [route for route in route_table() if not route.stream and not route.name.startswith(OF_FILES)],
    ids=lambda route: route.name,
)
async def test_every_operation_conforms_to_the_document(
    world: World, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterra_gateway.clusters.agents.heartbeats.EVERY_SECONDS", 0.0)
    token = await token_for(world, route)
    agent_key = new_key()
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        owner = AgentKeyOwner(tenant="acme", cluster="main")
        await put_agent_key(Directory(world.store, outbox), owner, secret_hash(agent_key))
    ids = await scim_ids(world, token, route) if isinstance(route, ScimRoute) else await ids_of_ada(world)
    given = Given(ids | NAMES.get(route.name, {}), {"template_id": "shell"})

    await asyncio.to_thread(check_operation, world.url, token, agent_key, route, given)


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize(
    "route", [route for route in route_table() if route.name.startswith(OF_FILES)], ids=lambda route: route.name
)
async def test_operations_on_files_conform_to_the_document(files: FilesWorld, route: Route) -> None:
    ada = await files.person("ada@acme.example")
    assert await ada.put(SEEN, b"hello") == 200
    begun = await ada.call("POST", UPLOADS, json={"path": SEEN, "size": 7})
    token = await token_for(files.world, route)
    named = {"path": SEEN, "paths": [SEEN], "source": SEEN, "destination": "data/copy"}
    given = Given({"upload_id": begun.body["upload_id"]}, named)

    await asyncio.to_thread(check_operation, files.world.url, token, new_key(), route, given)


async def ids_of_ada(world: World) -> dict[str, str]:
    """The ids of what ada has made, and an admin for all, by the names of path parameters."""
    ada = await world.login("ada@acme.example")
    herself = await me(ada)
    world.acme.add_job("7", uid=herself["uid"])
    world.acme.edge.write_output("7", b"hello\n")
    world.acme.scripts["7"] = "#!/bin/sh\ntrue\n"
    record = {
        "job_id": "7",
        "member": herself["id"],
        "template_id": "jupyter",
        "name": "J",
        "run_id": "r1",
        "kid": "k1",
    }
    await SessionRecords(world.store).create(
        world.acme.ref, SessionRecord.model_validate(record | {"created_at": now()})
    )
    step = {"step_id": "one", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/bin"]}}
    schedule = {"name": "nightly", "template_id": "shell", "params": {"commands": "true"}, "cron": "0 3 * * *"}
    made = [
        await created(ada, path, content)
        for path, content in (
            ("/v1/clusters/main/runs", {"run_name": "seen", "steps": [step]}),
            ("/v1/schedules", schedule),
            ("/v1/templates", {"definition": OWN}),
            ("/v1/clusters/main/jobs/7/links", {}),
        )
    ]
    boss = await world.login(ADMIN)
    webhook = await created(boss, "/v1/webhooks", {"name": "ci", "url": "https://hooks.example/in"})
    async with ada.put("/v1/users/me/views/running", json={"page": "jobs", "query": "states=running"}) as kept:
        assert kept.status == 200, await kept.text()
    return {
        "job_id": "7",
        "run_id": made[0]["run_id"],
        "schedule_id": made[1]["id"],
        "template_id": made[2]["id"],
        "number": "1",
        "launchable_id": "shell",
        "token_id": (await make_token(ada, name="other"))["id"],
        "tenant_id": "acme",
        "link_id": made[3]["id"],
        "webhook_id": webhook["id"],
        # No authority answers here, which would sign one.
        "bus_credential_id": f"bc_{'0' * 16}",
        "view_name": "running",
    }


async def scim_ids(world: World, token: str, route: Route) -> dict[str, str]:
    """The id of a user or a group that a directory has provisioned."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(world.url, headers=headers) as http:
        directory = ScimDirectory(http, "acme")
        user = await directory.made("/Users", person("eve@acme.example"))
        group = await directory.made("/Groups", {"schemas": [GROUP], "displayName": "readers"})
    return {"resource_id": (group if "/Groups" in route.path else user)["id"], "schema_id": USER}


async def created(browser: aiohttp.ClientSession, path: str, content: object) -> dict[str, Any]:
    async with browser.post(path, json=content) as answer:
        assert answer.status == 201, await answer.text()
        made: dict[str, Any] = await answer.json()
        return made


async def token_for(world: World, route: Route) -> str:
    """A token of whoever may call the route: an operator, a directory that provisions people, or a member."""
    if isinstance(route, OperatorRoute):
        return TOKENS["anna"]
    if isinstance(route, ScimRoute):
        return await scim_key(await owner(world))
    browser = await world.login(ADMIN if route.name.startswith(OF_ADMINS) else "ada@acme.example")
    return str((await make_token(browser))["token"])
