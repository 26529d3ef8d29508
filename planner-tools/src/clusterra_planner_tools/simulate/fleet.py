"""The simulated workers."""

from dataclasses import dataclass, field

from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering

from clusterra_planner_tools.simulate.trace import Job


@dataclass(slots=True, eq=False)
class Worker:
    """A worker from its launch to its release. Moments are in seconds of the trace's clock."""

    number: int
    offering: Offering
    launch: float
    fails: bool = False
    """The worker never registers."""
    release: float | None = None
    cpus: int = field(init=False)
    memory_gib: float = field(init=False)
    gpus: int = field(init=False)
    """Free CPUs, memory and GPUs, bookings deducted."""
    exclusive: bool = False
    running: dict[int, tuple[float, Job]] = field(default_factory=dict)
    """By job id, the start and the job."""
    booked: dict[int, Job] = field(default_factory=dict)
    """By job id, jobs that start here once all of their workers are ready."""
    idle_since: float = field(init=False)
    version: int = 0
    """Incremented with every change of its jobs."""

    def __post_init__(self) -> None:
        self.cpus, self.memory_gib, self.gpus = self.offering.cpus, self.offering.memory_gib, self.offering.gpus
        self.idle_since = self.ready_at

    @property
    def ready_at(self) -> float:
        """When it registers, unless it fails."""
        return self.launch + self.offering.boot_seconds

    @property
    def empty(self) -> bool:
        """Whether nothing runs or is booked on it."""
        return not self.running and not self.booked

    def ready(self, now: float) -> bool:
        """Whether it has registered."""
        return self.ready_at <= now and not self.fails

    def fits(self, job: Job) -> bool:
        """Whether one node's share of the job fits."""
        return (
            job.cpus <= self.cpus
            and job.memory_gib <= self.memory_gib + ROUNDING_GIB
            and job.gpus <= self.gpus
            and (job.shapes is None or self.offering.shape in job.shapes)
            and not self.exclusive
            and not (job.exclusive and not self.empty)
        )

    def book(self, job: Job) -> None:
        """Reserve capacity for a job."""
        self._take(job)
        self.booked[job.id] = job

    def unbook(self, job: Job, now: float) -> None:
        """Cancel a job's booking."""
        del self.booked[job.id]
        self._free(job, max(now, self.ready_at))

    def start(self, job: Job, now: float) -> None:
        """Start a job."""
        self._take(job)
        self.running[job.id] = (now, job)

    def end(self, job: Job, now: float) -> None:
        """End a job."""
        del self.running[job.id]
        self._free(job, now)

    def _take(self, job: Job) -> None:
        self.cpus -= job.cpus
        self.memory_gib -= job.memory_gib
        self.gpus -= job.gpus
        self.exclusive = job.exclusive
        self.version += 1

    def _free(self, job: Job, now: float) -> None:
        self.cpus += job.cpus
        self.gpus += job.gpus
        # Sums of fractions drift, so an empty worker gets exactly its whole memory.
        self.memory_gib = self.offering.memory_gib if self.empty else self.memory_gib + job.memory_gib
        self.exclusive = False
        self.idle_since = now
        self.version += 1
