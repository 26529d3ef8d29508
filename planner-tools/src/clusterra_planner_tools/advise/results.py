"""What `advise` finds out. `--json` prints it, and the report is drawn from it alone."""

from clusterra_contracts.identity import Wire


class Waits(Wire):
    """How long jobs wait, in seconds."""

    p50: float
    p95: float
    p99: float


class Left(Wire):
    """Records or jobs that count for nothing, or with an assumption."""

    reason: str
    count: int
    cpu_hours: float | None = None
    first: int | None = None
    """The number of the first such record, where the input is read line by line or record by record."""


class Sampled(Wire):
    """How much of the input was simulated."""

    simulated: int
    of: int
    blocks: int


class ShapeUse(Wire):
    """How many hours of a shape a policy buys in the simulated part, and their share of its cost there."""

    shape: str
    hours: float
    usd_per_hour: float
    share: float


class OnDemand(Wire):
    """Workers that exist while jobs need them."""

    policy: str
    usd: float
    usd_margin: float
    """The half width of the 95 % confidence interval of `usd`; 0 where all jobs were simulated."""
    waits: Waits
    utilisation: float
    """CPU hours of jobs divided by CPU hours of workers."""
    worker_starts: int
    """In the simulated part."""
    shapes: tuple[ShapeUse, ...]


class FixedGroup(Wire):
    """Equal nodes of a fixed fleet."""

    shape: str
    cpus: int
    """Of one node."""
    nodes: int
    jobs: int


class Fixed(Wire):
    """Nodes that are paid for the whole time."""

    name: str
    groups: tuple[FixedGroup, ...]
    usd: float
    utilisation: float
    waits: Waits | None
    """None where the queue grows so long that it is never worked off."""
    jobs_without_a_place: int = 0


class Timeline(Wire):
    """Mean CPUs in equal intervals of time."""

    demand: tuple[float, ...]
    """Of jobs, at the times at which they really ran."""
    fleet: tuple[float, ...] | None
    """Of workers on demand under the first policy; None where only a part was simulated."""


class Advice(Wire):
    """All that was found out about an input."""

    input: str
    format: str
    basis: str
    begin: float
    end: float
    """In seconds since 1970, unless the trace does not say when it begins."""
    dated: bool
    records: int
    jobs: int
    cpu_hours: float
    gpu_hours: float
    recorded_waits: Waits | None
    bad: tuple[Left, ...]
    skipped: tuple[Left, ...]
    assumed: tuple[Left, ...]
    misfits: tuple[Left, ...]
    sampled: Sampled
    ideal_usd: float
    """What the work would cost if each job paid for its own share of the cheapest shape alone."""
    on_demand: tuple[OnDemand, ...]
    fixed: tuple[Fixed, ...]
    timeline: Timeline

    @property
    def days(self) -> float:
        """The length of the time, in days."""
        return (self.end - self.begin) / 86400
