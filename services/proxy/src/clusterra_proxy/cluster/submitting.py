"""The submits in flight in this process: their idempotency keys, and how many each user has."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

from clusterra_proxy.cluster.user_turns import user_turns
from clusterra_proxy.slurmrestd.errors import Unavailable

TURNS = 2
"""How many submits of one user slurmrestd has at a time: it has four threads for all users of a cluster."""


class Submitting:
    """The submits in flight in this process. The gateway's claim excludes others of the same key; this guards the
    claim, and keeps a user from occupying all threads of slurmrestd.
    """

    def __init__(self) -> None:
        self._keys: set[tuple[int, str]] = set()
        self._turns = user_turns(TURNS, "submits")

    def turn(self, uid: int) -> AbstractAsyncContextManager[None]:
        """Wait for one of the user's turns and hold it until the block ends. Raises Unavailable (`user_turns`)."""
        return self._turns.turn(uid)

    @contextmanager
    def alone(self, uid: int, key: str) -> Iterator[None]:
        """Hold a key until the block ends. Raises Unavailable when it is held."""
        if (uid, key) in self._keys:
            raise Unavailable("a submit with this Idempotency-Key is in flight", hint="ask again in a moment")
        self._keys.add((uid, key))
        try:
            yield
        finally:
            self._keys.remove((uid, key))
