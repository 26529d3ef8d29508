"""Requests of `rpc.slurm` about the nodes of a cluster and the health of its Slurm, and their results."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import Moment, Wire

DRAIN_REASON_PREFIX = "clusterra:"
"""Only a drain whose reason begins with this prefix is ours to undo."""


class ListNodes(Wire):
    """Read the cluster's nodes."""

    schema_name: ClassVar[str] = "slurm.nodes.v1"


class Node(Wire):
    """A Slurm node, for people to read."""

    name: str
    states: tuple[str, ...]
    cpus: int
    cpus_allocated: int
    memory_mib: int
    features: tuple[str, ...] = ()
    reason: str = ""


class NodePage(Wire):
    """All nodes of the cluster."""

    schema_name: ClassVar[str] = "slurm.node-list.v1"

    nodes: tuple[Node, ...]


class Drain(Wire):
    """Drain a node: it finishes its jobs and starts no new ones. The proxy prefixes `DRAIN_REASON_PREFIX`."""

    schema_name: ClassVar[str] = "slurm.drain.v1"

    node: str
    reason: str


class Drained(Wire):
    """Slurm accepted the drain. Only a snapshot taken after this moment proves that the node stays idle."""

    schema_name: ClassVar[str] = "slurm.drained.v1"

    accepted_at: Moment


class Undrain(Wire):
    """End the drain of a node. Rejected (`conflict`) when the drain is not ours."""

    schema_name: ClassVar[str] = "slurm.undrain.v1"

    node: str


class Down(Wire):
    """Set a node DOWN, so that Slurm requeues its jobs. The proxy prefixes `DRAIN_REASON_PREFIX` to the reason."""

    schema_name: ClassVar[str] = "slurm.down.v1"

    node: str
    reason: str


class DeleteNode(Wire):
    """Delete the record of a dynamic node. Rejected (`conflict`) while the node runs something."""

    schema_name: ClassVar[str] = "slurm.delete-node.v1"

    node: str


class SetExtra(Wire):
    """Set the Extra of a node, against which the `extra` expression of jobs is evaluated."""

    schema_name: ClassVar[str] = "slurm.set-extra.v1"

    node: str
    extra: Annotated[str, Field(max_length=65536)]


class Diagnose(Wire):
    """Read the health of the cluster's Slurm."""

    schema_name: ClassVar[str] = "slurm.diag.v1"


class Diagnosis(Wire):
    """The health of the cluster's Slurm, as the proxy knows it."""

    schema_name: ClassVar[str] = "slurm.diagnosis.v2"

    reachable: bool
    api_version: str = ""
    slurm_version: str = ""
    jobs: int = 0
    last_listed_at: Moment | None = None
    partition_found: bool | None = None
    """Whether Slurm has the partition of the binding; None: not known."""
    operator_privileged: bool | None = None
    """Whether slurmdbd gives the operator the rights to drain and delete nodes; None: slurmdbd was not read."""
    problem: str = ""
    """Why Slurm is not reachable, or what of it could not be read."""
