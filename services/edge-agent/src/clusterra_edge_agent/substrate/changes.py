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


class GatheredChanges(Changes):
    """Tells all changes of a while at its end, as one: for what changes a lot and is never urgent."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._end: asyncio.TimerHandle | None = None

    def tell(self) -> None:
        """Something changed."""
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._tell_now)

    def _tell_now(self) -> None:
        self._end = None
        super().tell()
