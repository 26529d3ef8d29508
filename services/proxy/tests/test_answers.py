"""A real slurmrestd's answers in every version, and the records and errors that they become."""

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Rejected,
    Unauthenticated,
    Unreachable,
)
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from slurm_world import SlurmWorld

SCRIPT = "#!/bin/sh\ntrue\n"


@pytest.fixture(params=VERSIONS, ids=[version.name for version in VERSIONS])
async def slurmctld(
    request: pytest.FixtureRequest, slurm: SlurmWorld, workers: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Slurmctld]:
    """A client that supports only one version."""
    version: Version = request.param
    monkeypatch.setattr("clusterra_proxy.slurmrestd.slurmctld.VERSIONS", (version,))
    async with slurm.slurmctld() as slurmctld:
        yield slurmctld
        assert slurmctld.api_version == version.name


def job_fields(slurm: SlurmWorld, **fields: object) -> dict[str, object]:
    return {
        "environment": ["PATH=/usr/bin:/bin"],
        "current_working_directory": slurm.shared_path,
        "standard_output": "/dev/null",
        **fields,
    }


async def test_the_preferred_version_is_used(slurm: SlurmWorld) -> None:
    async with slurm.slurmctld() as slurmctld:
        assert await slurmctld.ping(slurm.token(slurm.operator))
        assert slurmctld.api_version == VERSIONS[0].name
        assert slurmctld.slurm_version.startswith("26.")


