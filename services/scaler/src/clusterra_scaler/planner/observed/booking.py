"""Bookings of bought workers for jobs, as they are stored. `placement.bookings` keeps them up to date."""

from dataclasses import dataclass

from clusterra_contracts.identity import JobId, Moment, ShapeName, WorkerName


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Capacity of a bought worker, booked for jobs. A cluster may have ten thousand bookings."""

    shape: ShapeName
    worker: WorkerName | None = None
    """None until the edge reports the worker."""
    jobs: dict[JobId, int]
    """For each job, how many nodes' shares of it the worker is to hold."""
    bought_at: Moment
