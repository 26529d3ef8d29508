"""The dev overlay's own Deployments on a real node: the demo passes, and every service is replaced under load."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.events import Event
from clusterra_contracts.identity import now
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.central.stack import KubernetesStack, kubernetes_stack
from clusterra_lab.demo.demo import run_demo
from clusterra_lab.kube.node import NodeNotPossible
from clusterra_lab.kube.programs.binaries import BINARIES, can_have_binaries
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.debian_root import RootNotBuilt
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions
from rolling_load import FOLLOWED, LINES, Load, load

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.containers,
    pytest.mark.skipif(os.geteuid() != 0, reason="a real node needs root for its mounts and cgroups"),
    pytest.mark.skipif(
        not can_have_binaries(BINARIES),
        reason="the Kubernetes programs are not in KUBEBUILDER_ASSETS, and there is no 'go' to build them",
    ),
]

ROUNDS = int(os.environ.get("ROLLING_ROUNDS", "1"))
"""How often each service is replaced."""
EVERY_SECONDS = 2.0
ROLLED = ("gateway", "gateway-work", "proxy", "scaler", "events", "edge-agent")
FAMILIES = ("job.*", "node.*", "worker.*")
KINDS = ("job.submitted", "job.running", "job.completed")


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KubernetesStack]:
    if not await engine_answers():
        pytest.skip("no container engine answers, which would build the services' images")
    try:
        options = LabOptions(ScalingPolicy(idle_seconds=5.0, max_workers=6), substrate="kubernetes")
        async with kubernetes_stack(tmp_path_factory.mktemp("lab"), options) as running:
            yield running
    except (NodeNotPossible, RootNotBuilt) as problem:
        pytest.skip(str(problem))


async def archived(user: User, job_ids: set[str]) -> list[Event] | None:
    """The archived events of these jobs, once all of them are archived as completed."""
    events = [event for event in await user.history("job.*") if event.subject in job_ids]
    return events if {event.subject for event in events if event.data.kind == "job.completed"} == job_ids else None


async def accounted(lab: KubernetesStack, prefix: str) -> Counter[str]:
    """How many jobs slurmdbd has of each name with this prefix."""
    sacct = await lab.slurm.run("sacct", "--allusers", "--noheader", "--allocations", "--parsable2", "--format=JobName")
    return Counter(name for name in sacct.stdout.split() if name.startswith(prefix))


async def test_the_demo_passes_on_the_overlays_own_deployments(lab: KubernetesStack) -> None:
    report = await run_demo(lab, lambda _: None, began=now())

    assert report.ok, report.problems


async def test_the_doctor_finds_nothing_wrong_from_inside(lab: KubernetesStack) -> None:
    """As operators call it: in the pod of the Deployment `admin`. It exits with an error when a check fails."""
    await lab.kubectl("scale", "--replicas=1", "deployment/admin", "--namespace=clusterra")
    await lab.kubectl("rollout", "status", "deployment/admin", "--namespace=clusterra", "--timeout=120s")

    found = await lab.kubectl("exec", "deployment/admin", "--namespace=clusterra", "--", "clusterra-admin", "doctor")

    assert "0 failures" in found


async def test_each_service_is_replaced_under_load_without_a_trace_for_clients(
    lab: KubernetesStack, capsys: pytest.CaptureFixture[str]
) -> None:
    async with lab.user("ada@acme.example") as ada, load(ada, every_seconds=EVERY_SECONDS) as under:
        # The follower has a position to resume from.
        await until(lambda: under.feed, seconds=60, what="the first event")

        for service in ROLLED * ROUNDS:
            await lab.roll(service)
            await asyncio.sleep(2 * EVERY_SECONDS)

        await under.stop(300)
        job_ids = set(under.jobs.values())
        events = await until(lambda: archived(ada, job_ids), seconds=300, every=1.0, what="all jobs to be archived")
        last = {event.id for event in events}
        await until(lambda: last <= {event.id for _, event in under.feed}, seconds=90, what="all events in the feed")

    with capsys.disabled():
        print(f"\n{under.summary}")
    assert under.failures == []
    assert len(job_ids) == len(under.jobs)
    assert await accounted(lab, "rolling-") == Counter(dict.fromkeys(under.jobs, 1))
    assert Counter((event.subject, event.data.kind) for event in events) == Counter(
        {(job_id, kind): 1 for job_id in job_ids for kind in KINDS}
    )
    check_logs(under)
    check_feed(under, await history(lab))


def check_logs(under: Load) -> None:
    """Every followed log arrived whole and once."""
    followed = {
        job for number, job in enumerate(under.jobs[key] for key in sorted(under.jobs)) if number % FOLLOWED == 0
    }

    assert set(under.logs) == followed
    for job_id, text in under.logs.items():
        assert text == "".join(f"line {line} of {job_id}\n" for line in range(1, LINES + 1))


async def history(lab: KubernetesStack) -> list[Event]:
    async with lab.user("ada@acme.example") as ada:
        return [event for family in FAMILIES for event in await ada.history(family)]


def check_feed(under: Load, archive: list[Event]) -> None:
    """The feed is in order, has no event twice, and misses none that is archived after its first one."""
    positions = [position for position, _ in under.feed]
    assert positions == sorted(set(positions))

    first, last = under.feed[0][1].time, under.feed[-1][1].time
    seen, archived = {event.id for _, event in under.feed}, {event.id for event in archive}
    families = tuple(family.removesuffix("*") for family in FAMILIES)
    assert [event for event in archive if first < event.time < last and event.id not in seen] == []
    assert [event for _, event in under.feed if event.data.kind.startswith(families) and event.id not in archived] == []
