"""The machines of our workers: their nodes and NodeClaims, followed."""

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
    """A cluster without Karpenter, or one where the agent has no right to see them, has none that are known."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        """`changed` is called whenever there may be another answer."""
        self._tell = changed
        self._seen_following = (False, False)
        self._nodes = Reflector(api, NODES, self._changed, self._told, optional=True)
        self._claims = Reflector(api, NODE_CLAIMS, self._changed, self._told, optional=True)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as following:
            following.create_task(self._nodes.run())
            following.create_task(self._claims.run())

    @property
    def nodes(self) -> ValuesView[Node] | None:
        """None while they cannot be followed."""
        return self._nodes.objects.values() if self._nodes.following else None

    @property
    def claims(self) -> ValuesView[NodeClaim] | None:
        """None while they cannot be followed."""
        return self._claims.objects.values() if self._claims.following else None

    def _changed(self, old: Machine | None, new: Machine | None) -> None:
        if old is None or new is None or _parts(old) != _parts(new):
            self._tell()

    def _told(self) -> None:
        following = (self._nodes.following, self._claims.following)
        if following != self._seen_following:
            self._seen_following = following
            self._tell()


def _parts(machine: Machine) -> dict[str, object]:
    """All that is read of it but the number of its version, which also counts what is not read."""
    return machine.model_dump(exclude={"metadata": {"resource_version"}})
