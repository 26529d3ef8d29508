"""Notes when tokens were last used, to the hour. Requests wait for none of it: the writes come after them."""

from contextlib import suppress
from datetime import datetime

from clusterra_runtime.store.condition import Missing, Present, compare
from clusterra_runtime.store.store import ConditionFailed, Store, StoreError, Update
from clusterra_runtime.sweeps.agenda import Bounds, Place
from clusterra_runtime.sweeps.sweeper import Pace, Sweep, Sweeper

from clusterra_gateway.accounts.keyspace import ACCOUNTS, api_token_key
from clusterra_gateway.accounts.records import ApiToken, Member

INTERVAL_SECONDS = 5.0
WRITE_SECONDS = 10.0
MOST_WAITING = 10_000
"""The most uses that wait to be written. A further one is noted when its token is used again."""
BOUNDS = Bounds(at_once=8, per_cluster=4)
FIELD = "last_used_at"


class TokenUses:
    """The uses that are not written yet, of this replica."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[Place, Update] = {}

    def note(self, owner: Member, token_id: str, record: ApiToken, at: datetime) -> None:
        """Remembers that a token was used, if its record does not say so for this hour."""
        hour = at.replace(minute=0, second=0, microsecond=0)
        if record.last_used_at is not None and record.last_used_at >= hour:
            return
        if len(self._waiting) < MOST_WAITING:
            used = record.model_copy(update={FIELD: hour}).attributes()[FIELD]
            # The condition lets one replica write per hour. The kept version leaves a change of the token undisturbed.
            earlier = Missing(FIELD) | compare(FIELD, "<", used)
            self._waiting[Place(owner.tenant, record=f"{owner.id}#{token_id}")] = Update(
                ACCOUNTS,
                api_token_key(owner.id, token_id),
                set={FIELD: used},
                condition=Present() & earlier,
                keep_version=True,
            )

    def sweeper(self) -> Sweeper[Place]:
        """Writes the pending uses every few seconds. A failed write is logged and not repeated."""
        sweep = Sweep("uses of tokens", self._listed, self._write, lambda place: place, (StoreError,))
        return Sweeper(sweep, Pace(INTERVAL_SECONDS, WRITE_SECONDS), BOUNDS)

    async def _listed(self) -> tuple[Place, ...]:
        return tuple(self._waiting)

    async def _write(self, place: Place) -> None:
        """Raises StoreError."""
        # The token is deleted, or another replica was faster.
        with suppress(ConditionFailed):
            await self._store.write(self._waiting.pop(place))
