"""The ledger on real Slurm: jobs and overhead are the bill, by arithmetic from the record of the workers."""

import csv
import io
import time
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from clusterra_contracts.events import Event, JobFact, NodeFact, WorkerFact
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.services import CATALOGUE
from clusterra_lab.stack.stack import Stack
from clusterra_runtime import catalogue
from gates import closed_gate

SCRIPT = "#!/bin/bash\nsleep 3\n"
STEPS_SCRIPT = """\
#!/bin/bash
srun --exact --ntasks=1 --job-name=long sleep 2 &
srun --exact --ntasks=1 --job-name=short sleep 1 &
wait
srun --exact --ntasks=2 --job-name=both sleep 1
sleep 2
"""


@dataclass(frozen=True)
class WorkerRecord:
    """What the archive has of a worker."""

    shape: str
    started_at: datetime
    ended_at: datetime

    def micro_usd(self, seconds: Fraction | None = None) -> Fraction:
        """The price of its life, or of some of its seconds."""
        price = Fraction(str(catalogue.load(CATALOGUE)[self.shape].usd_per_hour)) * 1_000_000
        life = Fraction((self.ended_at - self.started_at).total_seconds())
        return price * (life if seconds is None else seconds) / 3600


async def get(user: User, path: str) -> Any:
    async with user.session.get(f"/v1/clusters/{user.cluster}/{path}") as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def micro(money: dict[str, str]) -> int:
    whole, _, part = money["amount"].partition(".")
    assert (len(part), money["currency"]) == (6, "USD")
    return int(whole + part)


async def workers_of(user: User) -> dict[str, WorkerRecord]:
    found: dict[str, list[Event]] = {}
    for event in await user.history("worker.*"):
        if isinstance(event.data, WorkerFact):
            found.setdefault(event.data.worker, []).append(event)
    records = {}
    for name, events in found.items():
        first, last = (min(events, key=lambda each: each.time), max(events, key=lambda each: each.time))
        assert isinstance(first.data, WorkerFact)
        assert (first.kind, len(events)) == ("worker.started", 2)
        records[name] = WorkerRecord(first.data.shape, first.time, last.time)
    return records


async def test_the_bill_of_real_jobs_by_hand(lab: Stack, ada: User, observer: Observer) -> None:
    jobs = [
        (await ada.submit(SCRIPT, {"name": f"bill-{n}", "minimum_cpus": n, "memory_per_cpu": 512})).job_id
        for n in (1, 2)
    ]
    async with lab.user("grace@acme.example") as grace:
        jobs.append((await grace.submit(SCRIPT, {"name": "bill-grace", "memory_per_cpu": 512})).job_id)
        for job in jobs:
            await until(lambda: (job, "job.completed") in observer.job_events, seconds=180, what=f"the end of {job}")  # noqa: B023
        await until(lambda: observer.workers == {}, seconds=120, what="the end of the workers")

        async def told() -> bool:
            events = await ada.history("worker.*")
            return sum(event.kind == "worker.started" for event in events) * 2 == sum(
                isinstance(event.data, WorkerFact) for event in events
            )

        await until(told, seconds=90, what="the events of the workers' ends")
        workers = await workers_of(ada)
        expected = sum((worker.micro_usd() for worker in workers.values()), Fraction(0))

        async def counted() -> Any:
            report = await get(ada, "costs?by=worker&limit=1000")
            by_worker = {row["worker"] for row in report["rows"]}
            whole = abs(micro(report["bill"]) - expected) <= len(workers)
            return report if by_worker == set(workers) and whole else None

        report = await until(counted, seconds=60, what="the whole bill")
        own = await get(grace, "costs?by=user,job")
        theirs = await get(grace, f"jobs/{jobs[2]}")
        assert micro(own["bill"]) == micro(theirs["cost"]["total"]) > 0
        assert micro(own["overhead"]) == 0
        assert {row["user"] for row in own["rows"]} == {grace.profile.name}

    sizes = {
        event.data.node: event.data.size
        for event in await ada.history("node.registered")
        if isinstance(event.data, NodeFact)
    }
    for job in jobs:
        fact = observer.job_events[job, "job.completed"].data
        running = observer.job_events[job, "job.running"].data
        assert isinstance(fact, JobFact)
        assert isinstance(running, JobFact)
        assert fact.started_at is not None
        assert fact.ended_at is not None
        (node,) = fact.nodes
        size = sizes[node]
        assert size is not None
        share = max(
            Fraction(running.cpus or 0, size.cpus), Fraction(running.memory_mib or 0, size.memory_mib), Fraction(0)
        )
        seconds = Fraction((fact.ended_at - fact.started_at).total_seconds())
        cost = (await get(ada, f"jobs/{job}"))["cost"]
        # Slurm's times are whole seconds, so a job may seem to start before its worker.
        assert abs(micro(cost["total"]) - workers[node].micro_usd(seconds) * share) <= workers[node].micro_usd(
            Fraction(2)
        )
        assert not cost["unknown"]
        assert not cost["stale"]
    assert micro(report["shares"]) + micro(report["overhead"]) == micro(report["bill"])
    assert sum(micro(row["cost"]) for row in report["rows"]) == micro(report["bill"])


