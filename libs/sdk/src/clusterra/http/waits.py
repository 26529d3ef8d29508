"""Counts the concurrent waits of a client, so that they leave streams for the person's other programs."""

from threading import Lock

MOST_BY_EVENTS = 8
"""A person may have 50 streams and other long transfers at a replica."""


class Waits:
    """A counter. The value of its `with` block is whether this wait may follow events."""

    def __init__(self) -> None:
        self._count = 0
        self._changing = Lock()

    def __enter__(self) -> bool:
        with self._changing:
            self._count += 1
            return self._count <= MOST_BY_EVENTS

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._count -= 1
