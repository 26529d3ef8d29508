"""Node records in `State=FUTURE`, as slurmrestd shows them to who asks for them: no other list of nodes has them."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from clusterra_contracts.node_extra import OPEN

from clusterra_proxy.slurmrestd.answers import Answer, FutureNode, FutureNodes
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.slurmrestd.versions import Version

_FUTURE = {"flags": "FUTURE"}


class FutureNodeRecords:
    """One cluster's node records that no slurmd stands for. `nodes` are hostlist expressions.

    Changing them takes an administrator's token. Every method raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """

    def __init__(self, slurmrestd: Slurmrestd, version: Callable[[str], Awaitable[Version]]) -> None:
        self._rest = slurmrestd
        self._version = version

    async def list(self, token: str) -> tuple[FutureNode, ...]:
        """All of them; a thousand take slurmrestd most of a second."""
        path = (await self._version(token)).slurm("nodes/")
        answer = await self._rest.read_list(path, token, FutureNodes, entity="node", query=_FUTURE)
        return tuple(node for node in answer.nodes if node.future) if answer else ()

    async def get(self, token: str, name: str) -> FutureNode | None:
        """One of them; None when there is none of this name."""
        path = (await self._version(token)).slurm(f"node/{name}")
        try:
            answer = await self._rest.read(path, token, FutureNodes, entity="node", query=_FUTURE)
        except NotFound:
            return None
        return next((node for node in answer.nodes if node.future), None)

    async def create(self, token: str, line: str) -> None:
        """Create those of a line of slurm.conf. Raises Rejected, and NotFound where Slurm is older than 25.11."""
        path = (await self._version(token)).slurm("new/node/")
        await self._rest.write("POST", path, token, Answer, entity="request for new nodes", body={"node_conf": line})

    async def amend(self, token: str, nodes: str, gres: str) -> None:
        """Say what generic resources they have, and that they take jobs of every class."""
        path = (await self._version(token)).slurm(_path(nodes))
        body = {"extra": OPEN} | ({"gres": gres} if gres else {})
        await self._rest.write("POST", path, token, Answer, entity="node", body=body)

    async def delete(self, token: str, nodes: str) -> None:
        """Delete them. Raises NotFound when one is missing; the others are deleted all the same."""
        path = (await self._version(token)).slurm(_path(nodes))
        await self._rest.write("DELETE", path, token, Answer, entity="node")


def _path(nodes: str) -> str:
    # slurmrestd takes an expression, but no bare bracket in a URL.
    return f"node/{quote(nodes, safe='')}"
