"""GPUs on the whole lab: jobs for GPUs are accepted without a worker, cause the right workers, and run there."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import closed
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnexpectedAnswerError
from clusterra_lab.parts.user import User
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_lab.stack.stack import Stack
from gates import closed_gate
from site_lab import SITE_POLICY

BOB = SlurmUser(name="bob", uid=5002, gid=5002)
SECONDS = 60.0
PRINT_GPUS = "echo $SLURMD_NODENAME $SLURM_JOB_GPUS\n"
RAN = r"(?P<shape>.+)-\w+ ?(?P<gpus>[\d,]*)\n"


@pytest.fixture
def lab(site_lab: Stack) -> Stack:
    return site_lab


@pytest.fixture
async def observer(lab: Stack) -> AsyncIterator[Observer]:
    """An observer whose peak of workers starts with an empty fleet."""
    async with observe(lab.bus, lab.cluster) as observer:
        await until(lambda: observer.workers == {}, seconds=SECONDS, what="an empty fleet")
        observer.workers_peak.clear()
        yield observer


@pytest.fixture
async def grace(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("grace@acme.example") as user:
        yield user


def script(options: str, body: str = PRINT_GPUS) -> str:
    return f"#!/bin/sh\n#SBATCH {options}\n{body}"


async def ended(observer: Observer, *job_ids: str) -> None:
    def done() -> bool:
        return all(observer.states.get(job_id) == "COMPLETED" for job_id in job_ids)

    await until(done, seconds=SECONDS, every=0.1, what=f"the end of {job_ids}")


async def ran_on(user: User, job_id: str) -> tuple[str, str]:
    """The shape of the job's worker, and the indices of its GPUs."""
    output = await user.output(job_id)
    found = re.fullmatch(RAN, output)
    assert found is not None, output
    return found["shape"], found["gpus"]


async def test_jobs_without_gpus_do_not_use_the_cpus_of_gpu_workers(
    lab: Stack, observer: Observer, grace: User
) -> None:
    gate = closed_gate(lab)
    runs = (await grace.submit(script("--gres=gpu:l4:4", gate.wait), {})).job_id
    await until(lambda: observer.states.get(runs) == "RUNNING", seconds=SECONDS, what="the job to run")

    explained = await grace.why(runs)
    assert explained.usd_per_hour == pytest.approx(4.6)

    shown = await lab.slurm.run("scontrol", "show", "node", explained.places[0].worker or "")
    assert f"Extra={closed()}\n" in shown.stdout

    beside, wanted = await asyncio.gather(grace.submit(script("-t 5"), {}), grace.submit(script("-C l4-large"), {}))
    await ended(observer, beside.job_id, wanted.job_id)

    assert (await ran_on(grace, beside.job_id))[0] == "compute-xs"
    assert (await ran_on(grace, wanted.job_id))[0] == "l4-large"
    assert observer.workers_peak == {"l4-large": 1, "compute-xs": 1}

    gate.open()
    await ended(observer, runs)


@pytest.fixture(params=[SITE_POLICY.name, "family"])
async def policy(request: pytest.FixtureRequest, lab: Stack) -> AsyncIterator[None]:
    """The name of the policy of the lab."""
    if request.param == SITE_POLICY.name:
        yield
        return
    await lab.set_policy(SITE_POLICY.model_copy(update={"name": request.param}))
    yield
    await lab.set_policy(SITE_POLICY)


@pytest.mark.usefixtures("policy")
async def test_each_job_gets_the_gpus_it_requests_and_other_jobs_get_none(
    lab: Stack, observer: Observer, grace: User
) -> None:
    # A job for GPUs without a type may use any idle ones, but only the cheapest are bought for it. Without a number of
    # nodes, Slurm could also give a job of four tasks the GPUs of several workers.
    some = ("l4-small", "l4-large", "h100-xlarge")
    expected: dict[str, tuple[int, Sequence[str]]] = {
        "--gres=gpu:1 -t 5": (1, some),
        "--gres=gpu:l4:2": (2, ["l4-large"]),
        "--gpus-per-task=1 -n 4 -N 1": (4, ["l4-large", "h100-xlarge"]),
        "--gres=gpu:h100:3 --mem=60G": (3, ["h100-xlarge"]),
        "--gres=gpu:l4:1 -N 2": (1, ["l4-small", "l4-large"]),
        "-C l4-small": (0, ["l4-small"]),
        "-c 2": (0, ["compute-xs"]),
    }
    jobs = {(await grace.submit(script(options), {})).job_id: options for options in expected}
    by_memory = await lab.slurm.sbatch(
        BOB, script("-t 5"), "--gres=gpu:l4:1", "--mem-per-gpu=30G", "--output=by-memory.out"
    )
    # A job of several nodes has no class, so it runs on any worker, also on those with GPUs.
    of_two_nodes = await lab.slurm.sbatch(BOB, script("-t 5"), "--nodes=2")

    await ended(observer, by_memory, of_two_nodes, *jobs)

    assert observer.workers_peak["compute-xs"] >= 1
    assert (lab.slurm.shared_dir / "by-memory.out").read_text().startswith("l4-large-")

    for job_id, options in jobs.items():
        gpus, shapes = expected[options]
        shape, indices = await ran_on(grace, job_id)
        assert (len(indices.split(",")) if indices else 0, shape in shapes) == (gpus, True), (options, shape, indices)
    assert observer.workers_peak["h100-xlarge"] == 1
    await until(lambda: observer.workers == {}, seconds=SECONDS, what="an empty fleet")


