"""On a cluster whose uids are not Clusterra's, people are the users that the tenant's identity source says."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.directory.maps import map_records, refresh
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.tenants.specification import ProvisionFile
from clusterra_lab.machine.process import until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.outbox import Outbox
from gateway_world import World, apply_file, provisioned
from people_world import owner
from scim_world import POSIX_GROUP, POSIX_USER, directory_of, person
from test_schedules import Replica

JOBS = "/v1/clusters/main/jobs"
IDENTITY = "/v1/clusters/main/identity"
SUBMIT = {"script": "#!/bin/sh\nid\n", "job": {"name": "who", "environment": ["PATH=/usr/bin:/bin"]}}
ADA = {"name": "alovelace", "uid": 5001, "gid": 5000, "group": "people", "emails": ["Ada@acme.example"]}
CHEM = {"groups": [7001], "group_names": ["chem"], "home": "/home/alovelace"}
PASSWD = """\
root:x:0:0:root:/root:/bin/bash
bob:x:5002:5000:Bob,,,:/home/bob:/bin/bash
broken line
eve:x:5003:100:Eve:/home/eve:/bin/bash
"""
LDAP = {"kind": "ldap", "url": "ldaps://ldap.campus.example", "users_base": "ou=people,dc=campus"}
GROUP = "people:x:5000:\ndocker:x:998:bob\nchem:x:7001:bob,alovelace\n"


class Site:
    """A gateway, and the provision file of its tenant `acme`."""

    def __init__(self, world: World, outbox: Outbox, registry: Registry) -> None:
        self.world = world
        self._directory = Directory(world.store, outbox)
        self._registry = registry

    async def provision(self, source: dict[str, Any], **cluster: Any) -> tuple[str, ...]:
        """Apply a file and wait until the gateway knows the cluster. Return why users are refused."""
        tenant: dict[str, Any] = provisioned("acme", "main", admins=("boss@acme.example",))
        tenant |= {"identity_sources": {"campus": source}, "identity_source": "campus"}
        tenant["clusters"][0].update(cluster)
        await apply_file(self._directory, tenant)
        await Projection(self._directory, self.world.client, self._registry).project()
        async with await self.world.login("boss@acme.example") as boss:

            async def known() -> bool:
                wanted = None if cluster.get("identity_source") == "allocated" else "campus"
                return bool((await get(boss, IDENTITY))["identity_source"] == wanted)

            await until(known, seconds=90, what="the gateway to know the identity source")
        state, _ = await MapRecords(self.world.store).state(MapRef("acme", "campus"))
        return state.reasons


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A server of its own: the registry of the others keeps what these tests make of the cluster."""
    async with declared_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    registry = Registry()
    await registry.start(world.client)
    async with Outbox(world.store, partial(bus.store, world.client)) as outbox:
        yield Site(world, outbox, registry)
    await registry.stop()


async def get(browser: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with browser.get(path) as answer:
        assert answer.status == 200, await answer.text()
        content: dict[str, Any] = await answer.json()
        return content


async def submit(browser: aiohttp.ClientSession) -> tuple[int, str]:
    async with browser.post(f"{JOBS}/submit", json=SUBMIT) as answer:
        return answer.status, await answer.text()


async def test_jobs_run_as_the_user_of_the_map(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA | CHEM]})
    ada = await site.world.login("ada@acme.example")

    status, text = await submit(ada)

    assert status == 201, text
    assert site.world.acme.submits[-1].user == SlurmUser(
        name="alovelace",
        uid=5001,
        gid=5000,
        group="people",
        groups=(7001,),
        group_names=("chem",),
        home="/home/alovelace",
    )
    identity = await get(ada, IDENTITY)
    assert (identity["name"], identity["uid"], identity["reason"]) == ("alovelace", 5001, "")
    assert {group["name"]: group["gid"] for group in identity["groups"]} == {"people": 5000, "chem": 7001}


