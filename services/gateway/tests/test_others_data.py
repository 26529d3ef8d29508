"""Every route of the router, asked about what exists and belongs to another user or another tenant."""

import re
from collections.abc import Mapping, Set
from typing import Any

import aiohttp
import pytest
from cluster_stand_in import ClusterStandIn
from clusterra_contracts.identity import now
from clusterra_gateway.identity.access.private_route import PrivateRoute
from files_world import FilesWorld
from route_table import route_table
from template_definition import OWN

SECRET = "only-for-its-owner"
JOB = {"environment": ["PATH=/bin"]}
FILE = "data/theirs.txt"
MOVED = {"source": "data/mine.txt", "destination": "data/moved.txt"}
WEBHOOK = {"url": "https://hooks.example/in"}
SCHEDULE = {"template_id": "shell", "cron": "0 3 * * *", "params": {"commands": "true"}}
RENAMED = {"Operations": [{"op": "replace", "path": "displayName", "value": "mine"}]}
BODIES: Mapping[str, dict[str, Any]] = {
    "budgets_set": {"limit": "10.00"},
    "clusters_agent_key": {},
    "clusters_change": {"state": "paused"},
    "clusters_simulate": {"policy": {"max_workers": 1}},
    "files_copy": MOVED,
    "files_delete_many": {"paths": ["data/mine.txt"]},
    "files_rename": MOVED,
    "invitations_create": {"email": "new@acme.example"},
    "jobs_cancel_many": {"name": "hello"},
    "jobs_estimate": {"script": "#!/bin/sh\n", "job": JOB},
    "jobs_signal": {"signal": "TERM"},
    "jobs_submit": {"script": "#!/bin/sh\n", "job": JOB},
    "jobs_update": {"name": "mine"},
    "links_make": {"shows": ["output"]},
    "launchables_render": {"cluster_id": "main"},
    "launchables_submit": {"cluster_id": "main"},
    "members_change": {"disabled": True},
    "quotas_set": {"limit": "10.00"},
    "runs_start": {"run_name": "mine", "steps": [{"step_id": "a", "script": "#!/bin/sh\n", "job": JOB}]},
    "scim_groups_change": RENAMED,
    "scim_groups_create": {"displayName": "mine"},
    "scim_groups_replace": {"displayName": "mine"},
    "scim_users_change": RENAMED,
    "scim_users_create": {"userName": "mine@acme.example"},
    "scim_users_replace": {"userName": "mine@acme.example"},
    "schedules_change": {"name": "mine"},
    "schedules_create": SCHEDULE | {"name": "mine"},
    "service_accounts_create": {"name": "mine"},
    "service_accounts_keys_make": {"name": "mine"},
    "service_accounts_keys_rotate": {},
    "sessions_start": {"template_id": "jupyter"},
    "slurm_kill_jobs": {"jobs": ["7"]},
    "slurm_requeue": {"jobs": ["7"]},
    "slurm_submit": {"script": "#!/bin/sh\n", "job": JOB},
    "slurm_update": {"name": "mine"},
    "storage_presigned_url": {"method": "GET", "path": "data/mine.txt"},
    "templates_add_version": {"definition": OWN},
    "notifications_replace": {"jobs_failed": True},
    "templates_create": {"definition": OWN.replace("id: greet", "id: mine")},
    "templates_review": {"approve": True},
    "tokens_make": {"name": "mine"},
    "views_save": {"page": "jobs", "query": ""},
    "bus_credentials_create": {"name": "mine", "public_key": "U" + "A" * 55},
    "bus_credentials_renew": {},
    "webhooks_change": {"name": "mine"},
    "webhooks_create": WEBHOOK | {"name": "mine"},
    "webhooks_replay": {"after": now().isoformat()},
    "webhooks_rotate_secret": {},
    "uploads_begin": {"path": "data/mine.txt", "size": 1},
    "uploads_complete": {"path": FILE, "size": 1},
    "uploads_sign_parts": {"path": FILE, "parts": [{"number": 1, "size": 1, "sha256": "0" * 64}]},
}
"""A body that is right, by the name of the route, so that nothing is refused for its shape."""
QUERIES: Mapping[str, dict[str, str]] = {
    "files_delete": {"path": "data/mine.txt"},
    "uploads_abort": {"path": FILE},
    "uploads_list": {"path": "data"},
    "uploads_parts": {"path": FILE},
}
"""A query that is right, likewise. A path of files names the caller's own, so only an upload's id can be another's."""
ENDS_THE_SESSION = {"auth_logout"}
OF_NOBODY = {
    "view_name": "mine",
    "version": "v0.0.45",
    "node_name": "w1",
    "partition_name": "main",
    "operation": "reconfigure",
    "scope": "user",
    "scope_name": "ada",
    "type_name": "User",
    "schema_id": "urn:ietf:params:scim:schemas:core:2.0:User",
}
"""Path parameters that name nothing of a person. Any other one names what belongs to somebody."""
SHARED = frozenset({*OF_NOBODY, "cluster_id"})
OF_THE_TENANT = {"tenant_id", "template_id", "launchable_id", "number"}
"""Path parameters that name what all members of a tenant share."""

