"""Pauses and resumes a cluster: for admins over HTTP, and for operators (`clusterra-admin provision pause`)."""

from typing import Literal

from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.store.store import ConditionFailed

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.http.requests.errors import Conflict, NotFound

ClusterState = Literal["active", "paused"]


async def set_cluster_state(directory: Directory, ref: ClusterRef, state: ClusterState, *, actor: str) -> bool:
    """Write a cluster's state, with an event that names the actor. Returns whether that changed anything.

    A paused cluster buys no workers; its jobs wait, and those that run go on. The services learn of it by the next
    projection. Raises NotFound, Conflict, StoreError.
    """

    def in_state(current: ClusterBinding | None) -> ClusterBinding:
        if current is None:
            raise NotFound(
                f"there is no cluster {ref} in the record",
                hint="GET /v1/clusters and `clusterra-admin provision list` name them all",
            )
        if current.deleting:
            raise Conflict(f"the cluster {ref} is being deleted", hint="a deletion cannot be taken back")
        return current.model_copy(update={"state": state})

    fact = AdminFact(
        kind="cluster.paused" if state == "paused" else "cluster.resumed", actor=actor, subject=ref.cluster
    )
    told = cluster_event(ref, fact, version=now().isoformat())
    try:
        return await directory.change_cluster(ref, in_state, changed=[told]) is not None
    except ConditionFailed:
        raise Conflict(f"others are changing the cluster {ref}", hint="try again") from None
