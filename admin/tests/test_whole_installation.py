"""`clusterra-admin` on a whole installation: the doctor names each of many faults, and a backup brings it all back."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import boto3
import pytest
from admin_command import admin, admin_process
from clusterra_admin.doctor.examination import examine
from clusterra_admin.doctor.finding import Report
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT, HB
from clusterra_contracts.heartbeat import Applied, Heartbeat
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack, stack
from clusterra_runtime.nats import bus
from doctor_faults import FAULTS, Make, Problem, World

SECONDS = 30.0
CENTRAL = ("gateway", "proxy", "scaler", "events")
ADA, GRACE = "ada@acme.example", "grace@acme.example"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    async with stack(tmp_path_factory.mktemp("installation")) as running:
        yield running


@pytest.fixture
def world(lab: Stack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    nats = lab.nats.settings("lab")
    settings = DoctorSettings(
        **nats.model_dump(include={"nats_url", "nats_user", "nats_password_file"}),
        oidc_issuer=lab.oidc.issuer,
        public_url=lab.gateway_url,
    )
    return World(lab, settings, tmp_path_factory.mktemp("files"))


def problems(report: Report) -> set[Problem]:
    return {(each.check, each.about, each.status) for each in report.findings if each.status in {"warning", "failure"}}


async def is_well(world: World) -> bool:
    return not problems(await examine(world.settings, SECONDS))


async def test_a_healthy_installation_has_no_findings(world: World) -> None:
    environment = {
        **world.lab.nats.environment("lab"),
        **world.lab.aws.environment(),
        **world.lab.oidc.environment(),
        "CLUSTERRA_PUBLIC_URL": world.lab.gateway_url,
    }
    await until(lambda: is_well(world), seconds=60, what="an installation without faults")

    text = await admin_process("doctor", environment=environment)
    in_json = await admin("doctor", "--json", environment=environment)

    assert "0 failures, 0 warnings" in text.out
    assert "\x1b[" not in text.out
    report = Report.model_validate(in_json.json)
    assert not problems(report)
    assert report.summary["ok"] > 40
    assert {each.group for each in report.findings} == {
        *("nats", "record", "issuer", "services", "clusters", "edges", "clocks", "certificates")
    }


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
async def test_a_fault_is_named_and_nothing_else(make: Make, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await until(lambda: is_well(world), seconds=60, what="an installation without faults")

    async with make(world) as fault:
        with monkeypatch.context() as environment:
            for name, value in fault.environment.items():
                environment.setenv(name, value)
            report = await examine(fault.settings, SECONDS)

    assert problems(report) == fault.expected, report.model_dump_json(indent=1)
    (found,) = [each for each in report.findings if each.status in {"warning", "failure"}]
    assert fault.advice in found.advice, found
    assert report.exit_code == (2 if found.status == "failure" else 1)


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
        {
            "accounts",
            "idempotency",
            "runs",
            "staging",
            "templates",
            "deliveries",
            "webhooks",
            "fleets",
            "events",
            "ledger",
        }
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
