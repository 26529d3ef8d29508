"""Turns of users: how much of a cluster's Slurm one user may occupy at a time, whatever they ask for."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from clusterra_runtime.keyed_turns import KeyedTurns, TooManyWait

from clusterra_proxy.slurmrestd.errors import Unavailable

MAX_WAITING = 256
"""How many requests of one user wait for a turn. Each may hold a script of megabytes."""


class UserTurns:
    """The requests of users in this process, each of them with a few at a time."""

    def __init__(self, at_once: int, what: str) -> None:
        """`what` they are, such as `submits`."""
        self._turns = KeyedTurns[int](at_once, MAX_WAITING)
        self._what = what

    @asynccontextmanager
    async def turn(self, uid: int) -> AsyncIterator[None]:
        """Wait for one of the user's turns and hold it until the block ends.

        Raises Unavailable at once when too many requests of the user wait.
        """
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self._turns.turn(uid))
            except TooManyWait as many:
                raise Unavailable(
                    f"{many.present} {self._what} of this user are in flight",
                    hint="wait for their answers, or submit an array",
                ) from None
            yield
