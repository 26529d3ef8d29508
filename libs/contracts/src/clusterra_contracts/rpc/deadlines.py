"""How long each party of a request to a cluster's Slurm waits: the only place where these times are set.

A party that waits longer than the one it asks gets that one's answer. A party that gave up first would have to say
that the outcome is unknown although somebody knows it. So the times of a row grow from left to right:

    slurmrestd waits for slurmctld < the proxy for slurmrestd < the whole proxy < the gateway < the HTTP client

The scaler's requests about nodes have no row: it repeats them until a snapshot shows their effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SLURM_MESSAGE_SECONDS = 10.0
"""Slurm's MessageTimeout, 10 s by default: slurmrestd gives up on a slurmctld that does not answer after this time.
slurmctld carries out what it received nevertheless, whenever it can again."""
HTTP_SECONDS = 60.0
"""Clients and load balancers wait at least this long for a response."""

READ_SECONDS = 12.0
"""How long the proxy waits for slurmrestd's answer to a small read."""
WRITE_SECONDS = 15.0
"""How long the proxy waits for slurmrestd's answer to a write."""


@dataclass(frozen=True)
class Deadlines:
    """The times of one kind of request, in seconds."""

    slurmrestd: float
    """From a request of the proxy to slurmrestd's answer."""
    proxy: float
    """From the arrival of the request at the proxy to its answer, with all requests to slurmrestd."""
    gateway: float
    """From the gateway's request on the bus to the answer."""


SUBMIT = Deadlines(WRITE_SECONDS, 30.0, 35.0)
READ = Deadlines(READ_SECONDS, 26.0, 30.0)
"""A job may have to be read from slurmctld and then from slurmdbd, the queue from slurmctld as a long list."""
CANCEL = Deadlines(WRITE_SECONDS, 30.0, 35.0)
"""A cancel, as every change of a job, reads the job first."""
WATCHED = Deadlines(READ_SECONDS, 16.0, 18.0)
"""A read at the replica of the proxy that watches the cluster. Another replica that asks it has time left to read Slurm
itself, should there be no answer."""

DEADLINES: Mapping[str, Deadlines] = {
    "submit": SUBMIT,
    "prepare": READ,
    "get": READ,
    "list": READ,
    "count": READ,
    "steps": READ,
    "script": READ,
    "cancel": CANCEL,
    "change": CANCEL,
    "block-submits": CANCEL,
    "get-watched": WATCHED,
    "list-watched": WATCHED,
    "count-watched": WATCHED,
    "find-key": WATCHED,
    "rest": READ,
    "rest-watched": READ,
}
"""The deadlines of each operation that the gateway asks for, by its name. A replica of the proxy that asks the watching
one, for `list-watched`, `count-watched` or `find-key`, is the gateway of the table."""

REPEAT_READ_SECONDS = (3.0, 10.0)
"""How long a read is without an answer when the gateway asks the replica that watches the cluster as well. The first
repetition finds it when another replica was held up, the second when the watching one was: by then its lease has passed
to another. A write is never repeated."""

CLOCK_SKEW_SECONDS = 5.0
"""The most that the clocks of two central services may differ. The proxy refuses a claim from further in the future."""
SLURM_SETTLE_SECONDS = 10.0
"""How long slurmctld may take to carry out a submit after slurmrestd was given it, while it answers other requests."""
SETTLED_SECONDS = SUBMIT.proxy + 2 * CLOCK_SKEW_SECONDS + SLURM_SETTLE_SECONDS
"""After this time a submit that was sent has made its job, or never will. Two clocks are compared on the way: those of
the gateway that sent it with the proxy's, and with those of the gateway that asks."""
BEGIN_SECONDS = SUBMIT.proxy - SUBMIT.slurmrestd
"""After this time the proxy no longer begins to submit to slurmrestd, because the answer would come too late."""
