"""Rooms by what they have free, so that who looks for one need not look at all."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from clusterra_scaler.planner.packing.bins import Room

type Stack = dict[int, Room]
"""Rooms with the same in them, by their order: each costs any job as much as the others."""


class Shelves:
    """Rooms with free CPUs, by how many those are. Rooms that are alike stand in one stack."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._cpus: list[int] = []
        """Of each shelf, the fewest first; it may be empty by now."""
        self._stacks: dict[int, dict[int, Stack]] = {}
        """Of each shelf, by what its rooms are like."""
        for room in rooms:
            self.add(room)

    def add(self, room: Room) -> Stack | None:
        """Keep a room if it has room, and answer where it stands then."""
        cpus = int(room.cpus)
        if not cpus or room.exclusive:
            return None
        if cpus not in self._stacks:
            insort(self._cpus, cpus)
            self._stacks[cpus] = {}
        stack = self._stacks[cpus].setdefault(room.alike, {})
        stack[room.order] = room
        return stack

    def remove(self, room: Room) -> None:
        """Take a room away, if it is there, before anything in it changes."""
        shelf = self._stacks.get(int(room.cpus), {})
        stack = shelf.get(room.alike)
        if stack is not None:
            stack.pop(room.order, None)
            if not stack:
                del shelf[room.alike]

    def stacks(self, cpus: int) -> Iterator[Stack]:
        """Rooms with at least so many free CPUs; those that would have the fewest left come first."""
        for free in self._cpus[bisect_left(self._cpus, cpus) :]:
            yield from self._stacks[free].values()
