"""What blocks a waiting job, where more nodes would not start it."""

import re
from collections.abc import Mapping
from datetime import datetime

from clusterra_contracts.queue import PendingJobs
from clusterra_contracts.rpc.why import Cause

from clusterra_scaler.planner.requests.pending_reasons import cause_of_reason

_KEPT_WHEN_HELD: frozenset[Cause | None] = frozenset({"hold", "failure", "reservation", "account", "limit"})
"""Causes for which Slurm itself sets a job's priority to 0, so that they explain more than "hold"."""

_BY_REASON: Mapping[str, str] = {
    "JobHeldUser": "It is held by its owner, who can release it.",
    "JobHeldAdmin": "It is held by an administrator, and only an administrator can release it.",
    "JobHoldMaxRequeue": "Slurm holds it because it was requeued too often; an administrator can release it.",
    "DependencyNeverSatisfied": "It depends on a job that did not end as required: it can never start.",
    "DeadLine": "It can no longer end before its deadline: it can never start.",
    "ReservationDeleted": "The reservation that it asks for has been deleted: it can never start.",
    "PartitionDown": "Its partition {partition} is down.",
    "PartitionInactive": "Its partition {partition} is not active.",
    "PartitionNodeLimit": "It asks for more or fewer nodes than its partition {partition} allows.",
    "PartitionTimeLimit": "Its time limit is longer than its partition {partition} allows.",
    "Unreadable": "A part of Slurm's record of it cannot be read, so nobody knows what it needs ({reason}).",
}
"""Texts for those of Slurm's reasons that tell more than their cause."""

_BY_CAUSE: Mapping[Cause | None, str] = {
    "time": "Slurm has not finished preparing it, or cleaning up after its last run ({reason}).",
    "dependency": "It waits for jobs that it depends on.",
    "throttle": "Its array already runs as many tasks at once as its limit allows.",
    "licence": "It waits for licences that are all in use.",
    "limit": "A limit of its user, account or QOS keeps it waiting ({reason}).",
    "account": "Its account or QOS does not allow it to run here ({reason}).",
    "reservation": "It waits for its reservation{reservation}.",
    "partition": "Its partition {partition} does not allow it to start ({reason}).",
    "hold": "It is held: Slurm will not consider it until it is released.",
    "failure": "Its last start or run failed, and Slurm does not start it again ({reason}).",
    "device": "It waits for a resource that jobs share ({reason}).",
    "site": "It waits for something that is specific to this site's Slurm ({reason}).",
    None: "Slurm keeps it waiting for a reason that the scaler does not know ({reason}).",
}


def cause_of(group: PendingJobs, at: datetime) -> Cause | None:
    """The cause of these jobs' waiting; None if their reason is one that no known version of Slurm has.

    Slurm's reason may be a second old, so the jobs' own attributes come before it (see `waits_for_nodes`).
    """
    cause = cause_of_reason(group.reason)
    if group.held and cause != "fitting node":
        return cause if cause in _KEPT_WHEN_HELD else "hold"
    if group.dependent:
        return "dependency"
    if group.reservation:
        return "reservation"
    if group.begins_at is not None and group.begins_at > at:
        return "time"
    if (cause == "partition" and "," in group.partition) or (cause == "throttle" and group.count > 0):
        return "nodes"
    return cause


def cause_text(group: PendingJobs, at: datetime) -> str:
    """A sentence on the cause of these jobs' waiting, for causes other than a lack of nodes."""
    cause = cause_of(group, at)
    if cause == "time" and group.begins_at is not None and group.begins_at > at:
        return f"It will not start before {moment_text(group.begins_at)}."
    word = re.split("[,:]", group.reason, maxsplit=1)[0]
    template = _BY_REASON.get(word) if cause_of_reason(group.reason) == cause else None
    reservation = f" {group.reservation}" if group.reservation else ""
    text = template or _BY_CAUSE[cause]
    return text.format(reason=group.reason, partition=group.partition, reservation=reservation)


def moment_text(moment: datetime) -> str:
    """A moment for a person, to the second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
