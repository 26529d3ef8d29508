"""Node records in `State=FUTURE`. slurmrestd lists them only on request (`flags=FUTURE`)."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from clusterra_contracts.node_extra import OPEN

from clusterra_proxy.slurmrestd.answers import Answer, FutureNode, FutureNodes
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_proxy.slurmrestd.versions import Version

_FUTURE = {"flags": "FUTURE"}


class FutureNodeRecords:
    """One cluster's FUTURE node records, under which no slurmd has registered. `nodes` are hostlist expressions.

    Changing records requires an administrator's token. Every method raises the errors of
    `clusterra_proxy.slurmrestd.errors`.
    """

    def __init__(self, slurmrestd: Slurmrestd, version: Callable[[str], Awaitable[Version]]) -> None:
        self._rest = slurmrestd
        self._version = version

    async def list(self, token: str) -> tuple[FutureNode, ...]:
        """List all FUTURE records. A thousand records take slurmrestd most of a second."""
        path = (await self._version(token)).slurm("nodes/")
        answer = await self._rest.read_list(path, token, FutureNodes, entity="node", query=_FUTURE)
        return tuple(node for node in answer.nodes if node.future) if answer else ()

    async def get(self, token: str, name: str) -> FutureNode | None:
        """Return the FUTURE record of this name, or None."""
        path = (await self._version(token)).slurm(f"node/{name}")
        try:
            answer = await self._rest.read(path, token, FutureNodes, entity="node", query=_FUTURE)
        except NotFound:
            return None
        return next((node for node in answer.nodes if node.future), None)

    async def create(self, token: str, line: str) -> None:
        """Create the records of a slurm.conf line. Raises Rejected, and NotFound when Slurm is older than 25.11."""
        path = (await self._version(token)).slurm("new/node/")
        await self._rest.write("POST", path, token, Answer, entity="endpoint for new nodes", body={"node_conf": line})

    async def amend(self, token: str, nodes: str, gres: str) -> None:
        """Set the records' generic resources, and an Extra that opens them to jobs of every class."""
        path = (await self._version(token)).slurm(_path(nodes))
        body = {"extra": OPEN} | ({"gres": gres} if gres else {})
        await self._rest.write("POST", path, token, Answer, entity="node", body=body)

    async def delete(self, token: str, nodes: str) -> None:
        """Delete records. Raises NotFound when one is missing, after deleting the others."""
        path = (await self._version(token)).slurm(_path(nodes))
        await self._rest.write("DELETE", path, token, Answer, entity="node")


def _path(nodes: str) -> str:
    # slurmrestd accepts a hostlist expression, but no unquoted bracket in a URL.
    return f"node/{quote(nodes, safe='')}"
