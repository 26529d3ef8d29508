"""How parts of the agent tell each other that something changed, without saying what: the state itself is asked."""

import asyncio


class Changes:
    """Any number of listeners; changes that a listener has not looked at yet become one."""

    def __init__(self) -> None:
        self._listeners: list[asyncio.Event] = []

    def listen(self, event: asyncio.Event) -> None:
        """Set the listener's `event` at each change. The listener clears it before it looks."""
        self._listeners.append(event)

    def tell(self) -> None:
        """Something changed."""
        for event in self._listeners:
            event.set()
