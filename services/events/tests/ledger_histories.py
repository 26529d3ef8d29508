"""Random histories of a modelled fleet, and the facts that the services would tell of them."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from clusterra_contracts.events import Event, Fact, JobFact, MachineSize, NodeFact, PriceFact, WorkerFact, event_of
from clusterra_contracts.identity import ClusterRef

REF = ClusterRef(tenant="acme", cluster="main")
START = datetime(2026, 1, 1, 22, tzinfo=UTC)


@dataclass
class ModelWorker:
    """A worker of the model; times are in microseconds since START."""

    name: str
    start: int
    end: int | None
    prices: list[tuple[int, int]]
    """From when on, and micro-USD per hour."""
    cpus: int

    def is_there(self, at: int) -> bool:
        """Whether it has started and not ended."""
        return self.start <= at and (self.end is None or at < self.end)


@dataclass
class History:
    """What happened, and what was told of it."""

    workers: list[ModelWorker] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def bill(self, until: int) -> Fraction:
        """The fleet's bill in micro-USD, by the definition: the price of each moment, over the life of each worker."""
        return sum((_bill(worker, until) for worker in self.workers), Fraction(0))


def _bill(worker: ModelWorker, until: int) -> Fraction:
    end = until if worker.end is None else min(worker.end, until)
    total = Fraction(0)
    for number, (at, usd) in enumerate(worker.prices):
        begin = worker.start if number == 0 else max(at, worker.start)
        stop = end if number + 1 == len(worker.prices) else min(end, worker.prices[number + 1][0])
        total += Fraction(usd * max(0, stop - max(begin, worker.start)), 3_600_000_000)
    return total


def at(microseconds: int) -> datetime:
    """A moment of the model."""
    return START + timedelta(microseconds=microseconds)


def told(fact: Fact, version: str, microseconds: int) -> Event:
    """The event of a fact."""
    return event_of("test", REF, fact, version=version, time=at(microseconds))


def worker_events(worker: ModelWorker) -> list[Event]:
    """What the edge and the proxy tell of a worker."""
    version = str(worker.start)
    size = MachineSize(cpus=worker.cpus, memory_mib=worker.cpus * 2000, gpus=0)
    events = [
        told(
            WorkerFact(kind="worker.started", worker=worker.name, shape="xs", started_at=at(worker.start)),
            version,
            worker.start,
        ),
        told(NodeFact(kind="node.registered", node=worker.name, size=size), version, worker.start + 2_000_000),
    ]
    for since, usd in worker.prices:
        price = PriceFact(
            worker=worker.name, shape="xs", started_at=at(worker.start), micro_usd_per_hour=usd, source="machine"
        )
        events.append(told(price, f"{version}.{since}", since))
    if worker.end is not None:
        ended = WorkerFact(kind="worker.stopped", worker=worker.name, shape="xs", started_at=at(worker.start))
        events.append(told(ended, version, worker.end))
    return events


def job_events(
    job: int, run: int, nodes: tuple[str, ...], span: tuple[int, int | None], size: tuple[int, int]
) -> list[Event]:
    """What the proxy tells of one run on some nodes; `size` is in CPUs and MiB on each node."""
    start, end = span
    fact = JobFact(
        kind="job.running",
        job_id=str(job),
        name=f"job-{job}",
        user=f"user{job % 7}",
        uid=20000 + job % 7,
        account=f"account{job % 3}",
        template=f"template{job % 4}" if job % 4 else "",
        partition="main",
        state="RUNNING",
        nodes=nodes,
        submitted_at=at(start),
        started_at=at(start),
        restarts=run,
        cpus=size[0] * len(nodes),
        memory_mib=size[1] * len(nodes),
    )
    events = [told(fact, f"{start}.{run}", start)]
    if run:
        queued = fact.model_copy(update={"kind": "job.requeued", "nodes": (), "started_at": None})
        events.append(told(queued, f"{start}.{run}", start))
    if end is not None:
        over = fact.model_copy(update={"kind": "job.completed", "ended_at": at(end)})
        events.append(told(over, f"{start}.{run}", end))
    return events


def history(seed: int, *, workers: int, jobs: int, clocks_agree: bool = False) -> History:
    """Random workers with random prices and ends, and random jobs on them: some requeued, some that outlive workers.

    Jobs may seem to start when their worker is not there, unless the clocks agree.
    """
    chance = random.Random(seed)
    made = History()
    for number in range(workers):
        start = chance.randrange(0, 4 * 3_600_000_000)
        life = chance.randrange(1, 8 * 3_600_000_000)
        prices = [(start, chance.randrange(0, 5_000_000))]
        for _ in range(chance.randrange(3)):
            prices.append((prices[-1][0] + chance.randrange(1, 3_600_000_000), chance.randrange(0, 5_000_000)))
        end = start + life if chance.random() < 0.9 else None
        worker = ModelWorker(f"xs-{number}", start, end, prices, chance.choice([1, 2, 7, 96]))
        made.workers.append(worker)
        made.events += worker_events(worker)
    for job in range(1, jobs + 1):
        start = chance.randrange(0, 12 * 3_600_000_000)
        for run in range(chance.choice([1, 1, 1, 2, 3])):
            able = [each for each in made.workers if not clocks_agree or each.is_there(start)]
            chosen = chance.sample(able, k=min(len(able), chance.choice([1, 1, 2])))
            end = start + chance.randrange(1, 3 * 3_600_000_000)
            ended = end if chance.random() < 0.8 else None
            size = (chance.randrange(1, 97), chance.randrange(1, 20_000))
            made.events += job_events(job, run, tuple(worker.name for worker in chosen), (start, ended), size)
            start = end + chance.randrange(1, 60_000_000)
    return made
