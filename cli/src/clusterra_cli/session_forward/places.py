"""The connections of the forwarded port: those that have shown the cookie, and those that have not yet.

Every user of the machine can open connections. They share places of their own, where a new one ends the oldest, so that
they never keep the user's browser out.
"""

import asyncio
from dataclasses import dataclass, field

MAX_ADMITTED = 64
"""The gateway forwards at most 100 requests of a person at a time."""
MAX_WAITING = 64


@dataclass(slots=True)
class Places:
    """Which connections are open, the oldest first."""

    _waiting: dict[asyncio.StreamWriter, None] = field(default_factory=dict)
    _admitted: set[asyncio.StreamWriter] = field(default_factory=set)

    def add(self, connection: asyncio.StreamWriter) -> None:
        """Add a new connection. Where too many wait, the oldest of them is aborted."""
        if len(self._waiting) >= MAX_WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()
        self._waiting[connection] = None

    def is_admitted(self, connection: asyncio.StreamWriter) -> bool:
        """Whether a request of this connection was admitted."""
        return connection in self._admitted

    def admit(self, connection: asyncio.StreamWriter) -> bool:
        """Count a connection as admitted. False where there are too many of these."""
        if connection in self._admitted:
            return True
        if len(self._admitted) >= MAX_ADMITTED:
            return False
        self._waiting.pop(connection, None)
        self._admitted.add(connection)
        return True

    def remove(self, connection: asyncio.StreamWriter) -> None:
        """Forget a connection that has ended."""
        self._waiting.pop(connection, None)
        self._admitted.discard(connection)

    def close(self) -> None:
        """End all connections."""
        for each in (*self._waiting, *self._admitted):
            each.close()
