"""One Idempotency-Key over two gateways and two proxies, which are killed at the worst moments: one job, one id."""

import asyncio
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import ClientConnectionError
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.reads.queue import Queue
from clusterra_cli.slurm_commands.reads.recent_submits import note_submit
from clusterra_lab.machine.process import until
from clusterra_lab.stack.stack import Stack
from submit_replicas import SUBMISSION, Replicas
from unread_bytes import unread_bytes

SUBMITS = 8
"""A submit goes to one of two proxies by chance: 1 of 256 times all of them go to the one that lists."""
LONG = SUBMISSION | {"script": f"#!/bin/sh\n# {'x' * 32_000}\ntrue\n"}
"""A submission that is larger than any other request to slurmctld."""


@pytest.fixture
def key() -> str:
    return str(uuid.uuid4())


async def sent_to_slurm(lab: Stack) -> None:
    """Wait until a submit of `LONG` has reached the suspended slurmctld, which polls and looks for jobs never fill."""
    pid, port = lab.slurm["slurmctld"].processes()[0].pid, lab.slurm.slurmctld_port
    await until(lambda: unread_bytes(pid, port) > len(LONG["script"]), seconds=30, what="the submit at slurmctld")


async def test_a_key_sent_to_both_gateways_at_once_makes_one_job(replicas: Replicas) -> None:
    for _ in range(5):
        key = str(uuid.uuid4())

        answers = await asyncio.gather(*(replicas.submit(gateway, key) for gateway in (0, 1, 0, 1)))

        assert {status for status, _ in answers} <= {201, 409}
        repeated = [(await replicas.answered(gateway, key))["job_id"] for gateway in (0, 1)]
        assert await replicas.jobs(key) == [repeated[0]]
        assert {answer["job_id"] for status, answer in answers if status == 201} | set(repeated) == {repeated[0]}
        await replicas.ada.cancel(repeated[0])


async def test_another_body_or_person_is_not_answered_with_the_job(replicas: Replicas, key: str) -> None:
    first = await replicas.answered(0, key)

    status, problem = await replicas.submit(1, key, SUBMISSION | {"script": "#!/bin/sh\nfalse\n"})
    assert (status, problem["type"]) == (422, "/v1/problems/key-reused")

    async with replicas.lab.user("grace@acme.example") as grace:
        other = await grace.submit("#!/bin/sh\ntrue\n", {"hold": True}, key=key)
        assert other.job_id != first["job_id"]
        await grace.cancel(other.job_id)
    await replicas.ada.cancel(first["job_id"])


async def test_a_timeout_of_slurmrestd_that_did_submit(replicas: Replicas, key: str) -> None:
    with replicas.lab.slurm["slurmctld"].suspended():
        status, problem = await replicas.submit(0, key)

    assert (status, problem["type"]) == (504, "/v1/problems/outcome-unknown")
    assert "nobody knows yet" in problem["detail"]
    answer = await replicas.answered(1, key)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    await replicas.ada.cancel(answer["job_id"])


async def test_a_gateway_that_is_killed_between_claim_and_answer(replicas: Replicas, key: str) -> None:
    with replicas.lab.slurm["slurmctld"].suspended():
        lost = asyncio.create_task(replicas.submit(1, key, LONG))
        await sent_to_slurm(replicas.lab)
        replicas.gateways[1].kill()
        with suppress(ClientConnectionError):
            await lost

    answer = await replicas.answered(0, key, LONG)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    await replicas.ada.cancel(answer["job_id"])


async def test_proxies_that_are_killed_between_slurms_acceptance_and_their_answer(replicas: Replicas, key: str) -> None:
    with replicas.lab.slurm["slurmctld"].suspended():
        lost = asyncio.create_task(replicas.submit(0, key, LONG))
        await sent_to_slurm(replicas.lab)
        for proxy in replicas.proxies:
            proxy.kill()
        status, problem = await replicas.submit(1, key, LONG)
        assert (status, problem["type"]) == (409, "/v1/problems/in-flight")

    await replicas.lab.restart("proxy")
    answer = await replicas.answered(1, key, LONG)
    assert answer["repeated"] is True
    assert await replicas.jobs(key) == [answer["job_id"]]
    lost.cancel()
    await replicas.ada.cancel(answer["job_id"])


async def test_a_list_has_each_submit_whichever_proxy_took_it(
    replicas: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit_and_list(gateway: Gateway) -> tuple[bool, str]:
        queue = Queue(gateway)
        queue.all()
        job_id = str(gateway.jobs_api("POST", "submit", SUBMISSION)["job_id"])
        note_submit(gateway, job_id)
        return job_id in {job.full_id for job in queue.all()}, job_id

    async with replicas.ada.api_token("replicas") as token:
        monkeypatch.setenv("CLUSTERRA_URL", replicas.lab.gateway_url)
        monkeypatch.setenv("CLUSTERRA_CLUSTER", replicas.ada.cluster)
        monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))
        monkeypatch.setenv("CLUSTERRA_TOKEN", token)
        gateway = Gateway()
        submitted = [await asyncio.to_thread(submit_and_list, gateway) for _ in range(SUBMITS)]
        await asyncio.to_thread(gateway.transport.close)

    for _, job_id in submitted:
        await replicas.ada.cancel(job_id)
    assert [listed for listed, _ in submitted] == [True] * SUBMITS
