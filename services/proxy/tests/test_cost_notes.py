"""Notes of costs: exact amounts, nothing where nothing is known, and in the end what the ledger says in the end."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import JobId, SlurmUser
from clusterra_contracts.rpc.costs import CostOfJob, JobCosts, ReadJobCosts
from clusterra_lab.machine.process import until
from clusterra_proxy.slurmrestd.notation.comment import Comment
from clusterra_proxy.watch.cost_notes import note_of
from clusterra_runtime.nats import rpc
from hypothesis import given
from hypothesis import strategies as st
from proxy_world import ProxyWorld, proxy_world
from slurm_world import SlurmWorld

LONG = "#!/bin/sh\nsleep 600\n"


@dataclass
class Costs:
    """What the ledger says of jobs, and how often it was asked."""

    proxy: ProxyWorld
    micro_usd: dict[JobId, int] = field(default_factory=dict)
    over: set[JobId] = field(default_factory=set)
    """The jobs of which the ledger knows the end."""
    asked: int = 0

    async def read(self, _subject: Subject, request: ReadJobCosts) -> JobCosts:
        self.asked += 1
        known = [job for job in request.job_ids if job in self.micro_usd]
        return JobCosts(
            costs=tuple(
                CostOfJob(job_id=job, micro_usd=self.micro_usd[job], running=job not in self.over) for job in known
            )
        )

    async def asked_again(self) -> None:
        """Wait until notes that began after this moment were written, as far as they can be."""
        enough = self.asked + 3  # the one under way, a whole one, and the next one
        await until(lambda: self.asked >= enough, seconds=120, what="another look at the costs", every=0.1)

    async def until_noted(self, job: JobId, note: str) -> None:
        """Wait until accounting has a note."""

        await self.until_shown(job, "admincomment", note)

    async def until_shown(self, job: JobId, field: str, value: str) -> None:
        """Wait until a field of a job has a value in accounting."""

        async def shown() -> bool:
            told = await self.proxy.slurm.cluster.run(
                *("sacct", "-X", "-j", job, "--noheader", "--parsable2", "-o", field)
            )
            return told.stdout.strip() == value

        await until(shown, seconds=90, what=f"{value} in accounting", every=0.5)


@pytest.fixture(scope="module")
async def costs(slurm: SlurmWorld, workers: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Costs]:
    directory, often = tmp_path_factory.mktemp("notes"), {"CLUSTERRA_COST_NOTE_SECONDS": "1"}
    async with proxy_world(slurm, directory, "notes", settings=often) as proxy:
        costs = Costs(proxy)
        await rpc.serve(proxy.client, "ledger.*.*.jobs", ReadJobCosts, costs.read, queue="ledger")
        carol = slurm.new_user()
        other = (await proxy.submit(carol, LONG)).job_id  # so that there is always a cost to ask for
        costs.micro_usd[other] = 1
        yield costs
        await proxy.cancel(carol, other)


async def run_until_noted(costs: Costs, job: JobId) -> None:
    """Wait until slurmctld shows the cost of a job that runs."""
    costs.micro_usd[job] = 1

    async def noted() -> bool:
        shown = (await costs.proxy.slurm.cluster.run("scontrol", "show", "job", job)).stdout
        return "JobState=RUNNING" in shown and "AdminComment=clusterra:cost_usd=0.000001" in shown

    await until(noted, seconds=90, what=f"a note of {job} while it runs", every=0.2)


async def test_a_record_of_the_end_that_slurmctld_sends_late_does_not_replace_the_whole_cost(
    costs: Costs, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    proxy = costs.proxy
    job = (await proxy.submit(alice, LONG)).job_id
    await run_until_noted(costs, job)
    await costs.until_shown(job, "state", "RUNNING")  # slurmctld tells of a start some seconds later
    await slurm.cluster["slurmdbd"].kill()
    try:
        await proxy.cancel(alice, job)  # slurmctld keeps the record of the end, with the note of the run
        await proxy.wait_for_end(alice, job, seconds=90)
        await costs.asked_again()
    finally:
        with slurm.cluster["slurmctld"].suspended():
            await slurm.cluster["slurmdbd"].start()
            costs.micro_usd[job] = 2
            costs.over.add(job)
            await costs.asked_again()

    await costs.until_noted(job, "clusterra:cost_usd=0.000002")


async def test_what_the_ledger_learns_after_the_end_is_noted_as_well(costs: Costs, alice: SlurmUser) -> None:
    job = (await costs.proxy.submit(alice, LONG)).job_id
    await run_until_noted(costs, job)
    await costs.proxy.cancel(alice, job)
    costs.micro_usd[job] = 2
    costs.over.add(job)
    await costs.until_noted(job, "clusterra:cost_usd=0.000002")
    await costs.asked_again()

    costs.micro_usd[job] = 3

    await costs.until_noted(job, "clusterra:cost_usd=0.000003")


async def test_a_job_that_ends_in_the_second_of_its_start_is_noted_as_free(costs: Costs, alice: SlurmUser) -> None:
    async def free() -> JobId | None:
        """A job that lasted less than a second, by Slurm's clock; the ledger has no line of any."""
        job_id = (await costs.proxy.submit(alice, "#!/bin/sh\ntrue\n")).job_id
        job = await costs.proxy.wait_for_end(alice, job_id, seconds=90)
        return job_id if job.started_at == job.ended_at else None

    job_id = await until(free, seconds=120, what="a job without a second")

    await costs.until_noted(job_id, "clusterra:cost_usd=0.000000")


@given(st.integers(0, 10**15), st.booleans(), st.booleans())
def test_a_note_has_the_exact_amount_and_says_what_is_wrong_with_it(micro_usd: int, stale: bool, unknown: bool) -> None:
    cost = CostOfJob(job_id="42", micro_usd=micro_usd, running=True, stale=stale, unknown=unknown)

    note = note_of(cost)

    assert note is not None
    values = dict(pair.split("=") for pair in note.removeprefix("clusterra:").split(";"))
    assert Decimal(values.pop("cost_usd")) * 1_000_000 == micro_usd
    assert values == ({"stale": "1"} if stale else {}) | ({"partial": "1"} if unknown else {})
    assert Comment.parse(note) == Comment()


def test_an_unknown_cost_makes_no_note() -> None:
    assert note_of(CostOfJob(job_id="42", micro_usd=None, running=True, unknown=True)) is None
