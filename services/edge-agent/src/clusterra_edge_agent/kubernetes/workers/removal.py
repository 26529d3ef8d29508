"""The last step before workers are removed: is that still desired?"""

from collections.abc import Awaitable, Callable

from clusterra_edge_agent.substrate.port import DesiredCheck


class Outdated(Exception):
    """A newer desired state has been received, or another agent may act."""


async def if_still_desired(check: DesiredCheck, remove: Callable[[], Awaitable[None]]) -> None:
    """Removes workers if this is still desired. Raises Outdated otherwise, and what `remove` raises."""
    if not await check.look_again():
        raise Outdated
    await remove()
