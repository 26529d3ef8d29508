"""Counts the waits of a client at a time: they must not take all streams that the gateway lets a person have."""

MOST_BY_EVENTS = 8
"""A person may have 50 streams and other long transfers at a replica."""


class Waits:
    """A counter. The value of its `with` block tells whether this wait may follow events."""

    def __init__(self) -> None:
        self._count = 0

    def __enter__(self) -> bool:
        self._count += 1
        return self._count <= MOST_BY_EVENTS

    def __exit__(self, *_: object) -> None:
        self._count -= 1
