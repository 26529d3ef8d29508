"""Whose jobs a member sees: their own, or everybody's where the cluster's visibility says so."""

import itertools

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Fact, FileFact, JobFact, NodeFact
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.registry import Visibility
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see, sight
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import Registry, put_binding
from gateway_world import World
from sse_reader import sse_reader

JOBS = "/v1/clusters/main/jobs"
JOB = f"{JOBS}/7"
STREAM = "/v1/clusters/main/events/stream"


async def change_visibility(world: World, visibility: Visibility) -> None:
    registry = Registry()
    await registry.start(world.client)
    try:
        binding = registry.get(world.acme.ref)
        assert binding is not None
        changed = binding.model_copy(update={"visibility": visibility, "version": binding.version + 1})
        await put_binding(world.client, world.acme.ref, changed)
    finally:
        await registry.stop()


async def status(browser: aiohttp.ClientSession, method: str, path: str) -> int:
    async with browser.request(method, path) as answer:
        return answer.status


async def until_seen(browser: aiohttp.ClientSession, path: str, expected: int) -> None:
    async def seen() -> bool:
        return await status(browser, "GET", path) == expected

    await until(seen, seconds=90, what=f"{path} to be {expected}")


async def listed(browser: aiohttp.ClientSession) -> int:
    async with browser.get(JOBS) as answer:
        return int((await answer.json())["total"])


async def test_a_member_sees_everybodys_jobs_where_the_visibility_says_so(world: World) -> None:
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")
    async with ada.get("/v1/users/me") as answer:
        world.acme.add_job("7", uid=(await answer.json())["uid"])
    assert await status(bob, "GET", JOB) == 404
    assert await status(bob, "DELETE", JOB) == 404
    assert await listed(bob) == 0

    await change_visibility(world, "tenant")
    await until_seen(bob, JOB, 200)
    assert await status(bob, "DELETE", JOB) == 403
    assert await listed(bob) == 1

    await change_visibility(world, "own")
    await until_seen(bob, JOB, 404)
    assert await status(ada, "DELETE", JOB) == 204


async def test_a_stream_ends_when_the_visibility_changes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra_gateway.http.answers.sse.PING_SECONDS", 0.1)
    world.acme.add_job("7", uid=1)
    bob = await world.login("bob@acme.example")
    await change_visibility(world, "tenant")
    await until_seen(bob, JOB, 200)

    async with sse_reader(bob, STREAM) as stream:
        await change_visibility(world, "own")
        await stream.until_end()


def test_what_admins_did_to_members_tokens_and_keys_is_for_admins_alone() -> None:
    fact = AdminFact(kind="member.changed", actor="boss", subject="bob")
    ada = SlurmUser(name="ada", uid=20001, gid=20001)

    assert may_see(Viewer(user=ada, admin=True), fact)
    assert not may_see(Viewer(user=ada, sees_all=True), fact)


def test_that_a_cluster_was_paused_or_resumed_is_for_everybody() -> None:
    ada = SlurmUser(name="ada", uid=20001, gid=20001)

    assert may_see(Viewer(user=ada), AdminFact(kind="cluster.paused", actor="boss", subject="c1"))
    assert may_see(Viewer(user=ada), AdminFact(kind="cluster.resumed", actor="boss", subject="c1"))
    assert not may_see(Viewer(user=ada), AdminFact(kind="cluster.changed", actor="boss", subject="c1"))


def test_who_shares_a_stream_with_others_sees_exactly_what_they_see() -> None:
    users = [SlurmUser(name=name, uid=uid, gid=20001) for name, uid in (("ada", 20001), ("bob", 20002))]
    viewers = [
        Viewer(user=user, admin=admin, sees_all=sees_all, identified=identified)
        for user, admin, sees_all, identified in itertools.product(users, *[(True, False)] * 3)
        if identified or admin
    ]
    jobs = [
        JobFact(
            kind="job.failed",
            job_id="7",
            name="x",
            user="x",
            uid=uid,
            partition="main",
            state="FAILED",
            submitted_at=now(),
        )
        for uid in (20001, 20002)
    ]
    files = [FileFact(kind="file.deleted", actor="x", uid=uid, paths=("data/x",)) for uid in (20001, 20002)]
    facts: list[Fact] = [
        *jobs,
        *files,
        NodeFact(kind="node.down", node="n1"),
        AdminFact(kind="member.changed", actor="boss", subject="bob"),
        AdminFact(kind="cluster.paused", actor="boss", subject="c1"),
    ]
    for one, other in itertools.combinations(viewers, 2):
        if sight(one) == sight(other):
            assert [may_see(one, each) for each in facts] == [may_see(other, each) for each in facts]
    assert len({sight(each) for each in viewers}) == 5, "admins share theirs"