async def test_the_costs_as_tables_have_the_same_sum(ada: User) -> None:
    report = await get(ada, "costs?by=worker&limit=1000")
    bill = micro(report["bill"])

    tables = []
    for query, headers in (("format=csv", {}), ("format=focus", {}), ("", {"Accept": "text/csv"})):
        async with ada.session.get(f"/v1/clusters/{ada.cluster}/costs?{query}", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "text/csv")
            tables.append(list(csv.DictReader(io.StringIO(await answer.text(), newline=""))))

    assert {"BilledCost", "ChargePeriodStart", "ResourceId", "BillingCurrency"} <= tables[1][0].keys()
    sums = [
        sum(Fraction(row["BilledCost" if "BilledCost" in row else "cost"]) for row in table) * 1_000_000
        for table in tables
    ]
    assert sums == [bill] * 3


async def test_a_job_of_a_template_costs_under_it(ada: User, observer: Observer) -> None:
    body = {"params": {"commands": "sleep 3"}}
    async with ada.session.post("/v1/launchables/shell/submit", json=body) as answer:
        assert answer.status == 201, await answer.text()
        job = (await answer.json())["job_id"]
    await until(lambda: (job, "job.completed") in observer.job_events, seconds=180, what="the end of the job")

    async def counted() -> Any:
        rows = (await get(ada, "costs?by=template,job&limit=1000"))["rows"]
        return [row["template"] for row in rows if row["job_id"] == job and row["cost"] is not None]

    assert await until(counted, seconds=90, what="the cost of the job") == ["shell"]
    assert (await get(ada, f"jobs/{job}"))["template"] == "shell"
    by_template = {row["template"]: row for row in (await get(ada, "costs?by=template"))["rows"]}
    assert micro(by_template["shell"]["cost"]) > 0


async def test_the_steps_of_a_job_share_its_cost_by_what_they_had(ada: User, observer: Observer) -> None:
    whole = {"name": "steps", "tasks": 2, "minimum_cpus": 2, "memory_per_cpu": 512}
    job = (await ada.submit(STEPS_SCRIPT, whole)).job_id
    await until(lambda: (job, "job.completed") in observer.job_events, seconds=150, what="the end of the job")
    fact = observer.job_events[job, "job.completed"].data
    assert isinstance(fact, JobFact)
    assert fact.started_at is not None
    assert fact.ended_at is not None

    totals: dict[str, float] = {}

    async def settled() -> Any:
        """All steps have ended in slurmdbd, and the ledger knows the end of the job: its cost grows no more."""
        report = await get(ada, f"jobs/{job}/costs")
        ended = [step["name"] for step in report["steps"] if step["ended_at"]]
        since = totals.setdefault(str(report["total"]), time.monotonic())
        return report if sorted(ended) == ["both", "long", "short"] and time.monotonic() - since > 3 else None

    report = await until(settled, seconds=90, what="the costs of the steps", every=0.5)

    total, remainder = micro(report["total"]), micro(report["remainder"])
    steps = {step["name"]: step for step in report["steps"]}
    assert report["complete"]
    assert sum(micro(step["cost"]) for step in report["steps"]) + remainder == total > 0
    assert remainder > 0
    job_seconds = int((fact.ended_at - fact.started_at).total_seconds())
    for name, share in (("long", Fraction(1, 2)), ("short", Fraction(1, 2)), ("both", Fraction(1))):
        step = steps[name]
        seconds = (
            datetime.fromisoformat(step["ended_at"]) - datetime.fromisoformat(step["started_at"])
        ).total_seconds()
        assert (step["state"], step["cpus"], step["memory_mib"]) == ("COMPLETED", 2 * share, 1024 * share)
        assert abs(micro(step["cost"]) - total * share * int(seconds) / job_seconds) <= 1
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/jobs/{job}") as answer:
        assert (await answer.json())["cost"]["total"] == report["total"]