async def test_a_person_without_an_entry_cannot_submit_and_is_told_why(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]})
    bob = await site.world.login("bob@acme.example")

    status, text = await submit(bob)

    assert status == 403
    assert "the identity source campus has no user for the address bob@acme.example" in text
    assert "bob@acme.example" in (await get(bob, IDENTITY))["reason"]
    assert site.world.acme.submits == []
    async with bob.get(JOBS) as answer:
        assert answer.status == 403


async def test_a_clusterra_uid_is_never_compared_with_those_of_the_cluster(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]}, attached=True, visibility="tenant")
    world = site.world
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    ours = (await get(ada, "/v1/users/me"))["uid"], (await get(boss, "/v1/users/me"))["uid"]
    for job_id, uid in (("7", ours[0]), ("8", ours[1]), ("9", 5001)):
        world.acme.add_job(job_id, user="stranger", uid=uid)

    assert [job["job_id"] for job in (await get(ada, JOBS))["jobs"]] == ["9"]
    assert {job["job_id"] for job in (await get(boss, JOBS))["jobs"]} == {"7", "8", "9"}
    async with ada.get(f"{JOBS}/7") as answer:
        assert answer.status == 404
    assert not world.acme.lists[-1].viewer.identified
    assert not world.acme.lists[-1].viewer.owns(ours[1])


async def test_who_is_nobody_on_the_cluster_cancels_nobodys_jobs_by_their_own_name(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]}, attached=True)
    boss = await site.world.login("boss@acme.example")
    site.world.acme.add_job("7", user="boss", uid=9000)

    async with boss.post(f"{JOBS}/cancel", json={"partition": "main"}) as answer:
        assert answer.status == 403, await answer.text()

    assert site.world.acme.cancelled == []


TEMPLATE = {"params": {"commands": "id"}}
RUN = {"run_name": "who", "steps": [{"step_id": "who", "script": SUBMIT["script"], "job": SUBMIT["job"]}]}
SCHEDULE = {"name": "who", "template_id": "shell", "cron": "*/5 * * * *", **TEMPLATE}


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/launchables/shell/submit", TEMPLATE), ("/v1/clusters/main/runs", RUN)]
)
async def test_templates_and_runs_are_those_of_the_user_of_the_map(site: Site, path: str, body: dict[str, Any]) -> None:
    await site.provision({"kind": "file", "users": [ADA]})
    ada, bob = await site.world.login("ada@acme.example"), await site.world.login("bob@acme.example")

    async with ada.post(path, json=body) as accepted, bob.post(path, json=body) as refused:
        assert accepted.status == 201, await accepted.text()
        assert refused.status == 403
        assert "has no user for the address bob@acme.example" in await refused.text()

    (submitted,) = site.world.acme.submits
    assert (submitted.user.name, submitted.user.uid) == ("alovelace", 5001)


async def test_a_schedule_submits_as_the_user_of_the_map_while_there_is_one(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]})
    world = site.world
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")
    async with bob.post("/v1/schedules", json=SCHEDULE) as answer:
        assert answer.status == 403, await answer.text()
    async with ada.post("/v1/schedules", json=SCHEDULE) as answer:
        assert answer.status == 201, await answer.text()
        schedule = await answer.json()
    tick = datetime.fromisoformat(schedule["next_tick"])

    await Replica(world).tick(tick + timedelta(seconds=1))
    world.acme.set_state("1", "COMPLETED")
    await site.provision({"kind": "file", "users": []})
    await Replica(world).tick(tick + timedelta(minutes=5, seconds=1))

    (submitted,) = world.acme.submits
    assert (submitted.user.name, submitted.user.uid) == ("alovelace", 5001)
    outcome = (await get(ada, f"/v1/schedules/{schedule['id']}"))["last_outcome"]
    assert outcome.startswith("not submitted: its owner has no user on the cluster: ")


