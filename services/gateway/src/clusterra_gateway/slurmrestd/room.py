"""The room of slurmrestd: the gateway in the shape of Slurm's own REST API."""

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.jobs.room import JobParts
from clusterra_gateway.room import Room
from clusterra_gateway.slurmrestd import routes


def room(access: Access, slurm: SlurmRequests, jobs: JobParts) -> Room:
    """What this room offers."""
    return Room(routes=routes.routes(access, slurm, jobs.updates, jobs.desk))
