"""`clusters`, `nodes`, `workers` and `shapes`: where jobs run, and what workers may be bought for them."""

from typing import TYPE_CHECKING

import typer

from clusterra_cli.connection import Cluster as ClusterOption
from clusterra_cli.connection import Json, Quiet, Url, connected
from clusterra_cli.output import Column, Output, moment, money

if TYPE_CHECKING:
    from clusterra.models import Cluster


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (clusters, nodes, workers, shapes):
        command.command()(each)


def clusters(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the clusters of your workspace."""
    with connected(url) as client:
        found = client.clusters()
    Output(json, quiet).listed(
        found,
        (Column("CLUSTER"), Column("NAME"), Column("STATE"), Column("EDGE"), Column("DEGRADED")),
        lambda each: (each.id, each.name, each.state, each.connection_state, _degraded(each)),
        lambda each: each.id,
    )


def _degraded(cluster: "Cluster") -> str:
    if cluster.degraded is None:
        return "unknown"
    return "; ".join(each.message for each in cluster.degraded)


def nodes(json: Json = False, quiet: Quiet = False, url: Url = None, cluster: ClusterOption = None) -> None:
    """List the workers that there are now, as Slurm knows them."""
    with connected(url, cluster) as client:
        found = client.nodes()
    Output(json, quiet).listed(
        found,
        (
            *(Column("NODE"), Column("STATE"), Column("CPUS", right=True), Column("USED", right=True)),
            *(Column("MEMORY MiB", right=True), Column("GRES"), Column("REASON")),
        ),
        lambda each: (
            *(each.name, "+".join(each.state), each.cpus, each.alloc_cpus),
            *(each.real_memory, each.gres, each.reason),
        ),
        lambda each: each.name,
    )


def workers(json: Json = False, quiet: Quiet = False, url: Url = None, cluster: ClusterOption = None) -> None:
    """List the live workers, each with what it does and costs now."""
    with connected(url, cluster) as client:
        found = list(client.workers())
    Output(json, quiet).listed(
        found,
        (
            *(Column("WORKER"), Column("SHAPE"), Column("PHASE"), Column("STATE"), Column("STARTED")),
            *(Column("CPUS", right=True), Column("USED", right=True), Column("JOBS", right=True)),
            *(Column("USD/HOUR", right=True), Column("REASON")),
        ),
        lambda each: (
            *(each.name, each.shape, each.phase, each.state, moment(each.started_at)),
            *(each.cpus, each.cpus_allocated, each.running_jobs),
            *(money(each.usd_per_hour), each.reason),
        ),
        lambda each: each.name,
    )


def shapes(json: Json = False, quiet: Quiet = False, url: Url = None, cluster: ClusterOption = None) -> None:
    """List the kinds of workers that the cluster may buy, with their prices."""
    with connected(url, cluster) as client:
        found = client.shapes()
    Output(json, quiet).listed(
        found,
        (
            *(Column("SHAPE"), Column("CPUS", right=True), Column("MEMORY GiB", right=True), Column("GPUS")),
            *(Column("USD/HOUR", right=True), Column("AT MOST", right=True)),
        ),
        lambda each: (
            *(each.name, each.vcpu, f"{each.memory_gib:g}"),
            f"{each.gpu_count} × {each.gpu_model}" if each.gpu_count else "",
            *(money(each.usd_per_hour), each.most),
        ),
        lambda each: each.name,
    )