type Json = dict[str, Any]


async def made(browser: aiohttp.ClientSession, path: str, content: Json) -> Json:
    async with browser.post(path, json=content) as answer:
        assert answer.status == 201, await answer.text()
        result: Json = await answer.json()
        return result


async def all_that_is_theirs(
    owner: aiohttp.ClientSession, there: ClusterStandIn, admin: aiohttp.ClientSession
) -> dict[str, str]:
    """What the owner and their tenant's admin make, by the path parameter that names it. The owner has the job 7."""
    cluster = there.ref.cluster
    async with owner.get("/v1/users/me") as answer:
        me = await answer.json()
    there.add_job("7", user=SECRET, uid=me["uid"])
    there.edge.write_output("7", SECRET.encode())
    step = {"step_id": "a", "script": f"#!/bin/sh\n# {SECRET}\n", "job": JOB | {"hold": True}}
    run = await made(owner, f"/v1/clusters/{cluster}/runs", {"run_name": SECRET, "steps": [step]})
    token = await made(owner, "/v1/users/me/tokens", {"name": SECRET})
    account = await made(admin, "/v1/service-accounts", {"name": "vault", "description": SECRET})
    key = await made(admin, f"/v1/service-accounts/{account['name']}/keys", {"name": SECRET})
    upload = await made(owner, f"/v1/clusters/{cluster}/files/uploads", {"path": FILE, "size": 1})
    schedule = await made(owner, "/v1/schedules", SCHEDULE | {"name": SECRET, "cluster_id": cluster})
    template = await made(owner, "/v1/templates", {"definition": OWN})
    link = await made(owner, f"/v1/clusters/{cluster}/jobs/7/links", {"name": SECRET, "shows": ["output"]})
    invitation = await made(admin, "/v1/invitations", {"email": f"{SECRET}@partner.example"})
    webhook = await made(admin, "/v1/webhooks", WEBHOOK | {"name": SECRET})
    return {
        "member_id": me["id"],
        "tenant_id": me["tenant"]["id"],
        "run_id": run["run_id"],
        "token_id": token["id"],
        "name": account["name"],
        "key_id": key["id"],
        "invitation_id": invitation["id"],
        "link_id": link["id"],
        "webhook_id": webhook["id"],
        # No authority answers here, which would sign one.
        "bus_credential_id": f"bc_{'0' * 16}",
        "job_id": "7",
        "upload_id": upload["upload_id"],
        "schedule_id": schedule["id"],
        "template_id": template["id"],
        "launchable_id": template["id"],
        "number": "1",
        # Of a directory, whose key alone reaches it: `test_scim.py` asks with the key of another one.
        "resource_id": "0" * 32,
    }


def private_routes() -> list[PrivateRoute]:
    return [route for route in route_table() if isinstance(route, PrivateRoute)]


def named(route: PrivateRoute) -> set[str]:
    """The path parameters of a route that name what belongs to somebody."""
    return set(re.findall(r"\{(\w+)\}", route.path)) - SHARED


