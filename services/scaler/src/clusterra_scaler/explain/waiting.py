"""What keeps a job from starting, where it is something else than nodes."""

from collections.abc import Mapping
from datetime import datetime

from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.why import Cause

from clusterra_scaler.planner.requests.pending_reasons import cause_of

_SAY_MORE_THAN_HELD: frozenset[Cause | None] = frozenset({"hold", "failure", "reservation", "account", "limit"})
"""For these Slurm sets a job's priority to 0 itself."""

_BY_WORD: Mapping[str, str] = {
    "JobHeldUser": "It is held for its owner, who can release it.",
    "JobHeldAdmin": "It is held by an administrator, who alone can release it.",
    "JobHoldMaxRequeue": "Slurm holds it because it was requeued too often; an administrator can release it.",
    "DependencyNeverSatisfied": "It depends on a job that did not end as it must: it can never start.",
    "DeadLine": "It cannot end before its deadline any more: it can never start.",
    "ReservationDeleted": "The reservation it asks for is deleted: it can never start.",
    "PartitionDown": "Its partition {partition} is down.",
    "PartitionInactive": "Its partition {partition} is not active.",
    "PartitionNodeLimit": "It asks for more or fewer nodes than its partition {partition} allows.",
    "PartitionTimeLimit": "Its time limit is longer than its partition {partition} allows.",
}
"""By Slurm's word, where it tells more than its class."""

_BY_CAUSE: Mapping[Cause | None, str] = {
    "time": "Slurm is not done with preparing it, or with its last run ({reason}).",
    "dependency": "It waits for jobs that it depends on.",
    "throttle": "Its array runs as many tasks at once as it allows.",
    "licence": "It waits for licences that are all in use.",
    "limit": "A limit of its user, account or QOS keeps it waiting ({reason}).",
    "account": "Its account or its QOS does not let it run here ({reason}).",
    "reservation": "It waits for its reservation{reservation}.",
    "partition": "Its partition {partition} does not let it start ({reason}).",
    "hold": "It is held: Slurm does not consider it before it is released.",
    "failure": "Its last start or run failed, and Slurm keeps it from starting again ({reason}).",
    "device": "It waits for something that jobs share ({reason}).",
    "site": "It waits for something that only this site's Slurm can tell ({reason}).",
    None: "Slurm keeps it waiting for a reason that is not known here ({reason}).",
}


def obstacle(group: PendingJobs, at: datetime) -> Cause | None:
    """What these jobs wait for: Slurm's word, and what it has not got into that word yet (see `waits_for_nodes`).

    None for a word that no Slurm we know has.
    """
    cause = cause_of(group.reason)
    if group.held and cause != "fitting node":
        return cause if cause in _SAY_MORE_THAN_HELD else "hold"
    if group.dependent:
        return "dependency"
    if group.reservation:
        return "reservation"
    if group.begins_at is not None and group.begins_at > at:
        return "time"
    if cause == "partition" and "," in group.partition:
        return "nodes"
    return cause


def obstacle_text(group: PendingJobs, at: datetime) -> str:
    """The obstacle in a sentence, where it is not the want of nodes."""
    cause = obstacle(group, at)
    if cause == "time" and group.begins_at is not None and group.begins_at > at:
        return f"It is not to start before {moment_text(group.begins_at)}."
    word = group.reason.partition(",")[0]
    template = _BY_WORD.get(word) if cause_of(group.reason) == cause else None
    reservation = f" {group.reservation}" if group.reservation else ""
    text = template or _BY_CAUSE[cause]
    return text.format(reason=group.reason, partition=group.partition, reservation=reservation)


def moment_text(moment: datetime) -> str:
    """A moment for a person, to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
