"""Who may see what of a cluster. The gateway asks here, and so does each service that keeps the record."""

from collections.abc import Hashable

from clusterra_contracts.events import (
    AdminFact,
    DigestFact,
    Fact,
    FileFact,
    JobActionFact,
    JobFact,
    RunFact,
    SessionFact,
    StagingFact,
)
from clusterra_contracts.rpc.slurm import Viewer

_OfJob = JobFact | JobActionFact | StagingFact | DigestFact | SessionFact | RunFact


TOLD_TO_ALL: frozenset[str] = frozenset({"cluster.paused", "cluster.resumed"})
"""The acts of admins that everybody sees: whose jobs wait for it should see why, and when they go on."""


def may_see(viewer: Viewer, fact: Fact) -> bool:
    """Whether a person may see an event of their cluster: the events of all jobs that they see (`Viewer.sees`).

    Decisions, nodes and workers tell of other people's jobs, by their ids and reasons: only those who see everybody's
    jobs see them. What is told of members, tokens and keys is for admins alone, as the audit is; that a cluster was
    paused or resumed is for everybody. The names of people's
    files are for themselves and for admins, whoever sees whose jobs.
    """
    if isinstance(fact, AdminFact):
        return viewer.admin or fact.kind in TOLD_TO_ALL
    if isinstance(fact, FileFact):
        return viewer.changes(fact.uid)
    return viewer.only_uid is None or (isinstance(fact, _OfJob) and viewer.sees(fact.uid))


def sight(viewer: Viewer) -> Hashable:
    """What is equal for viewers who see the same events: an admin sees all of them."""
    return "all" if viewer.admin else viewer


def owner_uid(fact: Fact) -> int | None:
    """Whose a fact is: who sees only what is their own sees the facts with their uid, and no other."""
    return fact.uid if isinstance(fact, _OfJob | FileFact) else None
