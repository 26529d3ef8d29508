"""Submissions that are translated for an estimate, beside the same submissions on a real Slurm."""

from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import job_class
from clusterra_contracts.rpc.estimate import Prepare, Prepared
from clusterra_contracts.rpc.slurm import Submitted
from proxy_world import SCRIPT, ProxyWorld, find_pending, submission


async def test_a_prepared_job_is_what_the_queue_shows_of_the_same_submission(
    proxy: ProxyWorld, alice: SlurmUser
) -> None:
    script = "#!/bin/sh\n#SBATCH --array=0-9%3 --time=30 --mem-per-cpu=200 --mail-type=END\ntrue\n"
    asked = submission(alice, script, name="prepared", hold=True, cpus_per_task=2, constraints="general")

    prepared = await proxy.call("prepare", Prepare(user=alice, script=script, job=asked.job), Prepared)

    assert not (await proxy.jobs(alice, name="prepared")).jobs
    submitted = await proxy.call("submit", asked, Submitted)
    snapshot = await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, submitted.job_id) is not None)
    shown = find_pending(snapshot, submitted.job_id)
    assert shown is not None
    differ = {"job_ids": (), "array_tasks": {}, "first_submitted_at": submitted.accepted_at, "extra": ""}
    assert dict(prepared.job.model_copy(update=differ)) == dict(shown.model_copy(update=differ))
    assert job_class(prepared.job.extra)
    assert job_class(shown.extra)
    assert (prepared.tasks, prepared.job.count) == (10, 3)
    assert any("--mail-type" in warning for warning in prepared.warnings)
    await proxy.cancel(alice, submitted.job_id)


async def test_a_job_that_asks_for_no_memory_has_the_default_of_its_partition(
    proxy: ProxyWorld, alice: SlurmUser
) -> None:
    asked = submission(alice, SCRIPT, hold=True, cpus_per_task=2)
    assert asked.job.memory_per_cpu is None

    prepared = await proxy.call("prepare", Prepare(user=alice, script=SCRIPT, job=asked.job), Prepared)
    submitted = await proxy.call("submit", asked, Submitted)

    snapshot = await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, submitted.job_id) is not None)
    shown = find_pending(snapshot, submitted.job_id)
    assert shown is not None
    assert prepared.job.memory_per_cpu_mib == shown.memory_per_cpu_mib == 1024
    await proxy.cancel(alice, submitted.job_id)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("--nodes=1 --ntasks=4 --cpus-per-task=2", {}),
        ("--nodes=1", {"tasks": 4, "cpus_per_task": 2}),
        ("", {"nodes": "1", "tasks": 4, "cpus_per_task": 2}),
        ("", {"nodes": "1", "tasks_per_node": 4, "cpus_per_task": 2}),
        ("", {"minimum_nodes": 1, "maximum_nodes": 1, "tasks": 4, "cpus_per_task": 2}),
    ],
)
async def test_one_node_has_the_cpus_of_all_tasks(
    proxy: ProxyWorld, alice: SlurmUser, line: str, asked: dict[str, Any]
) -> None:
    script = f"#!/bin/sh\n#SBATCH {line}\ntrue\n"
    wanted = submission(alice, script, hold=True, memory_per_cpu=100, **asked)

    prepared = await proxy.call("prepare", Prepare(user=alice, script=script, job=wanted.job), Prepared)
    submitted = await proxy.call("submit", wanted, Submitted)

    snapshot = await proxy.until_snapshot(lambda snapshot: find_pending(snapshot, submitted.job_id) is not None)
    shown = find_pending(snapshot, submitted.job_id)
    assert shown is not None
    assert (shown.cpus, shown.cpus_per_node) == (8, 8)
    assert (prepared.job.cpus, prepared.job.cpus_per_node) == (8, 8)
    await proxy.cancel(alice, submitted.job_id)


async def test_a_submission_that_is_refused_is_not_prepared(proxy: ProxyWorld, alice: SlurmUser) -> None:
    job = submission(alice, SCRIPT).job
    refused = [
        await proxy.error_of("prepare", Prepare(user=alice, script=script, job=job.model_copy(update=asked)))
        for script, asked in (
            ("#!/bin/sh\n#SBATCH --nosuch\n", {}),
            (SCRIPT, {"array": "none"}),
            (SCRIPT, {"required_nodes": ("w[1",)}),
            (SCRIPT, {"cpus_per_task": 5000}),
            (SCRIPT, {"partition": "nosuch"}),
        )
    ]

    assert [error.kind for error in refused] == ["invalid", "invalid", "invalid", "rejected", "rejected"]
    assert all(error.hint for error in refused)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("--nodes=4-1", {}),
        ("--distribution=diagonal", {}),
        ("--begin=12/31/49 --deadline=12/30/49", {}),
        ("--gpus-per-task=1", {}),
        ("", {"nodes": "4-1"}),
        ("", {"shared": ("sometimes",)}),
        ("", {"open_mode": ("PREPEND",)}),
        ("", {"name": "a\0b"}),
        ("", {"environment": ("PATH=/bin", "A=1\0B")}),
    ],
)
async def test_a_wrong_value_is_invalid_in_a_submit_and_an_estimate(
    proxy: ProxyWorld, alice: SlurmUser, line: str, asked: dict[str, Any]
) -> None:
    script = f"#!/bin/sh\n#SBATCH {line}\ntrue\n"
    wanted = submission(alice, script)
    job = wanted.job.model_copy(update=asked)

    submitted = await proxy.error_of("submit", wanted.model_copy(update={"job": job}))
    prepared = await proxy.error_of("prepare", Prepare(user=alice, script=script, job=job))

    assert (submitted.kind, prepared.kind) == ("invalid", "invalid")
    assert submitted.detail == prepared.detail
