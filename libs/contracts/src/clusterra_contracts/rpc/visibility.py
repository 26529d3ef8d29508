"""Who may see what of a cluster. The gateway asks here, and so does each service that keeps the record."""

from clusterra_contracts.events import Fact, JobActionFact, JobFact
from clusterra_contracts.rpc.slurm import Viewer


def may_see(viewer: Viewer, fact: Fact) -> bool:
    """Whether a person may see an event of their cluster: their own jobs' events, and an admin every event.

    Decisions, nodes and workers tell of other people's jobs, by their ids and reasons.
    """
    return viewer.admin or (isinstance(fact, JobFact | JobActionFact) and fact.uid == viewer.user.uid)
