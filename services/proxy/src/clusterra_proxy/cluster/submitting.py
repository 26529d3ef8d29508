"""The idempotency keys with a submit in flight in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusterra_proxy.slurmrestd.errors import Unavailable


class Submitting:
    """The keys with a submit in flight in this process. The gateway's claim excludes others; this guards the claim."""

    def __init__(self) -> None:
        self._keys: set[tuple[int, str]] = set()

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