async def test_a_job_from_submit_to_end(slurmctld: Slurmctld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    token, operator = slurm.token(alice), slurm.token(slurm.operator)
    submitted = await slurmctld.submit(token, SCRIPT, job_fields(slurm, name="versions"))
    job_id = str(submitted.job_id)

    assert job_id in {row.job_id for row in (await slurmctld.states(operator)).jobs}

    async def ended() -> bool:
        return (await slurmctld.job(operator, job_id))[0].state == "COMPLETED"

    await until(ended, seconds=90, what="the job's end", every=0.1)
    (record,) = await slurmctld.job(token, job_id)

    assert (record.name, record.user_id, record.stdout_expanded) == ("versions", alice.uid, "/dev/null")
    with pytest.raises(Conflict) as over:
        await slurmctld.kill(token, job_id)
    assert over.value.error.code == 2021


async def test_invalid_tokens_are_rejected(slurmctld: Slurmctld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    valid = slurm.token(alice)
    head, body, signature = valid.split(".")
    altered = f"{head}.{body}.{signature[:-6]}AAAAAA"
    for token in ("malformed", altered, slurm.token(alice, seconds=-10)):
        # A ping succeeds with any token.
        await slurmctld.version(token)
        with pytest.raises(Unauthenticated):
            await slurmctld.states(token)
        with pytest.raises(Unauthenticated):
            await slurmctld.submit(token, SCRIPT, job_fields(slurm))


async def test_missing_jobs_are_not_found(slurmctld: Slurmctld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    token = slurm.token(alice)
    with pytest.raises(NotFound):
        await slurmctld.job(token, "999999")
    with pytest.raises(NotFound):
        await slurmctld.kill(token, "999999")


async def test_another_users_job_is_hidden_and_cannot_be_cancelled(
    slurmctld: Slurmctld, slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    submitted = await slurmctld.submit(slurm.token(alice), SCRIPT, job_fields(slurm, hold=True))
    job_id = str(submitted.job_id)

    with pytest.raises(NotFound):
        await slurmctld.job(slurm.token(bob), job_id)
    with pytest.raises(Forbidden):
        await slurmctld.kill(slurm.token(bob), job_id)

    await slurmctld.kill(slurm.token(alice), job_id)
    (record,) = await slurmctld.job(slurm.token(alice), job_id)

    assert (record.state, record.started_at) == ("CANCELLED", None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"current_working_directory": None}, 2063),
        ({"environment": []}, 2127),
        ({"constraints": "nothing-has-this"}, 2029),
        ({"partition": "nowhere"}, 2000),
        ({"memory_per_node": 10**9}, 2014),
        ({"excluded_nodes": ["nowhere"]}, 2018),
    ],
)
async def test_slurms_rejections_keep_their_error_number(
    slurm: SlurmWorld, workers: None, alice: SlurmUser, fields: dict[str, object], code: int
) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(Rejected) as rejected:
            await slurmctld.submit(slurm.token(alice), SCRIPT, job_fields(slurm, **fields))
    assert rejected.value.error.code == code


async def test_a_submit_for_another_user_is_forbidden(slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(Forbidden):
            await slurmctld.submit(slurm.token(alice), SCRIPT, job_fields(slurm, user_id=str(bob.uid)))


async def test_unchanged_lists_are_none(slurmctld: Slurmctld, slurm: SlurmWorld) -> None:
    token = slurm.token(slurm.operator)

    async def no_changed_nodes() -> bool:
        listed = await slurmctld.nodes(token)
        return listed is not None and await slurmctld.nodes(token, changed_after=listed[1]) is None

    async def no_changed_jobs() -> bool:
        listed = await slurmctld.jobs(token)
        return listed is not None and await slurmctld.jobs(token, changed_after=listed[2]) is None

    # Slurm reports a change for another second.
    await until(no_changed_nodes, seconds=90, what="an answer of 304", every=0.2)
    await until(no_changed_jobs, seconds=90, what="an empty list", every=0.2)


async def test_missing_nodes_are_not_found(slurmctld: Slurmctld, slurm: SlurmWorld) -> None:
    token = slurm.token(slurm.operator)
    with pytest.raises(NotFound):
        await slurmctld.node(token, "nowhere")
    with pytest.raises(NotFound):
        await slurmctld.update_node(token, "nowhere", ["DRAIN"], "test")
    assert not await slurmctld.delete_node(token, "nowhere")


@pytest.mark.parametrize("name", ["", "w[1-2]", "../jobs/", "w1?x=1", "w1,w2", "-w1", "w" * 64])
async def test_a_node_name_that_is_not_a_single_name_is_invalid(slurm: SlurmWorld, name: str) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(Invalid):
            await slurmctld.node(slurm.token(slurm.operator), name)


async def test_concurrent_callers_share_one_list(slurm: SlurmWorld) -> None:
    token = slurm.token(slurm.operator)
    async with slurm.slurmctld() as slurmctld:
        await slurmctld.version(token)
        answers = await asyncio.gather(*(slurmctld.jobs(token) for _ in range(20)))
        assert len({id(answer) for answer in answers}) == 1
        assert await slurmctld.jobs(token) is not answers[0]


async def test_a_caller_of_the_whole_list_does_not_share_a_list_of_changes(slurm: SlurmWorld) -> None:
    token = slurm.token(slurm.operator)
    async with slurm.slurmctld() as slurmctld:
        await slurmctld.version(token)
        tomorrow = int(time.time()) + 86400
        changed, whole = await asyncio.gather(slurmctld.jobs(token, changed_after=tomorrow), slurmctld.jobs(token))

    assert changed is None
    assert whole is not None


async def test_connections_are_reused_and_replaced_after_errors(slurm: SlurmWorld) -> None:
    opened = 0

    async def count(*_: object) -> None:
        nonlocal opened
        opened += 1

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(count)
    async with Slurmrestd(slurm.cluster.slurmrestd_url, traces=[tracing]) as slurmrestd:
        slurmctld = Slurmctld(slurmrestd)
        token = slurm.token(slurm.operator)
        for _ in range(20):
            await slurmctld.states(token)

        assert opened == 1

        for _ in range(3):
            with pytest.raises(NotFound):
                await slurmctld.job(token, "999999")
            await slurmctld.states(token)

        # An error closes its connection, and its second answer does not reach the next one.
        assert opened == 4


async def test_slurmrestd_rejects_a_second_identity_in_a_request(slurm: SlurmWorld) -> None:
    token = slurm.token(slurm.operator)
    url = f"{slurm.cluster.slurmrestd_url}{VERSIONS[0].slurm('ping/')}"
    both = {"X-SLURM-USER-TOKEN": token, "Authorization": f"Bearer {token}"}
    connector = SlurmrestdConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as http, http.get(url, headers=both) as answer:
        assert answer.status == 401


async def test_a_closed_port_is_unreachable(slurm: SlurmWorld) -> None:
    async with Slurmrestd(f"http://127.0.0.1:{free_port()}") as slurmrestd:
        with pytest.raises(Unreachable):
            await slurmrestd.read("slurm/v0.0.45/ping/", "token", Answer, entity="slurmctld")
