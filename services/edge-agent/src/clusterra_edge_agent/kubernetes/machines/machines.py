"""Follows the machines of the workers: their nodes and NodeClaims."""

import asyncio
from collections.abc import Callable, ValuesView

from clusterra_contracts.shapes import Family

from clusterra_edge_agent.kubernetes.client.api import Api, Collection
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.machines.karpenter import (
    FAMILY_LABEL,
    INSTANCE_FAMILIES,
    NODE_POOL_LABEL,
    pool_name,
)
from clusterra_edge_agent.kubernetes.machines.resources import Machine, Node, NodeClaim

_FAMILIES: tuple[Family, ...] = tuple(INSTANCE_FAMILIES)

NODES = Collection("/api/v1/nodes", FAMILY_LABEL, Node)
NODE_CLAIMS = Collection(
    "/apis/karpenter.sh/v1/nodeclaims", f"{NODE_POOL_LABEL} in ({','.join(map(pool_name, _FAMILIES))})", NodeClaim
)


class Machines:
    """The nodes and NodeClaims. They are unknown in a cluster without Karpenter, or without the right to read them."""

    def __init__(self, api: Api, on_change: Callable[[], None]) -> None:
        """`on_change` is called whenever `nodes` or `claims` may have changed."""
        self._on_change = on_change
        self._last_following = (False, False)
        self._nodes = Reflector(api, NODES, self._machine_changed, self._following_changed, optional=True)
        self._claims = Reflector(api, NODE_CLAIMS, self._machine_changed, self._following_changed, optional=True)

    async def run(self) -> None:
        """Follows the API server, until cancelled."""
        async with asyncio.TaskGroup() as following:
            following.create_task(self._nodes.run())
            following.create_task(self._claims.run())

    @property
    def nodes(self) -> ValuesView[Node] | None:
        """All worker nodes. None while they cannot be followed."""
        return self._nodes.objects.values() if self._nodes.following else None

    @property
    def claims(self) -> ValuesView[NodeClaim] | None:
        """All NodeClaims of workers. None while they cannot be followed."""
        return self._claims.objects.values() if self._claims.following else None

    def _machine_changed(self, old: Machine | None, new: Machine | None) -> None:
        if old is None or new is None or _read_fields(old) != _read_fields(new):
            self._on_change()

    def _following_changed(self) -> None:
        following = (self._nodes.following, self._claims.following)
        if following != self._last_following:
            self._last_following = following
            self._on_change()


def _read_fields(machine: Machine) -> dict[str, object]:
    """Returns all fields that are read, without the resource version, which also changes with the others."""
    return machine.model_dump(exclude={"metadata": {"resource_version"}})
