"""Room that was bought for jobs, as it is recorded. What becomes of it: see `bookings`."""

from dataclasses import dataclass

from clusterra_contracts.identity import JobId, Moment, ShapeName, WorkerName


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Room on a worker that was bought: how many nodes' shares of which jobs. There may be ten thousand."""

    shape: ShapeName
    worker: WorkerName | None = None
    """None until the edge has told of it."""
    jobs: dict[JobId, int]
    bought_at: Moment
