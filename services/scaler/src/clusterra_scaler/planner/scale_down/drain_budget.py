"""How many workers begin to be drained within a minute: a bound on what one mistake can do."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from clusterra_contracts.identity import WorkerName

MINUTE = timedelta(minutes=1)


class DrainBudget:
    """The drains of the minute that ends now, by when they were asked for first. Filled in place."""

    def __init__(self, recorded: Mapping[WorkerName, datetime], per_minute: int, now: datetime) -> None:
        """`recorded` may hold older ones, too."""
        self._recorded = recorded
        self._begun = {name: begun for name, begun in recorded.items() if now - begun < MINUTE}
        self._per_minute = per_minute
        self._now = now
        self._more = False

    def begin(self, name: WorkerName) -> bool:
        """Whether this worker's drain may be asked for; one that was begun may be asked for again."""
        if name in self._begun:
            return True
        if len(self._begun) >= self._per_minute:
            return False
        self._begun[name] = self._now
        self._more = True
        return True

    @property
    def record(self) -> dict[WorkerName, datetime]:
        """What to record. Older ones are dropped with the next that begins: that they are old changes nothing."""
        return dict(self._begun if self._more else self._recorded)
