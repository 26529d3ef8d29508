"""Clients made for slurmrestd read through the proxy what they may see, from one list for all of them."""

import asyncio
import zlib
from typing import Any

import orjson
import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_rest import ReadRest, RestPart
from proxy_world import ProxyWorld


async def read(
    proxy: ProxyWorld, user: SlurmUser, resource: str, *, admin: bool = False, version: str = "v0.0.45", **more: Any
) -> dict[str, Any]:
    """The whole answer, put together from its parts."""
    request = ReadRest(viewer=Viewer(user=user, admin=admin), version=version, resource=resource, **more)
    part = await proxy.call("rest", request, RestPart)
    answer: dict[str, Any] = orjson.loads(part.answer)
    records = records_in(part)
    while part.after is not None:
        part = await proxy.call("rest", request.model_copy(update={"after": part.after}), RestPart)
        records += records_in(part)
    return answer | ({part.listed: records} if part.listed else {})


def records_in(part: RestPart) -> list[dict[str, Any]]:
    return [each for block in part.blocks for each in orjson.loads(b"[" + zlib.decompress(block) + b"]")]


def ids(answer: dict[str, Any]) -> set[str]:
    return {str(job["job_id"]) for job in answer["jobs"]}


@pytest.mark.parametrize("version", ["v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"])
async def test_a_list_has_the_viewers_jobs_only_and_an_admins_has_all(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser, version: str
) -> None:
    of_alice = (await proxy.submit(alice, hold=True)).job_id
    of_bob = (await proxy.submit(bob, hold=True)).job_id

    seen = await read(proxy, alice, "slurm/jobs", version=version)

    assert ids(seen) == {of_alice}
    assert seen["meta"]["plugin"]["data_parser"].endswith(version)
    assert (seen["meta"]["client"]["user"], seen["errors"]) == (alice.name, [])
    assert {of_alice, of_bob} <= ids(await read(proxy, alice, "slurm/jobs", admin=True, version=version))
    assert ids(await read(proxy, bob, "slurm/job", name=of_bob, version=version)) == {of_bob}
    request = ReadRest(viewer=Viewer(user=alice), version=version, resource="slurm/job", name=of_bob)
    assert (await proxy.error_of("rest", request)).kind == "not_found"


async def test_nodes_partitions_and_the_state_of_slurm_are_read(proxy: ProxyWorld, alice: SlurmUser) -> None:
    nodes = (await read(proxy, alice, "slurm/nodes"))["nodes"]

    assert {node["name"] for node in nodes} >= {"w1", "w2"}
    assert {node["extra"] for node in nodes} == {""}
    whole = (await read(proxy, alice, "slurm/nodes", admin=True))["nodes"]
    assert len(whole) == len(nodes)
    assert any(node["extra"] for node in whole)
    assert [node["name"] for node in (await read(proxy, alice, "slurm/node", name="w1"))["nodes"]] == ["w1"]
    partition = (await read(proxy, alice, "slurm/partitions"))["partitions"][0]
    assert (await read(proxy, alice, "slurm/partition", name=partition["name"]))["partitions"] == [partition]
    assert (await read(proxy, alice, "slurm/ping"))["pings"][0]["responding"]
    assert (await read(proxy, alice, "slurm/diag"))["statistics"]["rpcs_by_user"] == []
    assert (await read(proxy, alice, "slurm/diag", admin=True))["statistics"]["rpcs_by_user"] != []


async def test_accounting_shows_the_viewers_jobs(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    job_id = (await proxy.submit(alice)).job_id
    await proxy.wait_for_end(alice, job_id)

    assert job_id in ids(await read(proxy, alice, "slurmdb/jobs"))
    assert ids(await read(proxy, bob, "slurmdb/jobs")) == set()
    assert ids(await read(proxy, bob, "slurmdb/jobs", query={"users": str(alice.uid)})) == set()
    assert ids(await read(proxy, alice, "slurmdb/job", name=job_id)) == {job_id}
    request = ReadRest(viewer=Viewer(user=bob), version="v0.0.45", resource="slurmdb/job", name=job_id)
    assert (await proxy.error_of("rest", request)).kind == "not_found"
    associations = (await read(proxy, alice, "slurmdb/associations"))["associations"]
    assert {each["user"] for each in associations} <= {alice.name}


@pytest.mark.parametrize("version", ["v0.0.41", "v0.0.46"])
async def test_a_version_that_is_not_served_is_not_found_and_the_served_ones_are_named(
    proxy: ProxyWorld, alice: SlurmUser, version: str
) -> None:
    request = ReadRest(viewer=Viewer(user=alice), version=version, resource="slurm/ping")

    error = await proxy.error_of("rest", request)

    assert error.kind == "not_found"
    assert "v0.0.42, v0.0.43, v0.0.44, v0.0.45" in error.hint


async def test_many_lists_at_a_time_are_one_list_of_slurm(proxy: ProxyWorld, alice: SlurmUser) -> None:
    async def lists_of_slurm() -> int:
        statistics = (await read(proxy, alice, "slurm/diag", admin=True))["statistics"]
        counts = {each["message_type"]: each["count"] for each in statistics["rpcs_by_message_type"]}
        return int(counts.get("REQUEST_JOB_INFO", 0))

    await proxy.submit(alice, hold=True)
    await read(proxy, alice, "slurm/jobs")
    before = await lists_of_slurm()

    answers = await asyncio.gather(*(read(proxy, alice, "slurm/jobs") for _ in range(100)))

    assert all(ids(answer) == ids(answers[0]) for answer in answers)
    # Others of the proxy's own lists may fall into this time.
    assert await lists_of_slurm() - before <= 10


async def test_a_list_that_has_not_changed_is_empty(proxy: ProxyWorld, alice: SlurmUser) -> None:
    await proxy.submit(alice, hold=True)
    listed = await read(proxy, alice, "slurm/jobs")

    again = await read(proxy, alice, "slurm/jobs", query={"update_time": str(listed["last_update"]["number"] + 3600)})

    assert (len(listed["jobs"]), again["jobs"]) == (1, [])
    nodes = ReadRest(
        viewer=Viewer(user=alice), version="v0.0.45", resource="slurm/nodes", query={"update_time": "4000000000"}
    )
    assert (await proxy.call("rest", nodes, RestPart)).not_modified
