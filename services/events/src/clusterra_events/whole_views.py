"""From when on the narrow views have all their events: since every replica that archives writes them.

A release from before these views may archive beside this one during an update, or alone after a rollback. What it
archives is in the wide views alone. So the store has a mark: the narrow views are whole from this time on. A replica
moves it into the future while it sees an older release at work, and when nobody of its own release kept watch for
`MAX_UNWATCHED_SECONDS`. What happened before the mark is read from the wide views, until it has expired.
"""

import asyncio
import time
from collections.abc import Callable

import structlog
from clusterra_contracts.identity import MAX_CLOCK_AHEAD
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.versions import announcements
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import ConditionFailed, Put, Store, StoreError, Table
from pydantic import BaseModel, ConfigDict, ValidationError

from clusterra_events.archive_views import FORM

log = structlog.get_logger(__name__)

MARK = Key("views", f"whole-{FORM}")
CHECK_SECONDS = 10.0
"""Less than an announcement lives: every replica is seen that works for longer."""
RENEW_SECONDS = 60.0
MAX_UNWATCHED_SECONDS = 300.0
AHEAD_SECONDS = MAX_CLOCK_AHEAD.total_seconds()
"""How much later than its archiving an event may say that it happened."""


class _Mark(BaseModel):
    """Both in epoch seconds: from when on the views are whole, and when somebody last made sure of it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    whole_from: float
    watched_at: float


class WholeViews:
    """Keeps the mark, for one replica of a service."""

    def __init__(
        self, store: Store, table: Table, client: Client, service: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._table = table
        self._client = client
        self._service = service
        self._clock = clock
        self.whole_from: float | None = None
        """In epoch seconds; None while it is not known."""

    async def run(self) -> None:
        """Check again and again, forever."""
        while True:
            try:
                await self.check()
            except (StoreError, BusUnavailable) as error:
                log.info("views_not_watched", reason=str(error) or type(error).__name__)
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Read the mark, and move it if it does not hold. Raises StoreError, BusUnavailable."""
        found, _ = await announcements(self._client)
        replicas = [each for each in found if each.service == self._service and each.working]
        alone = bool(replicas) and all(each.record_form >= FORM for each in replicas)
        page = await self._store.query(self._table, MARK.pk, sort=Between(MARK.sk, MARK.sk))
        item = page.items[0] if page.items else None
        known = _read(item)
        now = self._clock()
        if known is None or not alone or now - known.watched_at > MAX_UNWATCHED_SECONDS:
            mark = _Mark(whole_from=now + AHEAD_SECONDS, watched_at=now)
        elif now - known.watched_at > RENEW_SECONDS:
            mark = _Mark(whole_from=known.whole_from, watched_at=now)
        else:
            self.whole_from = known.whole_from
            return
        # The condition: a mark that another replica has moved meanwhile counts, whatever this one has seen.
        condition = Absent() if item is None else VersionIs(item.version)
        try:
            await self._store.write(Put(self._table, MARK, mark.model_dump(), condition))
        except ConditionFailed:
            self.whole_from = None
        else:
            self.whole_from = mark.whole_from


def _read(item: Item | None) -> _Mark | None:
    try:
        return None if item is None else _Mark.model_validate(dict(item.attributes))
    except ValidationError:
        return None
