"""How far `advise` is."""

from typing import Protocol


class Progress(Protocol):
    """Receives progress while the advice is made."""

    def __call__(self, what: str, done: int, total: int | None, /) -> None:
        """What is done now, how much of it is done (bytes, jobs or fleets), and all of it; None where unknown."""


def silent(_what: str, _done: int, _total: int | None, /) -> None:
    """Show nothing."""