async def test_the_profile_says_what_running_jobs_cost(ada: User, observer: Observer) -> None:
    job = await ada.submit("#!/bin/bash\nsleep 60\n", {"name": "burning", "memory_per_cpu": 512})
    await until(lambda: (job.job_id, "job.running") in observer.job_events, seconds=120, what="the job's start")

    async def burning() -> Any:
        async with ada.session.get("/v1/users/me") as answer:
            profile = await answer.json()
        return profile if profile["burn_rate_usd_per_hour"] else None

    profile = await until(burning, seconds=60, what="a burn rate")
    await ada.cancel(job.job_id)

    assert profile["running_jobs"] == 1
    assert micro(profile["costs"]["burn_rate_per_hour"]) == round(profile["burn_rate_usd_per_hour"] * 1_000_000)
    assert micro(profile["costs"]["month_to_date"]) >= micro(profile["costs"]["pending_bill"])
    assert profile["as_of"] == profile["costs"]["as_of"]
    await until(lambda: (job.job_id, "job.cancelled") in observer.job_events, seconds=60, what="the job's end")


async def test_slurm_shows_what_a_job_and_each_task_cost_and_keeps_the_comments_of_admins(
    lab: Stack, ada: User, observer: Observer
) -> None:
    gate = closed_gate(lab)
    job = (await ada.submit(f"#!/bin/bash\n{gate.wait}", {"name": "noted", "memory_per_cpu": 512})).job_id
    array = (await ada.submit(SCRIPT, {"name": "noted-tasks", "memory_per_cpu": 512, "array": "0-1"})).job_id
    other = (await ada.submit(f"#!/bin/bash\n{gate.wait}", {"name": "commented", "memory_per_cpu": 512})).job_id
    ids = (job, f"{array}_0", f"{array}_1")

    async def noted_while_it_runs() -> bool:
        shown = (await lab.slurm.run("scontrol", "show", "job", job)).stdout
        return "JobState=RUNNING" in shown and "AdminComment=clusterra:cost_usd=0." in shown

    await until(noted_while_it_runs, seconds=120, what="a note of the running job", every=0.2)
    by_hand = await lab.slurm.run("scontrol", "update", f"jobid={other}", "admincomment=by-hand")
    assert by_hand.returncode == 0, by_hand
    gate.open()
    for each in (*ids, other):
        await until(lambda: (each, "job.completed") in observer.job_events, seconds=120, what=f"the end of {each}")  # noqa: B023

    seen: list[str] = []

    async def noted() -> bool:
        told = await lab.slurm.run(
            *("sacct", "-X", "-j", f"{job},{array},{other}", "--noheader", "--parsable2", "-o", "jobid,admincomment")
        )
        costs = {each: (await get(ada, f"jobs/{each}"))["cost"]["total"]["amount"] for each in ids}
        notes = {f"{each}|clusterra:cost_usd={costs[each]}" for each in ids}
        seen[:] = (*sorted(told.stdout.split()), "of", *sorted(notes))
        return set(told.stdout.split()) == notes | {f"{other}|by-hand"}

    try:
        await until(noted, seconds=240, what="the whole costs in accounting", every=0.3)
    except TimeoutError as late:
        raise AssertionError(" ".join(seen)) from late


async def test_the_summary_has_the_burn_rate_and_what_waits(lab: Stack, ada: User, observer: Observer) -> None:
    for left_over in (await get(ada, f"jobs?state=PENDING&user={ada.profile.name}"))["jobs"]:
        await ada.cancel(left_over["job_id"].partition("_")[0])  # one without a time limit has no known cost
    limited = {"name": "burning", "memory_per_cpu": 512, "time_limit": 60}
    running = (await ada.submit("#!/bin/bash\nsleep 60\n", limited)).job_id
    waiting = (await ada.submit(SCRIPT, {**limited, "name": "waiting", "begin_time": 4_000_000_000})).job_id
    await until(lambda: (running, "job.running") in observer.job_events, seconds=120, what="the job's start")

    async def burning() -> Any:
        rows = (await get(ada, "costs/summary"))["rows"]
        own = [row for row in rows if row["name"] == ada.profile.name]
        # What waits is not known while Slurm does not answer in time.
        known = own and own[0]["running_jobs"] == 1 and own[0]["burn_rate_per_hour"] and own[0]["queued"]
        return own[0] if known else None

    row = await until(burning, seconds=60, what="a burn rate, and what waits")
    for job in (running, waiting):
        await ada.cancel(job)

    rate, month = micro(row["burn_rate_per_hour"]), micro(row["month_to_date"])
    # Within an hour, its time limit, the running job costs its rate at most. The end of the month may be nearer.
    assert 0 < micro(row["forecast"]) - month <= rate
    # One of the two CPUs of a compute-xs for an hour.
    assert micro(row["queued"]) == 36_250
    assert row["as_of"]
