"""The drain budget: how many drains may begin within a minute. It bounds the damage of one mistake."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from clusterra_contracts.identity import WorkerName

MINUTE = timedelta(minutes=1)


class DrainBudget:
    """The drains that began in the last minute, by the time of their first request. Changed in place."""

    def __init__(self, recorded: Mapping[WorkerName, datetime], per_minute: int, now: datetime) -> None:
        """`recorded` may also hold older drains."""
        self._recorded = recorded
        self._begun = {name: begun for name, begun in recorded.items() if now - begun < MINUTE}
        self._per_minute = per_minute
        self._now = now
        self._spent = False

    def spend(self, name: WorkerName) -> bool:
        """Whether the drain of this worker may be requested. A drain that has begun may be requested again."""
        if name in self._begun:
            return True
        if len(self._begun) >= self._per_minute:
            return False
        self._begun[name] = self._now
        self._spent = True
        return True

    @property
    def record(self) -> dict[WorkerName, datetime]:
        """The drains to record. Older ones stay until the next drain begins: their age has no effect."""
        return dict(self._begun if self._spent else self._recorded)
