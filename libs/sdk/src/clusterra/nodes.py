"""Nodes as Slurm shows them: its own shape, of which the SDK reads what people ask for."""

from clusterra.model_base import Model


class Node(Model):
    """A node. `state` has Slurm's base state and flags, such as `["IDLE", "DRAIN"]`."""

    name: str
    state: tuple[str, ...] = ()
    cpus: int = 0
    alloc_cpus: int = 0
    real_memory: int = 0
    """In MiB."""
    alloc_memory: int = 0
    """In MiB."""
    gres: str = ""
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reason: str = ""
    comment: str = ""
    extra: str = ""


class Nodes(Model):
    """All nodes of a cluster."""

    nodes: tuple[Node, ...] = ()