async def test_a_quota_counts_the_jobs_of_the_user_of_the_map(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]})
    site.world.acme.time_limit_seconds = 3600.0
    ada, boss = await site.world.login("ada@acme.example"), await site.world.login("boss@acme.example")
    for name in ("ada", "alovelace"):
        async with boss.put(f"/v1/quotas/user/{name}", json={"limit": "0.10", "mode": "block"}) as answer:
            assert answer.status == 200, await answer.text()

    status, text = await submit(ada)

    assert status == 403
    assert "user alovelace" in text
    assert [each["name"] for each in (await get(ada, "/v1/quotas"))["quotas"]] == ["alovelace"]


async def test_passwd_and_group_files_are_read_line_by_line(site: Site) -> None:
    source = {"kind": "file", "passwd": PASSWD, "group": GROUP, "email_domain": "acme.example"}

    refused = await site.provision(source)

    bob = await site.world.login("bob@acme.example")
    assert (await submit(bob))[0] == 201
    user = site.world.acme.submits[-1].user
    assert (user.name, user.uid, user.home) == ("bob", 5002, "/home/bob")
    assert user.gid_of == {"people": 5000, "chem": 7001}
    shown = await get(await site.world.login("boss@acme.example"), "/v1/identity-sources")
    (state,) = shown["identity_sources"]
    assert (state["kind"], state["users"], state["refused"]) == ("file", 1, 2)
    assert any("passwd:3" in reason for reason in state["reasons"])
    assert any(reason.startswith("eve: gid") for reason in state["reasons"])
    assert len(refused) == 2


async def test_a_name_keeps_its_uid_and_a_uid_its_name(site: Site) -> None:
    other = {"name": "bob", "uid": 5002, "gid": 5000, "emails": ["bob@acme.example"]}
    await site.provision({"kind": "file", "users": [ADA, other]})

    refused = await site.provision({"kind": "file", "users": [ADA | {"uid": 5009}, other | {"name": "robert"}]})

    assert any("alovelace: has uid 5001 for good" in change for change in refused), refused
    assert any("robert: uid 5002 belongs to user bob for good" in change for change in refused), refused
    assert (await submit(await site.world.login("ada@acme.example")))[0] == 201
    assert site.world.acme.submits[-1].user.uid == 5001


async def test_a_user_that_the_source_lacks_can_no_longer_submit(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]})
    other = {"name": "bob", "uid": 5002, "gid": 5000, "emails": ["bob@acme.example"]}

    await site.provision({"kind": "file", "users": [other]})

    status, text = await submit(await site.world.login("ada@acme.example"))
    assert status == 403, text
    assert await site.provision({"kind": "file", "users": [other]}) == ()


async def test_a_service_account_is_a_user_only_where_the_map_says_so(site: Site) -> None:
    runner = {"name": "runner", "uid": 5010, "gid": 5010, "service_account": True}
    person = {"name": "carol", "uid": 5011, "gid": 5011, "emails": ["carol@acme.example"]}
    await site.provision({"kind": "file", "users": [runner, person]})
    boss = await site.world.login("boss@acme.example")

    statuses = {}
    for name in ("runner", "carol"):
        async with boss.post("/v1/service-accounts", json={"name": name}) as answer:
            assert answer.status == 201, await answer.text()
        async with boss.post(f"/v1/service-accounts/{name}/keys", json={"name": "k"}) as answer:
            token = (await answer.json())["token"]
        async with aiohttp.ClientSession(site.world.url, headers={"Authorization": f"Bearer {token}"}) as program:
            statuses[name] = (await submit(program))[0]

    assert statuses == {"runner": 201, "carol": 403}
    assert site.world.acme.submits[-1].user.uid == 5010


