"""Tells the drains that Slurm makes by itself from those of operators, by their reasons.

Slurm drains a node that has failed a job or does not have what it should have. It never undrains such a node: an
operator is to repair and resume it. A worker is not repaired but replaced, so its node is removed once it runs nothing.

The reasons are the only distinction: operators drain as root or as Slurm's own user, and so does Slurm.
"""

from clusterra_contracts.queue import NodeState

REASONS = (
    "Kill task failed",
    "Prolog error",
    "Prolog hung",
    "Epilog error",
    "Duplicate jobid",
    "batch job complete failure",
    "Node unexpectedly rebooted",
    "Low CPUs",
    "Low RealMemory",
    "Low TmpDisk",
    "Low socket*core*thread count",
    "gres/",
)
"""What the reasons of slurmctld, slurmd and slurmstepd begin with, in Slurm 24.05 to 25.11. `gres/` begins that of a
node with fewer generic resources than configured."""


def drained_by_slurm(node: NodeState) -> bool:
    """Whether Slurm has drained the node by itself."""
    return node.draining and node.reason.startswith(REASONS)
