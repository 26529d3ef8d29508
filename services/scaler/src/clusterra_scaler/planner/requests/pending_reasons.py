"""The causes behind the reasons that Slurm gives for a pending job: all job reasons of Slurm 26.05."""

import re
from collections.abc import Mapping
from functools import lru_cache

from clusterra_contracts.rpc.why import Cause

_REASONS: Mapping[Cause, str] = {
    # `None` and `SchedDefer`: the scheduler has not considered the job yet. `Constraints`: a first attempt with the
    # features that the job prefers, or an `--extra` that no node has. `NodeDown`: the job lost its node.
    "nodes": "None Resources Priority PartitionConfig ReqNodeNotAvail NodeDown SchedDefer Constraints",
    "fitting node": "BadConstraints",
    "time": "BeginTime DeadLine Cleaning Prolog",
    "dependency": "Dependency DependencyNeverSatisfied",
    "throttle": "JobArrayTaskLimit",
    "licence": "Licenses",
    # In addition to those that `_LIMIT` matches.
    "limit": """
        AccountingPolicy AssociationJobLimit AssociationResourceLimit AssociationTimeLimit MaxMemPerLimit
        QOSJobLimit QOSResourceLimit QOSTimeLimit QOSUsageThreshold
    """,
    "account": "InvalidAccount InvalidQOS QOSNotAllowed AccountNotAllowed",
    "reservation": "Reservation ReservationDeleted ReservationInvalid",
    "partition": "PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit",
    "hold": "JobHeldUser JobHeldAdmin JobHoldMaxRequeue",
    # `Unreadable` is the proxy's own: a field of Slurm's record of the job cannot be read.
    "failure": """
        Unreadable SystemFailure JobLaunchFailure NonZeroExitCode RaisedSignal TimeLimit InactiveLimit OutOfMemory
        BurstBufferOperation
    """,
    "device": "BurstBufferResources BurstBufferStageIn NvidiaImexChannels MpiPortsBusy",
    # `MaxPoweredUpNodes` is a limit of Slurm's own power saving.
    "site": "FedJobLock MaxPoweredUpNodes",
}

_LIMIT = re.compile(r"(assoc|qos)(grp|max|min)[a-z]+|max[a-z]+per(account|user)")
"""Limits of associations and QOS: one reason for each resource per job, node, user, account or group."""

_TEXTS: Mapping[str, Cause] = {"nodesrequiredforjobaredown": "nodes"}
"""Sentences that Slurm reports in place of a reason, without spaces and punctuation."""

_CAUSES: Mapping[str, Cause] = {
    **{reason.lower(): cause for cause, reasons in _REASONS.items() for reason in reasons.split()},
    **_TEXTS,
    "": "nodes",
}


@lru_cache(maxsize=1024)
def cause_of_reason(reason: str) -> Cause | None:
    """The cause behind a reason; None for a reason that no known version of Slurm has.

    Only the word before the first `,`, `(` or `:` counts, as in `ReqNodeNotAvail, UnavailableNodes:w1`. Case and
    underscores are ignored.
    """
    word = re.sub(r"[^a-z]", "", re.split(r"[,(:]", reason, maxsplit=1)[0].lower())
    return "limit" if _LIMIT.fullmatch(word) else _CAUSES.get(word)
