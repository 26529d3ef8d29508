"""The simulated workers."""

from dataclasses import dataclass, field

from clusterra_scaler.planner.packing.items import ROUNDING_GIB, Offering

from clusterra_planner_tools.simulate.trace import Job


@dataclass(slots=True, eq=False)
class Worker:
    """One worker from its launch to its release. Moments are in seconds of the trace's clock."""

    number: int
    offering: Offering
    launch: float
    fails: bool = False
    """It never registers."""
    release: float | None = None
    cpus: int = field(init=False)
    memory_gib: float = field(init=False)
    """Free of both, what is booked taken off."""
    exclusive: bool = False
    running: dict[int, tuple[float, Job]] = field(default_factory=dict)
    """By job its start."""
    booked: dict[int, Job] = field(default_factory=dict)
    """Jobs that will start here once all of their workers are ready."""
    idle_since: float = field(init=False)
    version: int = 0
    """Counts the changes of its jobs."""

    def __post_init__(self) -> None:
        self.cpus, self.memory_gib = self.offering.cpus, self.offering.memory_gib
        self.idle_since = self.ready_at

    @property
    def ready_at(self) -> float:
        """When it registers, if it does."""
        return self.launch + self.offering.boot_seconds

    @property
    def empty(self) -> bool:
        """Nothing runs on it or is booked."""
        return not self.running and not self.booked

    def ready(self, now: float) -> bool:
        """Whether it has registered."""
        return self.ready_at <= now and not self.fails

    def fits(self, job: Job) -> bool:
        """Whether the job's share on one node has room."""
        return (
            job.cpus <= self.cpus
            and job.memory_gib <= self.memory_gib + ROUNDING_GIB
            and not self.exclusive
            and not (job.exclusive and not self.empty)
        )

    def book(self, job: Job) -> None:
        """Keep room for a job."""
        self._take(job)
        self.booked[job.id] = job

    def unbook(self, job: Job, now: float) -> None:
        """Give the room back."""
        del self.booked[job.id]
        self._free(job, max(now, self.ready_at))

    def begin(self, job: Job, now: float) -> None:
        """Run a job."""
        self._take(job)
        self.running[job.id] = (now, job)

    def end(self, job: Job, now: float) -> None:
        """A job has ended."""
        del self.running[job.id]
        self._free(job, now)

    def _take(self, job: Job) -> None:
        self.cpus -= job.cpus
        self.memory_gib -= job.memory_gib
        self.exclusive = job.exclusive
        self.version += 1

    def _free(self, job: Job, now: float) -> None:
        self.cpus += job.cpus
        # Sums of fractions drift: an empty worker has all its memory.
        self.memory_gib = self.offering.memory_gib if self.empty else self.memory_gib + job.memory_gib
        self.exclusive = False
        self.idle_since = now
        self.version += 1
