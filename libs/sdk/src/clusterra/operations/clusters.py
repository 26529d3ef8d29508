"""Clusters, their shapes and their nodes."""

from clusterra.exchange import Request, Steps
from clusterra.models import Cluster, ClusterDetail, Clusters, Shape
from clusterra.nodes import Node, Nodes
from clusterra.operations.api import Api

SLURM_VERSION = "v0.0.44"
"""The version of slurmrestd's API whose nodes are read."""


def clusters(api: Api) -> Steps[list[Cluster]]:
    """The clusters of the caller's tenant."""
    return list((yield from api.read(Clusters, "/v1/clusters")).clusters)


def cluster(api: Api, name: str | None) -> Steps[ClusterDetail]:
    """A cluster with its shapes and a summary of its queue."""
    return (yield from api.read(ClusterDetail, api.on("", name).rstrip("/")))


def shapes(api: Api, name: str | None) -> Steps[list[Shape]]:
    """The kinds of workers that a cluster may buy."""
    return list((yield from cluster(api, name)).shapes)


def nodes(api: Api, name: str | None) -> Steps[list[Node]]:
    """The nodes that Slurm knows now. Workers exist only while jobs need them."""
    answer = yield from api.ask(Request("GET", api.on(f"slurm/{SLURM_VERSION}/nodes/", name)))
    return list(api.parsed(Nodes, answer).nodes)