async def ask_all(
    browser: aiohttp.ClientSession, cluster: str, theirs: Mapping[str, str], without: Set[str] = ENDS_THE_SESSION
) -> dict[str, int]:
    """The status of each route, none of which tells the secret. A path parameter that is not known is a KeyError."""
    statuses = {}
    for route in private_routes():
        if route.name in without:
            continue
        path = route.path.format(cluster_id=cluster, **OF_NOBODY, **theirs)
        asked = browser.request(route.method, path, json=BODIES.get(route.name), params=QUERIES.get(route.name))
        async with asked as answer:
            if not route.stream or answer.status != 200:
                assert SECRET not in await answer.text(), route.name
            assert SECRET not in str(answer.headers), route.name
            statuses[route.name] = answer.status
    return statuses


def test_every_route_with_a_body_has_a_row() -> None:
    without = {route.name for route in private_routes() if route.body is not None and route.name not in BODIES}
    optional = {"jobs_hold", "jobs_release", "jobs_requeue"}

    assert without - optional == set()


@pytest.mark.parametrize("who", ["bob", "viewer"])
async def test_another_user_of_the_tenant_gets_nothing_of_it(files: FilesWorld, who: str) -> None:
    world = files.world
    ada, boss, other = [await world.login(f"{name}@acme.example") for name in ("ada", "boss", who)]
    theirs = await all_that_is_theirs(ada, world.acme, boss)
    if who == "viewer":
        async with other.get("/v1/users/me") as answer:
            member = (await answer.json())["id"]
        async with boss.patch(f"/v1/members/{member}", json={"role": "viewer"}) as answer:
            assert answer.status == 200

    # Of the tenant, which is their own, they may choose the membership.
    statuses = await ask_all(other, "main", theirs, ENDS_THE_SESSION | {"memberships_choose"})

    told = {route.name: statuses[route.name] for route in private_routes() if named(route) - OF_THE_TENANT}
    assert len(told) > 25
    assert {name: status for name, status in told.items() if status not in (403, 404)} == {}
    assert "7" not in world.acme.cancelled
    assert world.acme.changes == []
    assert await all_is_there(ada, boss, theirs)


@pytest.mark.parametrize("cluster", ["main", "secret"])
async def test_an_admin_of_another_tenant_gets_nothing_of_it(files: FilesWorld, cluster: str) -> None:
    world = files.world
    eve, chief, boss = [await world.login(f"{email}.example") for email in ("eve@rival", "chief@rival", "boss@acme")]
    theirs = await all_that_is_theirs(eve, world.rival, chief)
    submitted = len(world.rival.submits)

    statuses = await ask_all(boss, cluster, theirs)

    outside = {
        route.name: statuses[route.name]
        for route in private_routes()
        if route.name in statuses and (named(route) or ("{cluster_id}" in route.path and cluster == "secret"))
    }
    assert {name: status for name, status in outside.items() if status not in (403, 404)} == {}
    assert (world.rival.cancelled, world.rival.changes, world.rival.edge.reads, world.rival.rests) == ([], [], [], [])
    assert len(world.rival.submits) == submitted
    assert await all_is_there(eve, chief, theirs, cluster="secret")


async def all_is_there(
    owner: aiohttp.ClientSession, admin: aiohttp.ClientSession, theirs: Mapping[str, str], *, cluster: str = "main"
) -> bool:
    """Whether nothing of it was taken away: so the requests were about what exists."""
    for browser, path, shown in (
        (owner, f"/v1/clusters/{cluster}/runs/{theirs['run_id']}", SECRET),
        (owner, f"/v1/clusters/{cluster}/jobs/7/output", SECRET),
        (owner, "/v1/users/me/tokens", theirs["token_id"]),
        (admin, f"/v1/service-accounts/{theirs['name']}", SECRET),
        (admin, f"/v1/service-accounts/{theirs['name']}/keys", theirs["key_id"]),
        (admin, "/v1/invitations", theirs["invitation_id"]),
        (admin, "/v1/webhooks", SECRET),
        (owner, f"/v1/clusters/{cluster}/files/uploads?path=data", theirs["upload_id"]),
        (owner, "/v1/schedules", theirs["schedule_id"]),
        (owner, f"/v1/clusters/{cluster}/jobs/7/links", theirs["link_id"]),
        (owner, "/v1/users/me/links", theirs["link_id"]),
        (owner, "/v1/templates", theirs["template_id"]),
    ):
        async with browser.get(path) as answer:
            if shown not in await answer.text():
                return False
    return True
