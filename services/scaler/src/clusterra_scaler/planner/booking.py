"""Room that was bought for jobs, as it is recorded. What becomes of it: see `bookings`."""

from clusterra_contracts.identity import JobId, Moment, ShapeName, Wire, WorkerName


class Booking(Wire):
    """Room on a worker that was bought: how many nodes' shares of which jobs."""

    shape: ShapeName
    worker: WorkerName | None = None
    """None until the edge has told of it."""
    jobs: dict[JobId, int]
    bought_at: Moment
