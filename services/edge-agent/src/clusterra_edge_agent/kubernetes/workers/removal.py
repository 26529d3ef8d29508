"""The last step before workers are removed: is that still desired?"""

from collections.abc import Awaitable, Callable

from clusterra_edge_agent.substrate.port import DesiredCheck


class Outdated(Exception):
    """A newer desired state has been received, another agent may act, or a victim may not be removed any more."""


async def if_still_desired(
    check: DesiredCheck, may_remove: Callable[[], bool], remove: Callable[[], Awaitable[None]]
) -> None:
    """Removes workers if this is still desired and they may be removed by what is known of them after that look.

    Raises Outdated otherwise, and what `remove` raises.
    """
    if not await check.look_again() or not may_remove():
        raise Outdated
    await remove()
