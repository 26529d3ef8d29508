"""From when on views that came later have all their events: since every replica that archives writes them.

A release from before these views may archive beside this one during an update, or alone after a rollback. What it
archives is in the wide views alone. So the store has a mark: the narrow views are whole from this time on. A replica
moves it into the future while it sees an older release at work, and when nobody of its own release kept watch for
`MAX_UNWATCHED_SECONDS`. What happened before the mark is read from the wide views, until it has expired.

The mark also has the end of the stream when no older release was at work any more: the view by position is whole after
that.
"""

import asyncio
import time
from collections.abc import Callable

import structlog
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.identity import MAX_CLOCK_AHEAD
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last_sequence
from clusterra_runtime.nats.versions import announcements
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.page import Between
from clusterra_runtime.store.store import ConditionFailed, Put, Store, StoreError, Table
from pydantic import BaseModel, ConfigDict, ValidationError

from clusterra_events.archive_views import NARROW_FORM
from clusterra_events.following import Whole

log = structlog.get_logger(__name__)

CHECK_SECONDS = 10.0
"""Less than an announcement lives: every replica is seen that works for longer."""
RENEW_SECONDS = 60.0
MAX_UNWATCHED_SECONDS = 300.0
AHEAD_SECONDS = MAX_CLOCK_AHEAD.total_seconds()
"""How much later than its archiving an event may say that it happened."""


class _Mark(BaseModel):
    """From when on the views are whole, and when somebody last made sure of it, in epoch seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    whole_from: float
    watched_at: float
    position: int | None = None
    """The end of the stream of events since which they are whole; None while that is not known."""


class WholeViews:
    """Keeps the mark of the views of one form, for one replica of a service."""

    def __init__(
        self,
        store: Store,
        table: Table,
        client: Client,
        service: str,
        clock: Callable[[], float] = time.time,
        *,
        form: int = NARROW_FORM,
    ) -> None:
        self._store = store
        self._table = table
        self._client = client
        self._service = service
        self._clock = clock
        self._form = form
        self._key = Key("views", f"whole-{form}")
        self.whole_from: float | None = None
        """In epoch seconds; None while it is not known."""
        self.whole: Whole | None = None
        """The same by the position in the stream."""

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
        alone = bool(replicas) and all(each.record_form >= self._form for each in replicas)
        page = await self._store.query(self._table, self._key.pk, sort=Between(self._key.sk, self._key.sk))
        item = page.items[0] if page.items else None
        known = _read(item)
        now = self._clock()
        end = await last_sequence(self._client, EVENT.name) if alone else None
        if known is None or not alone or now - known.watched_at > MAX_UNWATCHED_SECONDS:
            mark = _Mark(whole_from=now + AHEAD_SECONDS, watched_at=now, position=end)
        elif known.position is None:
            # Those of the older release have ended.
            mark = _Mark(whole_from=known.whole_from, watched_at=now, position=end)
        elif now - known.watched_at > RENEW_SECONDS:
            mark = known.model_copy(update={"watched_at": now})
        else:
            self._know(known)
            return
        # The condition: a mark that another replica has moved meanwhile counts, whatever this one has seen.
        condition = Absent() if item is None else VersionIs(item.version)
        try:
            await self._store.write(Put(self._table, self._key, mark.model_dump(), condition))
        except ConditionFailed:
            self._know(None)
        else:
            self._know(mark)

    def _know(self, mark: _Mark | None) -> None:
        self.whole_from, self.whole = None, None
        if mark is not None:
            self.whole_from = mark.whole_from
            if mark.position is not None:
                self.whole = Whole(mark.position, mark.whole_from - AHEAD_SECONDS)


def _read(item: Item | None) -> _Mark | None:
    try:
        return None if item is None else _Mark.model_validate(dict(item.attributes))
    except ValidationError:
        return None
