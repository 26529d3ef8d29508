"""What slurmrestd's answers mean when they are not what was asked for.

The HTTP status alone says little: a bad token is 511, a refused job 422, a controller that is away 500, 502 or
(for a cancel) even 403, and a node that does not exist 200. Slurm's own error number decides first.
"""

from collections.abc import Iterable

from clusterra_proxy.slurmrestd.answers import ErrorEntry
from clusterra_proxy.slurmrestd.errors import (
    Conflict,
    Forbidden,
    NotFound,
    Rejected,
    SlurmFailed,
    Unauthenticated,
    Unavailable,
)

INVALID_JOB = 2017
INVALID_NODE = 2018
ACCESS_DENIED = 2002
ALREADY_DONE = 2021
NODES_BUSY = 2016
INVALID_NODE_STATE = 2028
TOO_MANY_CPUS = 2005
INVALID_NODE_COUNT = 2006
NODES_UNAVAILABLE = 2014
PARTITION_UNAVAILABLE = 2015
INVALID_FEATURE = 2029
NODE_TABLE_FULL = 2169
INVALID_EXTRA = 2171

ADMISSION_ERRORS = frozenset(
    {TOO_MANY_CPUS, INVALID_NODE_COUNT, NODES_UNAVAILABLE, PARTITION_UNAVAILABLE, INVALID_FEATURE}
)
"""What Slurm says of a job that its records of nodes do not admit, for good or because they are not there yet."""

_UNAVAILABLE_HINT = "the cluster's Slurm does not answer; try again in a moment"
_KEY_HINT = "check that the cluster's JWT key is the one its slurmctld, slurmdbd and slurmrestd use"
_IDS_HINT = "Slurm must trust the identity in our tokens: AuthAltParameters=...,use_jwt_client_ids_only"

_BY_NUMBER: dict[int, tuple[type[SlurmFailed], str]] = {
    -1: (Unavailable, _UNAVAILABLE_HINT),
    1: (Unavailable, _UNAVAILABLE_HINT),
    1007: (Unauthenticated, _KEY_HINT),
    2000: (Rejected, "name a partition that the cluster has, or none"),
    ACCESS_DENIED: (Forbidden, "it belongs to somebody else"),
    2010: (Forbidden, "this needs rights that the user does not have"),
    TOO_MANY_CPUS: (Rejected, "the cluster never has so many CPUs: ask for fewer in all"),
    INVALID_NODE_COUNT: (Rejected, "the cluster never has so many nodes, or not so few: ask for another number"),
    NODES_UNAVAILABLE: (Rejected, "no shape of worker is large enough: ask for fewer CPUs, memory or GPUs per node"),
    NODES_BUSY: (Conflict, "drain the node and wait until it is idle"),
    INVALID_JOB: (NotFound, ""),
    INVALID_NODE: (NotFound, ""),
    ALREADY_DONE: (Conflict, "it is over"),
    INVALID_NODE_STATE: (Conflict, "a node of slurm.conf, or one in another state than this needs"),
    INVALID_FEATURE: (Rejected, "ask for a feature that the cluster's shapes have"),
    2063: (Rejected, "give current_working_directory"),
    2127: (Rejected, 'give an environment, at least ["PATH=/usr/bin:/bin"]'),
    INVALID_EXTRA: (Rejected, "comparisons such as a=1 for a job, JSON for a node"),
    6010: (Unauthenticated, _IDS_HINT),
    7000: (Unavailable, "slurmdbd does not answer; try again in a moment"),
}
_SLURMCTLD_UNREACHABLE = range(1800, 1900)


def error_from_answer(status: int, errors: Iterable[ErrorEntry], *, entity: str) -> SlurmFailed:
    """The error of an answer: its first error with a number, else the HTTP status. `what` was asked for."""
    entries = tuple(errors)
    entry = next((entry for entry in entries if entry.error_number), entries[0] if entries else ErrorEntry())
    number = entry.error_number
    detail = ": ".join(word for word in (entry.description, entry.error) if word) or f"slurmrestd answered {status}"
    kind, hint = _kind(status, number, entity)
    return kind(detail, hint=hint, code=number or None)


def error_from_number(number: int, message: str) -> SlurmFailed:
    """The error that a number stands for where the answer as a whole succeeded."""
    kind, hint = _BY_NUMBER.get(number, (Rejected, ""))
    return kind(message, hint=hint, code=number)


def _kind(status: int, number: int, entity: str) -> tuple[type[SlurmFailed], str]:
    if number in _BY_NUMBER:
        return _BY_NUMBER[number]
    if number in _SLURMCTLD_UNREACHABLE:
        return Unavailable, _UNAVAILABLE_HINT
    if status in (401, 511):
        return Unauthenticated, _KEY_HINT
    if status == 404 or (status == 200 and number == 0):
        return NotFound, f"there is no such {entity}"
    if status >= 500:
        return Unavailable, _UNAVAILABLE_HINT
    return Rejected, ""
