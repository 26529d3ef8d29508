"""Change signals between parts of the agent. A signal carries no data: the listener reads the current state."""

import asyncio


class ChangeSignal:
    """Notifies any number of listeners. Changes that a listener has not handled yet are merged into one."""

    def __init__(self) -> None:
        self._listeners: list[asyncio.Event] = []

    def listen(self, event: asyncio.Event) -> None:
        """Sets the listener's `event` at each change. The listener clears it before it reads the state."""
        self._listeners.append(event)

    def notify(self) -> None:
        """Notifies the listeners of a change."""
        for event in self._listeners:
            event.set()


class BatchedChangeSignal(ChangeSignal):
    """Merges the changes of an interval into one signal at its end: for state that changes often and is not urgent."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._end: asyncio.TimerHandle | None = None

    def notify(self) -> None:
        """Notifies the listeners at the end of the interval."""
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._notify_now)

    def _notify_now(self) -> None:
        self._end = None
        super().notify()
