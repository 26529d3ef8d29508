"""The states of one direction of a stream, without any I/O: what was sent, what arrived, what may be asked for."""

from dataclasses import dataclass

MAX_CREDITS = 8
"""The window: the most chunks under way in one direction of a stream. With chunks of 32 KiB it is 256 KiB."""


class ChunkLost(Exception):
    """A chunk is missing, repeated, or comes after the end. What follows cannot be trusted."""


@dataclass(slots=True)
class Arrivals:
    """Checks that chunks arrive in order, without a gap, and none after the end."""

    last: int = 0
    """The number of the last chunk."""
    ended: bool = False

    def take(self, number: int, *, end: bool) -> None:
        """Note the next chunk. Raises ChunkLost."""
        if self.ended:
            raise ChunkLost(f"chunk {number} came after the end of the stream")
        if number != self.last + 1:
            raise ChunkLost(f"chunk {number} came after chunk {self.last}")
        self.last, self.ended = number, end

    def take_answer(self, number: int, *, empty: bool, end: bool) -> None:
        """Note the answer to a request for a chunk. Raises ChunkLost.

        An answer without bytes and end repeats the last number. The end is a chunk of its own, and is repeated to
        requests that were under way when it came.
        """
        if empty and number == self.last:
            self.ended = self.ended or end
        elif empty and not end:
            raise ChunkLost(f"chunk {number} did not arrive")
        else:
            self.take(number, end=end)


@dataclass(slots=True)
class Departures:
    """Numbers the chunks of a sender."""

    last: int = 0
    ended: bool = False

    def next(self, *, end: bool = False) -> int:
        """The number of the next chunk. Raises ChunkLost after the end."""
        if self.ended:
            raise ChunkLost("nothing can follow the end of the stream")
        self.last, self.ended = self.last + 1, end
        return self.last


@dataclass(slots=True)
class Credits:
    """How many chunks a receiver asks for at once: one while little comes, more while every chunk is full."""

    wanted: int = 1

    def received(self, size: int, full: int) -> None:
        """Note the size of a chunk, of which `full` is the most."""
        if size >= full:
            self.wanted = min(self.wanted * 2, MAX_CREDITS)
        elif size == 0:
            self.wanted = 1
