"""Tells the drains that Slurm or the edge makes by itself from those of operators, by their reasons.

Slurm drains a node that has failed a job or does not have what it should have. It never undrains such a node: an
operator is to repair and resume it. A worker is not repaired but replaced, so its node is removed once it runs nothing.

The reasons are the only distinction: operators drain as root or as Slurm's own user, and so does Slurm.
"""

from clusterra_contracts.queue import NodeState

INTERRUPTED_REMOVALS = ("worker is being removed", "pod is being deleted")
"""What the reasons begin with that the edge gives right before it ends a worker (`edge-agent`'s `gentle_end` and the
image's `slurmd-pre-stop`). A worker that still has one, and is none of the victims, was to be removed by an agent that
died meanwhile: nobody would resume it, and no operator has drained it."""
AT_REGISTRATION = ("Low CPUs", "Low RealMemory", "Low TmpDisk", "Low socket*core*thread count", "gres/")
"""What slurmctld's reasons begin with for a node that registers with less than it should have. `gres/` begins that of a
node with fewer generic resources than configured."""
REASONS = (
    "Kill task failed",
    "Prolog error",
    "Prolog hung",
    "Epilog error",
    "Duplicate jobid",
    "batch job complete failure",
    "Node unexpectedly rebooted",
    *AT_REGISTRATION,
    *INTERRUPTED_REMOVALS,
)
"""What the reasons of slurmctld, slurmd and slurmstepd begin with, in Slurm 24.05 to 25.11. The last ones are
the edge's."""


def drained_by_slurm(node: NodeState) -> bool:
    """Whether Slurm, or the edge that began to remove the worker, has drained the node by itself."""
    return node.draining and node.reason.startswith(REASONS)


def drained_at_registration(node: NodeState) -> bool:
    """Whether Slurm has drained the node because it registered with less than it should have."""
    return node.draining and node.reason.startswith(AT_REGISTRATION)
