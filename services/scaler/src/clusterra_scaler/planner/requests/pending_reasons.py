"""Why Slurm says that a job waits, and whether new nodes would start it: all job reasons of Slurm 26.05."""

import re
from collections.abc import Mapping
from functools import lru_cache

from clusterra_contracts.rpc.why import Cause

_REASONS: Mapping[Cause, str] = {
    # `None` and `SchedDefer` are jobs that the scheduler has not looked at yet. `Constraints` is a first try, with
    # what the job would prefer, or a job with an `--extra` that no node has. `NodeDown` is one that lost its node.
    "nodes": "None Resources Priority PartitionConfig ReqNodeNotAvail NodeDown SchedDefer Constraints",
    "fitting node": "BadConstraints",
    "time": "BeginTime DeadLine Cleaning Prolog",
    "dependency": "Dependency DependencyNeverSatisfied",
    "throttle": "JobArrayTaskLimit",
    "licence": "Licenses",
    # Beside what `_LIMIT` knows.
    "limit": """
        AccountingPolicy AssociationJobLimit AssociationResourceLimit AssociationTimeLimit MaxMemPerLimit
        QOSJobLimit QOSResourceLimit QOSTimeLimit QOSUsageThreshold
    """,
    "account": "InvalidAccount InvalidQOS QOSNotAllowed AccountNotAllowed",
    "reservation": "Reservation ReservationDeleted ReservationInvalid",
    "partition": "PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit",
    "hold": "JobHeldUser JobHeldAdmin JobHoldMaxRequeue",
    "failure": """
        SystemFailure JobLaunchFailure NonZeroExitCode RaisedSignal TimeLimit InactiveLimit OutOfMemory
        BurstBufferOperation
    """,
    "device": "BurstBufferResources BurstBufferStageIn NvidiaImexChannels MpiPortsBusy",
    # `MaxPoweredUpNodes` bounds the nodes of Slurm's own power saving.
    "site": "FedJobLock MaxPoweredUpNodes",
}

_LIMIT = re.compile(r"(assoc|qos)(grp|max|min)[a-z]+|max[a-z]+per(account|user)")
"""Limits of associations and QOS: one for each resource, of a job, node, user, account or group."""

_TEXTS: Mapping[str, Cause] = {"nodesrequiredforjobaredown": "nodes"}
"""What stands in the reason's place where Slurm has a sentence for it."""

_CAUSES: Mapping[str, Cause] = {
    **{reason.lower(): cause for cause, reasons in _REASONS.items() for reason in reasons.split()},
    **_TEXTS,
    "": "nodes",
}


@lru_cache(maxsize=1024)
def cause_of(reason: str) -> Cause | None:
    """What a job waits for; None for a reason that no Slurm we know has.

    Some reasons go on after a comma, as in `ReqNodeNotAvail, UnavailableNodes:w1`; case and underscores do not count.
    """
    word = re.sub(r"[^a-z]", "", re.split(r"[,(:]", reason, maxsplit=1)[0].lower())
    return "limit" if _LIMIT.fullmatch(word) else _CAUSES.get(word)