@pytest.mark.usefixtures("quick_sweeps")
async def test_jobs_run_as_the_user_whom_a_directory_provisions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "PROVISIONED_SECONDS", 0.0)
    monkeypatch.setattr(map_records, "CACHE_SECONDS", 0.0)
    await site.provision({"kind": "scim"})
    ada = await site.world.login("ada@acme.example")
    boss = await site.world.login("boss@acme.example")
    posix = {"uid": "alovelace", "uidNumber": "5001", "gidNumber": 5000, "homeDirectory": "/home/alovelace"}

    async def named(name: str | None) -> bool:
        return bool((await get(ada, IDENTITY))["name"] == name)

    async with directory_of(site.world, await owner(site.world)) as directory:
        user = await directory.made("/Users", person("ada@acme.example") | {POSIX_USER: posix})
        await directory.made("/Groups", {"displayName": "people", POSIX_GROUP: {"gidNumber": 5000}})
        chem = {"displayName": "Chem users", POSIX_GROUP: {"cn": "chem", "gidNumber": 7001}}
        await directory.made("/Groups", chem | {"members": [{"value": user["id"]}]})
        bob = person("bob@acme.example") | {POSIX_USER: {"uidNumber": 5002}}
        await directory.made("/Users", bob)

        async def with_groups() -> bool:
            return {each["gid"] for each in (await get(ada, IDENTITY))["groups"]} == {5000, 7001}

        async def state() -> tuple[str, int, list[str]]:
            (shown,) = (await get(boss, "/v1/identity-sources"))["identity_sources"]
            return shown["kind"], shown["users"], shown["reasons"]

        async def whole() -> bool:
            return await state() == ("scim", 1, ["bob: has a uidNumber and no gidNumber"])

        await until(with_groups, seconds=90, what="the map of what was provisioned")
        status, text = await submit(ada)
        # A sweep between the requests above has read Ada without Bob.
        await until(whole, seconds=90, what="the state with the refused user")
        await directory.patched(f"/Users/{user['id']}", {"op": "Remove", "path": f"{POSIX_USER}:uidNumber"})
        await until(lambda: named(None), seconds=90, what="a user without a uid")

    assert status == 201, text
    assert site.world.acme.submits[-1].user == SlurmUser(
        name="alovelace",
        uid=5001,
        gid=5000,
        group="people",
        groups=(7001,),
        group_names=("chem",),
        home="/home/alovelace",
    )


async def test_a_source_keeps_its_kind(site: Site) -> None:
    await site.provision({"kind": "file", "users": [ADA]})

    with pytest.raises(Conflict, match="kind file"):
        await site.provision(LDAP)


async def test_an_attached_cluster_needs_an_identity_source(site: Site) -> None:
    with pytest.raises(InvalidRequest, match="is attached"):
        await site.provision({"kind": "file", "users": [ADA]}, attached=True, identity_source="allocated")


@pytest.mark.parametrize(
    ("tenant", "cluster", "problem"),
    [
        ({"identity_source": "nowhere"}, {}, "no identity source nowhere"),
        ({"identity_sources": {"allocated": LDAP}}, {}, "can be called allocated"),
        (
            {"identity_sources": {"a": LDAP | {"url": "ldap://ldap.campus.example", "plaintext": True}}},
            {},
            "on this machine only",
        ),
        ({"identity_sources": {"a": LDAP | {"bind_dn": "cn=reader"}}}, {}, "belong together"),
        ({"identity_sources": {"a": {"kind": "file", "passwd": PASSWD}}}, {}, "passwd needs an email_domain"),
        ({"identity_sources": {"a": {"kind": "file", "users": [ADA | {"name": "root"}]}}}, {}, "is reserved"),
        ({"identity_sources": {"a": {"kind": "file", "users": [ADA | {"uid": 0}]}}}, {}, "greater than or equal"),
    ],
)
def test_a_wrong_provision_file_is_refused(tenant: dict[str, Any], cluster: dict[str, Any], problem: str) -> None:
    given: dict[str, Any] = provisioned("acme", "main") | tenant
    given["clusters"][0].update(cluster)

    with pytest.raises(ValueError, match=problem):
        ProvisionFile.model_validate({"tenants": [given]})
