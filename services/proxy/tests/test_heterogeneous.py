"""Heterogeneous jobs on a real Slurm: submitted as one, found by their key, read by component, cancelled together."""

import re
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.estimate import Prepare, Prepared
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import Claim, Component, JobDescription, Submit, Submitted, Viewer
from clusterra_contracts.rpc.slurm_jobs import ChangeJob, Hold, Release, Requeue
from clusterra_lab.machine.process import until
from clusterra_proxy.requests.claim import latest_begin
from proxy_world import SCRIPT, ProxyWorld, submission
from slurm_world import SlurmWorld

KEY = "key-of-several"
ENVIRONMENT = ("PATH=/usr/bin:/bin",)


def several(user: SlurmUser, *further: dict[str, Any], **first: Any) -> Submit:
    """A submit with a component for each of `further` besides the first."""
    components = tuple(
        Component(job=JobDescription.model_validate({"environment": ENVIRONMENT, **fields})) for fields in further
    )
    return submission(user, **first).model_copy(update={"components": components})


def variables(output: str) -> dict[str, str]:
    """The variables that a job found, without those that each job and its nodes have of their own."""
    own = re.compile(r"JOB_?ID|SLUID|TASK_PID|TIME|NODELIST|NODENAME|TOPOLOGY_ADDR|SUBMIT_HOST|PRIO_PROCESS")
    pairs = (line.partition("=") for line in output.splitlines())
    return {name: value for name, _, value in pairs if not own.search(name)}


async def test_all_components_are_one_job_to_read_to_find_and_to_cancel(proxy: ProxyWorld, alice: SlurmUser) -> None:
    asked = several(alice, {"cpus_per_task": 2, "hold": True}, {"tasks": 3, "hold": True}, name="trio", hold=True)
    first_claim = Claim(claimed_at=now(), sent_at=now(), first=True, begin_by=latest_begin())
    asked = asked.model_copy(update={"idempotency_key": KEY, "claim": first_claim})

    submitted = await proxy.call("submit", asked, Submitted)

    first = await proxy.job(alice, submitted.job_id)
    jobs = [await proxy.job(alice, job_id) for job_id in first.het_components]
    again = asked.model_copy(
        update={"claim": first_claim.model_copy(update={"first": False, "begin_by": latest_begin()})}
    )
    found = await proxy.call("submit", again, Submitted)
    await proxy.cancel(alice, submitted.job_id)
    ended = [(await proxy.wait_for_end(alice, job_id)).state for job_id in first.het_components]
    assert [(job.job_id, job.name, job.het_offset, job.cpus) for job in jobs] == [
        (first.het_components[0], "trio", 0, 1),
        (first.het_components[1], "trio", 1, 2),
        (first.het_components[2], "trio", 2, 3),
    ]
    assert {job.het_job_id for job in jobs} == {submitted.job_id}
    assert {job.user for job in jobs} == {alice.name}
    assert (found.job_id, found.repeated) == (submitted.job_id, True)
    assert ended == ["CANCELLED"] * 3


async def test_all_components_are_held_released_and_cancelled_together(proxy: ProxyWorld, alice: SlurmUser) -> None:
    later = {"begin_time": 4_000_000_000}
    submitted = await proxy.call("submit", several(alice, later, name="duo", **later), Submitted)
    components = (await proxy.job(alice, submitted.job_id)).het_components

    reasons = []
    for change, job_id in ((Hold(), components[0]), (Release(), components[1])):
        await proxy.call("change", ChangeJob(viewer=Viewer(user=alice), jobs=job_id, change=change), Done)
        reasons.append([(await proxy.job(alice, each)).reason == "JobHeldUser" for each in components])
    await proxy.cancel(alice, components[1])
    states = [(await proxy.wait_for_end(alice, each)).state for each in components]

    assert reasons == [[True, True], [False, False]]
    assert states == ["CANCELLED", "CANCELLED"]


async def test_all_components_are_requeued_and_one_that_runs_ends_alone(
    proxy: ProxyWorld, workers: None, alice: SlurmUser
) -> None:
    script = "#!/bin/sh\nwhile :; do sleep 0.2; done\n"
    submitted = await proxy.call("submit", several(alice, {}, script=script, time_limit=5), Submitted)
    first, second = (await proxy.job(alice, submitted.job_id)).het_components

    async def run(restarts: int) -> bool:
        jobs = [await proxy.job(alice, each) for each in (first, second)]
        return {(job.state, job.restarts) for job in jobs} == {("RUNNING", restarts)}

    await until(lambda: run(0), seconds=60, what="both components to run", every=0.1)
    await proxy.call("change", ChangeJob(viewer=Viewer(user=alice), jobs=second, change=Requeue()), Done)
    await until(lambda: run(1), seconds=60, what="both components to run again", every=0.1)
    await proxy.cancel(alice, second)
    ended = (await proxy.wait_for_end(alice, second)).state
    state = (await proxy.job(alice, first)).state
    await proxy.cancel(alice, first)

    assert (ended, state) == ("CANCELLED", "RUNNING")


