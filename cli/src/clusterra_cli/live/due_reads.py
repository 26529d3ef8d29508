"""Which records must be read again, and when: each once however often it is due, and never more than some a second."""

from dataclasses import dataclass, field

from clusterra_cli.live.state import FLEET, JOBS, MONEY

SPACING_SECONDS = 0.25
"""Between two reads."""
MAX_SINGLE_JOBS = 50
"""When more jobs than these are due, the whole queue is read instead."""
_SPACING = {JOBS: 3.0, FLEET: 1.0, MONEY: 5.0}
"""Between two reads of the same whole."""
_DELAY = {JOBS: 0.2, FLEET: 2.0, MONEY: 2.0}
"""After an event: so that what comes together is read once, and the ledger and the list of nodes have it, too."""


@dataclass(slots=True)
class DueReads:
    """The records that are due. Times are seconds of a monotonic clock."""

    _due: dict[str, float] = field(default_factory=dict)
    """The records, and when each may be read."""
    _last: dict[str, float] = field(default_factory=dict)

    def add(self, key: str, now: float) -> None:
        """Note that a record must be read again: `jobs`, `fleet`, `money`, or that of a job by its id."""
        if key not in _SPACING and JOBS in self._due:
            return
        at = now + _DELAY.get(key, 0.2)
        if key in self._last:
            at = max(at, self._last[key] + _SPACING[key])
        self._due.setdefault(key, at)
        singles = [each for each in self._due if each not in _SPACING]
        if len(singles) > MAX_SINGLE_JOBS or key == JOBS:
            for each in singles:
                del self._due[each]
            if key != JOBS:
                self.add(JOBS, now)

    def taken(self, now: float) -> str | None:
        """Take the record that has waited longest of those that may be read now; None where there is none."""
        key = min(self._due, key=self._due.__getitem__, default=None)
        if key is None or self._due[key] > now:
            return None
        del self._due[key]
        if key in _SPACING:
            self._last[key] = now
        return key

    def wait(self, now: float) -> float | None:
        """The seconds until a record may be read; None where none is due."""
        return max(0.0, min(self._due.values()) - now) if self._due else None
