"""The routes of the caller's clusters: `/v1/clusters`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from aiohttp import web
from clusterra_contracts.condition import ClusterCondition, Degradation
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.shapes import Shape
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.projection import ClusterState, Projection, set_cluster_state
from clusterra_gateway.bus.cluster_health import Conditions, ConnectionState, EdgeConnections
from clusterra_gateway.clusters.queue_summary import QueueSummaries, QueueSummary
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.http.requests.parameters import Body, body
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, caller_routes, cluster_routes

HEALTHY = ClusterCondition()


api = caller_routes(reads=Needs("clusters:read"))
of_cluster = cluster_routes(reads=Needs("clusters:read"))


class Cluster(ResponseBody):
    """A cluster. `state` is `active`, `paused` or `deleting`; `connection_state` is that of its edge.

    `degraded` has the reasons why the cluster does not work fully: none for a healthy one, null when it is not known.
    """

    id: str
    name: str
    state: str
    connection_state: ConnectionState
    degraded: tuple[Degradation, ...] | None


class Clusters(ResponseBody):
    """All clusters of the caller's tenant."""

    clusters: tuple[Cluster, ...]
    total: int


class ShapeView(ResponseBody):
    """A kind of worker that the cluster may buy. `most` is the limit of its number, null without one."""

    name: str
    family: str
    vcpu: int
    memory_gib: float
    gpu_count: int
    gpu_model: str
    usd_per_hour: Decimal
    most: int | None

    @classmethod
    def of(cls, shape: Shape, policy: ScalingPolicy) -> "ShapeView":
        """What the caller sees of a shape of the catalogue."""
        usd_per_hour = Decimal(str(shape.usd_per_hour))
        return cls.showing(shape, usd_per_hour=usd_per_hour, most=policy.most.get(shape.name))


class PolicyView(ResponseBody):
    """The scaling policy, as far as it is no limit by shape or number.

    `usd_per_hour` is the limit on the cost of all workers together, null without one. `idle_seconds` is the longest
    time that an idle worker is kept.
    """

    name: Literal["packing", "family"]
    idle_seconds: float
    usd_per_hour: Decimal | None

    @classmethod
    def of(cls, policy: ScalingPolicy) -> "PolicyView":
        """What the caller sees of a policy."""
        limit = None if policy.usd_per_hour is None else Decimal(str(policy.usd_per_hour))
        return cls.showing(policy, usd_per_hour=limit)


class ClusterDetail(Cluster):
    """A cluster, the shapes that it may buy at the prices of its catalogue, its policy, and its queue.

    `queue` is null before the proxy has seen the cluster's Slurm, or when the queue cannot be read now.
    """

    partition: str
    max_workers: int
    shapes: tuple[ShapeView, ...]
    policy: PolicyView | None = None
    queue: QueueSummary | None


@dataclass(frozen=True)
class ClusterHandlers:
    """The handlers of clusters."""

    registry: Registry
    edges: EdgeConnections
    conditions: Conditions
    queues: QueueSummaries

    @api.get("clusters_list", "/v1/clusters", result=Clusters, names=(Named(CLUSTER, "/clusters/0/id"),))
    async def clusters(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the clusters of the caller's tenant, by id."""
        conditions = await self.conditions.of_tenant(caller.member.tenant)
        clusters = tuple(
            self._cluster(ref, binding, conditions)
            for ref, binding in sorted(self.registry.clusters.items(), key=lambda entry: entry[0].cluster)
            if ref.tenant == caller.member.tenant
        )
        return json_response(Clusters(clusters=clusters, total=len(clusters)))

    @of_cluster.get("clusters_get", CLUSTER, result=ClusterDetail)
    async def cluster(self, _request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a cluster with its shapes, their prices, its policy, and a summary of its queue."""
        conditions, queue = await asyncio.gather(self.conditions.of_tenant(caller.member.tenant), self.queues.of(ref))
        binding = self.registry.clusters.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        detail = ClusterDetail(
            **self._cluster(ref, binding, conditions).model_dump(),
            partition=binding.partition,
            max_workers=binding.policy.max_workers,
            shapes=tuple(ShapeView.of(shape, binding.policy) for shape in binding.catalogue.shapes),
            policy=PolicyView.of(binding.policy),
            queue=queue,
        )
        return json_response(detail)

    def _cluster(
        self, ref: ClusterRef, binding: ClusterBinding, conditions: Mapping[ClusterRef, ClusterCondition] | None
    ) -> Cluster:
        return Cluster(
            id=ref.cluster,
            name=binding.name,
            state=binding.lifecycle,
            connection_state=self.edges.state(ref),
            degraded=None if conditions is None else conditions.get(ref, HEALTHY).degraded,
        )


management = cluster_routes(changes=Needs("clusters:write", "admin"))


class ChangeCluster(Body):
    """The state that the cluster is to have."""

    state: ClusterState


class ChangedCluster(ResponseBody):
    """A cluster's state in the record. `changed` is false where it was so before."""

    id: str
    state: ClusterState
    changed: bool


class ClusterManagement:
    """The handlers of changes."""

    def __init__(self, directory: Directory, projection: Projection) -> None:
        self._directory = directory
        self._projection = projection

    @management.patch("clusters_change", CLUSTER, body=ChangeCluster, result=ChangedCluster)
    async def change(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Pauses or resumes a cluster.

        A paused cluster buys no workers: its jobs wait, those that run go on, and idle workers go.
        """
        wanted = await body(request, ChangeCluster)
        changed = await set_cluster_state(self._directory, ref, wanted.state, actor=caller.member.user)
        await self._projection.project_now(ref.tenant)
        return json_response(ChangedCluster(id=ref.cluster, state=wanted.state, changed=changed))