async def test_the_script_finds_the_variables_of_all_components_as_under_sbatch(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    options = ("-n 1 -c 2 --mem=300 -t 3", "hetjob", "-n 2 -c 2 --mem=400")
    lines = "".join(f"#SBATCH {line}\n" for line in options)
    body = "env | grep -E '^(SLURM|OMPI|PRTE|HYDRA|I_MPI)'\n"
    paths = [f"{slurm.shared_path}/components-by-{way}" for way in ("proxy", "sbatch")]
    first = {"tasks": 1, "cpus_per_task": 2, "memory_per_node": 300, "time_limit": 3}
    second = {"tasks": 2, "cpus_per_task": 2, "memory_per_node": 400}
    asked = several(alice, second, name="same", script=f"#!/bin/sh\n{body}", standard_output=paths[0], **first)

    submitted = await proxy.call("submit", asked, Submitted)
    by_sbatch = await slurm.cluster.sbatch(
        alice,
        f"#!/bin/sh\n{lines}{body}",
        f"--output={paths[1]}",
        "--job-name=same",
        env={"PATH": "/usr/bin:/bin"},
        submit_directory=await slurm.home(alice),
    )
    for job_id in (submitted.job_id, by_sbatch):
        assert (await proxy.wait_for_end(alice, job_id, seconds=60)).state == "COMPLETED"

    by_proxy, wanted = (variables((slurm.shared / path.rpartition("/")[2]).read_text()) for path in paths)
    assert "SLURM_NTASKS_HET_GROUP_1" in wanted
    assert by_proxy == wanted


async def test_a_component_that_slurm_refuses_leaves_no_job(proxy: ProxyWorld, alice: SlurmUser) -> None:
    refused = await proxy.error_of("submit", several(alice, {"licenses": "matlab:1"}, name="half"))

    assert (refused.kind, refused.effect) == ("rejected", "none")
    live = [job for job in (await proxy.jobs(alice)).jobs if job.ended_at is None]
    assert live == []


@pytest.mark.parametrize(
    ("component", "text"),
    [
        ({"array": "0-3"}, "component 1: a heterogeneous job cannot be an array"),
        ({"account": "other"}, "component 1: its account is not that of the first component"),
        ({"cpus_per_task": 5000}, "component 1: the job needs 5000 CPUs"),
        ({"nodes": "90000"}, "component 1: the job requests 90000 nodes"),
    ],
)
async def test_a_component_that_cannot_be_is_named(
    proxy: ProxyWorld, alice: SlurmUser, component: dict[str, Any], text: str
) -> None:
    asked = several(alice, component)

    refused = await proxy.error_of("submit", asked)
    not_prepared = await proxy.error_of(
        "prepare", Prepare(user=alice, script=SCRIPT, job=asked.job, components=asked.components)
    )

    assert refused.detail.startswith(text), refused
    assert not_prepared == refused.model_copy(update={"effect": not_prepared.effect})


async def test_a_prepared_job_has_its_components_as_the_queue_shows_them(proxy: ProxyWorld, alice: SlurmUser) -> None:
    asked = several(alice, {"cpus_per_task": 2, "memory_per_cpu": 300, "hold": True}, memory_per_cpu=200, hold=True)

    prepared = await proxy.call(
        "prepare", Prepare(user=alice, script=SCRIPT, job=asked.job, components=asked.components), Prepared
    )
    submitted = await proxy.call("submit", asked, Submitted)
    snapshot = await proxy.until_snapshot(
        lambda snapshot: sum(group.het_job_id == submitted.job_id for group in snapshot.pending or ()) == 2
    )

    shown = sorted(
        (group for group in snapshot.pending or () if group.het_job_id == submitted.job_id),
        key=lambda group: group.het_offset,
    )
    await proxy.cancel(alice, submitted.job_id)
    # Slurm bounds the nodes by the tasks itself.
    differ = {"job_ids": (), "het_job_id": "1", "first_submitted_at": submitted.accepted_at, "max_nodes": None}
    told = [job.model_copy(update=differ).model_dump() for job in (prepared.job, *prepared.components)]
    assert told == [job.model_copy(update=differ).model_dump() for job in shown]


async def test_accounting_tells_a_component_from_the_others(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    submitted = await proxy.call("submit", several(alice, {"cpus_per_task": 2}, name="duo"), Submitted)
    first = await proxy.job(alice, submitted.job_id)
    for job_id in first.het_components:
        await proxy.wait_for_end(alice, job_id, seconds=60)
    await slurm.purge_finished_jobs(*first.het_components)
    _, second = first.het_components

    async def forgotten() -> bool:
        return not (await proxy.job(alice, second)).het_components

    await until(forgotten, seconds=90, what="the answers of accounting", every=0.2)
    jobs = [await proxy.job(alice, job_id) for job_id in first.het_components]

    assert [(job.job_id, job.het_job_id, job.het_offset, job.het_components) for job in jobs] == [
        (submitted.job_id, submitted.job_id, 0, first.het_components),
        (second, submitted.job_id, 1, ()),
    ]
