"""A whole installation is lost and comes back from its backup: people, history, and jobs that run."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import boto3
import pytest
from admin_command import admin
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT, HB
from clusterra_contracts.heartbeat import Applied, Heartbeat
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack, stack
from clusterra_runtime.nats import bus

CENTRAL = ("gateway", "proxy", "scaler", "events")
ADA, GRACE = "ada@acme.example", "grace@acme.example"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    async with stack(tmp_path_factory.mktemp("backup")) as running:
        yield running


async def run_job(user: User) -> str:
    job = await user.submit("#!/bin/sh\necho done\n", {"name": "rehearsal"})

    async def completed() -> bool:
        return (await user.job(job.job_id)).state == "COMPLETED"

    await until(completed, seconds=120, what="the end of a job", every=0.3)
    return job.job_id


async def completed_jobs(user: User) -> set[str]:
    return {str(event.subject) for event in await user.history("job.completed")}


async def applied(lab: Stack) -> Applied | None:
    found = await bus.last(lab.bus, HB.name, subjects.heartbeat(lab.cluster), Heartbeat)
    return found[0].applied if found else None


async def lose_everything(lab: Stack, environment: dict[str, str]) -> None:
    """The central side loses NATS' store and all tables. Slurm and the edge go on."""
    for name in CENTRAL:
        await lab.services[name].stop()
    await lab.nats.kill()
    shutil.rmtree(lab.home.state / "nats" / "store")
    await lab.nats.restart()
    dynamodb = boto3.client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_REGION"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    for table in dynamodb.list_tables()["TableNames"]:
        dynamodb.delete_table(TableName=table)
    assert dynamodb.list_tables()["TableNames"] == []


async def test_an_installation_comes_back_from_its_backup(lab: Stack, tmp_path: Path) -> None:
    environment = {**lab.nats.environment("lab"), **lab.aws.environment()}
    folder = tmp_path / "backup"
    async with lab.user(ADA) as ada:
        uid, before_job = ada.profile.uid, await run_job(ada)

        async def archived() -> bool:
            return before_job in await completed_jobs(ada)

        await until(archived, seconds=90, what="the archive of the job's events", every=0.3)
    order_before = await applied(lab)
    assert order_before is not None
    last_sequence = (await lab.bus.jetstream().stream_info(EVENT.name)).state.last_seq

    taken = await admin("backup", str(folder), "--json", environment=environment)

    assert taken.json["highest_fence"] >= order_before.fence
    assert {table["name"] for table in taken.json["tables"]} == (
        {"accounts", "idempotency", "runs", "staging", "templates", "fleets", "events", "ledger"}
    )
    async with lab.user(GRACE) as grace:
        lost_uid = grace.profile.uid
    await lose_everything(lab, environment)

    await admin("topology", "apply", environment=environment)
    too_early = await admin("restore", str(folder), environment=environment, code=1)
    assert "tables apply" in too_early.err
    await admin("tables", "apply", environment=environment)
    restored = await admin("restore", str(folder), "--json", environment=environment)
    again = await admin("restore", str(folder), environment=environment, code=1)

    assert sum(part["bad"] for part in (*restored.json["tables"], *restored.json["streams"])) == 0
    assert restored.json["clusters"] == 1
    assert "is not empty" in again.err
    state = (await lab.bus.jetstream().stream_info(EVENT.name)).state
    assert state.first_seq > last_sequence

    for name in CENTRAL:
        await lab.services[name].start()
    for name in CENTRAL:
        await lab.services[name].ready()
    async with lab.user(ADA) as ada, lab.user(GRACE) as grace:
        assert ada.profile.uid == uid
        assert before_job in await completed_jobs(ada)
        assert grace.profile.uid > lost_uid, "the uid of somebody who is not in the backup must not be given again"
        after_job = await run_job(ada)
        await run_job(grace)

        async def archived_too() -> bool:
            return {before_job, after_job} <= await completed_jobs(ada)

        await until(archived_too, seconds=90, what="the history of both lives", every=0.3)
    order_after = await applied(lab)
    assert order_after is not None
    assert order_after.fence > order_before.fence
    well = {**environment, **lab.oidc.environment(), "CLUSTERRA_PUBLIC_URL": lab.gateway_url}
    await admin("doctor", environment=well)
