"""Clusters, their shapes and their nodes."""

from clusterra.errors import NotFound
from clusterra.exchange import Request, Steps, Stream
from clusterra.models import Cluster, ClusterDetail, Clusters, Shape, Worker, Workers
from clusterra.nodes import Node, Nodes
from clusterra.operations.api import Api
from clusterra.operations.pages import paged
from clusterra.slurm_versions import SLURM_VERSIONS


def clusters(api: Api) -> Steps[list[Cluster]]:
    """The clusters of the caller's tenant."""
    return list((yield from api.read(Clusters, "/v1/clusters")).clusters)


def cluster(api: Api, name: str | None) -> Steps[ClusterDetail]:
    """A cluster with its shapes and a summary of its queue."""
    return (yield from api.read(ClusterDetail, api.on("", name).rstrip("/")))


def shapes(api: Api, name: str | None) -> Steps[list[Shape]]:
    """The kinds of workers that a cluster may buy."""
    return list((yield from cluster(api, name)).shapes)


def workers(api: Api, name: str | None) -> Stream[Worker]:
    """The live workers by name. There are none before the first heartbeat of the cluster."""
    request = Request("GET", api.on("workers", name))
    yield from paged(api, request, Workers, lambda page: (page.workers or (), page.cursor), None)


def nodes(api: Api, name: str | None) -> Steps[list[Node]]:
    """The nodes that Slurm knows now. Workers exist only while jobs need them."""
    for version in SLURM_VERSIONS[:-1]:
        try:
            return (yield from _nodes(api, name, version))
        except NotFound:
            continue
    return (yield from _nodes(api, name, SLURM_VERSIONS[-1]))


def _nodes(api: Api, name: str | None, version: str) -> Steps[list[Node]]:
    """The same in one version. Raises NotFound where the cluster does not serve it, or does not exist."""
    answer = yield from api.ask(Request("GET", api.on(f"slurm/{version}/nodes/", name)))
    return list(api.parsed(Nodes, answer).nodes)
