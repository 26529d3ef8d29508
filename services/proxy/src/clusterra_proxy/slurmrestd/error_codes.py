"""Maps slurmrestd's error answers to typed errors.

The HTTP status is ambiguous: a bad token gives 511, a rejected job 422, an unreachable slurmctld 500, 502 or (for a
cancel) even 403, and a missing node 200. So Slurm's own error number decides before the status.
"""

import re
from collections.abc import Iterable

from clusterra_proxy.slurmrestd.answers import ErrorEntry
from clusterra_proxy.slurmrestd.errors import (
    BadAnswer,
    Conflict,
    Forbidden,
    NotFound,
    NotUnderstood,
    Rejected,
    SlurmFailed,
    Unauthenticated,
    Unavailable,
)

CONNECTION_ERROR = 1800
"""slurmrestd could not connect to slurmctld, so it sent nothing."""
INVALID_JOB = 2017
NOT_ALTERABLE = 2020
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
INVALID_ACCOUNT = 2045
NODE_TABLE_FULL = 2169
INVALID_EXTRA = 2171

ADMISSION_ERRORS = frozenset(
    {TOO_MANY_CPUS, INVALID_NODE_COUNT, NODES_UNAVAILABLE, PARTITION_UNAVAILABLE, INVALID_FEATURE}
)
"""Slurm's errors for a job that none of its node records admit, whether permanently or because records are missing."""

_UNAVAILABLE_HINT = "the cluster's slurmctld does not respond; try again in a moment"
_KEY_HINT = "check that slurmctld, slurmdbd and slurmrestd use the JWT key in the cluster's binding"
_IDS_HINT = "set AuthAltParameters=...,use_jwt_client_ids_only, so that Slurm trusts the identity in the proxy's tokens"

_BY_NUMBER: dict[int, tuple[type[SlurmFailed], str]] = {
    -1: (Unavailable, _UNAVAILABLE_HINT),
    1: (Unavailable, _UNAVAILABLE_HINT),
    1007: (Unauthenticated, _KEY_HINT),
    2000: (Rejected, "name an existing partition, or none"),
    ACCESS_DENIED: (Forbidden, "Slurm lets only the job's owner do this, and some of it only its operators"),
    2010: (Forbidden, "the user lacks the rights for this operation"),
    TOO_MANY_CPUS: (Rejected, "the cluster can never have that many CPUs: request fewer in total"),
    INVALID_NODE_COUNT: (Rejected, "the cluster cannot provide this number of nodes: request another number"),
    NODES_UNAVAILABLE: (
        Rejected,
        "no worker shape is large enough: request fewer CPUs or GPUs, or less memory, per node",
    ),
    NODES_BUSY: (Conflict, "drain the node and wait until it is idle"),
    INVALID_JOB: (NotFound, ""),
    INVALID_NODE: (NotFound, ""),
    NOT_ALTERABLE: (Conflict, "only a running job can be signalled"),
    ALREADY_DONE: (Conflict, "the job has already ended"),
    2024: (Conflict, "the job waits already"),
    2026: (Conflict, "the job was submitted as one that cannot be requeued"),
    2038: (Rejected, "a dependency names existing jobs, and not the job itself, in sbatch's notation"),
    2073: (Conflict, "only a pending job can be changed so"),
    2084: (Conflict, "the job has already ended"),
    INVALID_NODE_STATE: (Conflict, "slurm.conf defines the node, or the node's state does not allow this"),
    INVALID_FEATURE: (Rejected, "request a feature of one of the cluster's shapes"),
    2063: (Rejected, "set current_working_directory"),
    2127: (Rejected, 'set an environment, at least ["PATH=/usr/bin:/bin"]'),
    INVALID_EXTRA: (Rejected, "a job's extra takes comparisons such as a=1, a node's extra takes JSON"),
    6010: (Unauthenticated, _IDS_HINT),
    7000: (Unavailable, "slurmdbd does not respond; try again in a moment"),
}
_BY_TEXT: dict[str, str] = {
    "Invalid account": "name an account that the user belongs to in this partition, or none for their own",
    "Invalid qos": "name a QOS that the user's account may use, or none for its own",
    "Invalid license": "name licences that the cluster has, and no more than it has",
    "Requested reservation is invalid": "name a reservation that exists and that the user may use, or none",
    "Requested time limit is invalid": "request a time limit that the partition allows",
}
"""Hints by the beginning of slurmctld's text, for errors whose number says no more than that the job is refused."""
_SLURMCTLD_UNREACHABLE = range(1800, 1900)
_DATA_PARSER = range(9200, 9300)
"""slurmrestd's errors in reading a request, or in writing an answer."""
_GIVEN_UP = frozenset({9202, 9208, 9209})
"""Those after which slurmrestd gives a request up. After others, such as an unknown flag (9207), it goes on: a job is
submitted and the answer is an error all the same."""
_REQUEST = re.compile(r"#/(?:job|jobs|script)/")
"""The source of an error in the body of a submit. Fields of its answer have other names."""
_PARSER_HINT = "slurmrestd and the proxy do not agree on this field: leave it out, or give the operators the text"


def error_from_answer(status: int, errors: Iterable[ErrorEntry], *, entity: str) -> SlurmFailed:
    """Return the error of an answer: its first error with a number of Slurm's own, else the HTTP status.

    `entity` names what was requested, such as a job.
    """
    entries = tuple(errors)
    numbered = [entry for entry in entries if entry.error_number]
    # What slurmctld says counts more than what slurmrestd's parser says.
    entry = next(
        (entry for entry in numbered if entry.error_number not in _DATA_PARSER),
        next(iter((*numbered, *entries)), ErrorEntry()),
    )
    number = entry.error_number
    detail = ": ".join(word for word in (entry.description, entry.error) if word) or f"slurmrestd answered {status}"
    if number in _DATA_PARSER:
        given_up = number in _GIVEN_UP and _REQUEST.match(entry.source)
        return (NotUnderstood if given_up else BadAnswer)(detail, hint=_PARSER_HINT, code=number)
    kind, hint = _kind(status, number, entity)
    return kind(detail, hint=hint or _hint_of_text(entry), code=number or None)


def _hint_of_text(entry: ErrorEntry) -> str:
    texts = (entry.error, entry.description)
    return next((hint for known, hint in _BY_TEXT.items() if any(text.startswith(known) for text in texts)), "")


def error_from_number(number: int, message: str) -> SlurmFailed:
    """Return the error for one error number in an answer that succeeded as a whole."""
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
        return NotFound, f"this {entity} does not exist"
    if status >= 500:
        return Unavailable, _UNAVAILABLE_HINT
    return Rejected, ""
