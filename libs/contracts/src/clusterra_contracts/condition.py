"""A cluster's condition: why it is degraded, as the proxy that watches it knows. A full state, kept in a bucket."""

from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from clusterra_contracts.identity import Moment, Wire

DegradedReason = Literal[
    "unreachable", "unreadable_records", "queue_too_large", "binding_invalid", "failed", "slurm_of_another_tenant"
]
"""The reasons that this release gives.

`unreachable`: Slurm does not answer. `unreadable_records`: Slurm answers, but not every record can be read.
`queue_too_large`: the queue cannot be told. `binding_invalid`: the cluster's address or another part of its binding is
wrong. `failed`: the proxy's own work for the cluster failed and is tried again. `slurm_of_another_tenant`: the Slurm at
the cluster's address is bound to another tenant, so nothing is asked of it.
"""

LONGEST_MESSAGE = 500

Reason = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]{0,63}$")]
"""A reason as it is read: a newer release may give others."""


class Degradation(Wire):
    """One reason why a cluster is degraded."""

    reason: Reason
    message: Annotated[str, StringConstraints(max_length=LONGEST_MESSAGE)]
    """What is wrong, for people to read. It names no secret."""
    since: Moment


class ClusterCondition(Wire):
    """All reasons why a cluster is degraded, in the order of the reasons' names. None of them: it is healthy."""

    schema_name: ClassVar[str] = "cluster.condition.v1"

    degraded: tuple[Degradation, ...] = ()
