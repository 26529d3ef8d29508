"""How long the archive keeps events, by their kind."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

from clusterra_contracts.events import AUDIT, KINDS, kinds_of
from pydantic import AfterValidator

DAY_SECONDS = 86_400.0
MAX_DAYS = 3650.0


def _checked(days: dict[str, float]) -> dict[str, float]:
    for name, given in days.items():
        if not kinds_of(name):
            raise ValueError(f"{name!r} is no kind of events, no family such as 'job.*', and not '{AUDIT}'")
        if not (math.isfinite(given) and 0 < given <= MAX_DAYS):
            raise ValueError(f"{name!r} must be kept for more than 0 and at most {MAX_DAYS:.0f} days")
    return days


DaysByKind = Annotated[dict[str, float], AfterValidator(_checked)]
"""A name -> days. A name is one kind, a family such as `job.*`, or `audit`."""


class Retention:
    """How long each kind is kept. A kind by its own name goes before families; of these the longest counts."""

    def __init__(self, seconds: float, days: Mapping[str, float] | None = None) -> None:
        """`seconds`: for kinds that `days` does not name, also those of later releases."""
        self._default = seconds
        self._of = dict[str, float]()
        for name, given in (days or {}).items():
            if name not in KINDS:
                for kind in kinds_of(name):
                    self._of[kind] = max(self._of.get(kind, 0.0), given * DAY_SECONDS)
        self._of |= {name: given * DAY_SECONDS for name, given in (days or {}).items() if name in KINDS}

    def seconds(self, kind: str) -> float:
        """How long events of a kind are kept."""
        return self._of.get(kind, self._default)

    def shortest(self, kinds: Collection[str] | None = None) -> float:
        """How long all events of these kinds are kept; None: of all kinds."""
        return min(self._each(kinds))

    @property
    def longest(self) -> float:
        """After so long nothing is left."""
        return max(self._each(None))

    def _each(self, kinds: Collection[str] | None) -> Iterable[float]:
        if kinds:
            return map(self.seconds, kinds)
        return (self._default, *self._of.values())