async def test_gpus_that_no_shape_has_are_rejected_at_submit(lab: Stack, observer: Observer, grace: User) -> None:
    for options, words in (
        ("--gres=gpu:a100:1", "1 gres/gpu:a100 on each node, but the largest worker has 0"),
        ("--gres=gpu:9", "9 gres/gpu on each node, but the largest worker has 8"),
        ("--gres=gpu:l4:5", "5 gres/gpu:l4 on each node, but the largest worker has 4"),
        ("--gres=gpu:l4:1 -c 49", "49 CPUs on each node"),
        ("-c 33", "33 CPUs on each node, but the largest worker without GPUs has 32"),
    ):
        with pytest.raises(UnexpectedAnswerError, match=words):
            await grace.submit(script(options), {})
    for option in ("--gres=gpu:a100:1", "--gres=gpu:9", "--gres=gpu:l4:5"):
        with pytest.raises(CommandFailed, match="Requested node configuration is not available"):
            await lab.slurm.sbatch(BOB, "#!/bin/sh\ntrue\n", option)
    assert observer.workers == {}


async def test_gpu_types_survive_a_reconfigure(lab: Stack, observer: Observer, grace: User) -> None:
    gate = closed_gate(lab)
    runs = (await grace.submit(script("--gres=gpu:l4:3", gate.wait), {})).job_id
    await until(lambda: observer.states.get(runs) == "RUNNING", seconds=SECONDS, what="the job to run")
    assert (await lab.slurm.run("scontrol", "reconfigure")).returncode == 0

    async def submitted(options: str) -> str | None:
        """Submit a job; rejected until the proxy has restored the GPU types of the placeholders."""
        try:
            return (await grace.submit(script(options), {})).job_id
        except UnexpectedAnswerError:
            return None

    last = await until(lambda: submitted("--gres=gpu:l4:1"), seconds=SECONDS, what="Slurm to accept a typed job")
    other = await until(lambda: submitted("--gres=gpu:h100:1"), seconds=SECONDS, what="Slurm to accept another")

    # The last of the four GPUs still has its type.
    await ended(observer, last, other)

    assert await ran_on(grace, last) == ("l4-large", "3")
    assert (await ran_on(grace, other))[0] == "h100-xlarge"
    assert observer.workers_peak == {"l4-large": 1, "h100-xlarge": 1}

    gate.open()
    await ended(observer, runs)


@pytest.fixture
async def warm_workers(lab: Stack, observer: Observer) -> AsyncIterator[None]:
    """The fleet is empty before they are bought."""
    warm = {"compute-xs": 2, "h100-xlarge": 1, "l4-large": 1, "l4-small": 1}
    await lab.set_policy(SITE_POLICY.model_copy(update={"warm": warm}))
    yield
    await lab.set_policy(SITE_POLICY)


@pytest.mark.usefixtures("warm_workers")
async def test_slurm_prefers_idle_workers_without_gpus_and_then_the_cheapest(
    lab: Stack, observer: Observer, grace: User
) -> None:
    async def idle() -> bool:
        """Whether all warm workers are idle, each with its weight."""
        shown = await lab.slurm.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T %w %f")
        return sorted(shown.stdout.splitlines()) == [
            *("idle 1 compute,compute-xs",) * 2,
            "idle 5 l4,l4-large",
            "idle 5 l4,l4-small",
            "idle 8 h100,h100-xlarge",
        ]

    # None of these jobs has a class. Without weights, Slurm would prefer GPUs on nodes with the fewest CPUs, which are
    # dearer here. If the small worker came before the large one, the last job would get the GPUs of both.
    for options, *given in (
        ("-N 2", "compute-xs", "compute-xs"),
        ("--gres=gpu:2", "l4-large"),
        ("--gpus=4", "l4-large"),
    ):
        await until(idle, seconds=SECONDS, every=0.1, what="the warm workers")
        job_id = (await grace.submit(script(options, "echo $SLURM_JOB_NODELIST\n"), {})).job_id
        await ended(observer, job_id)
        names = await lab.slurm.run("scontrol", "show", "hostnames", (await grace.output(job_id)).strip())
        assert [name.rpartition("-")[0] for name in names.stdout.split()] == given

    assert (await lab.slurm.run("scontrol", "reconfigure")).returncode == 0
    await until(idle, seconds=SECONDS, every=0.1, what="the same workers with the same weights")
