"""Migration 1 of `fleets`: states that earlier releases stored as plain JSON are stored compressed."""

import zlib
from collections.abc import AsyncIterator

from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS
from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Store
from clusterra_scaler.fleet_table import FLEETS, fleet_key
from clusterra_scaler.records import packed_state, unpacked_state
from pydantic import ValidationError

from clusterra_admin.migrations.migration import Migration, UnreadableRecord

PAGE = 100


async def _keys(store: Store) -> AsyncIterator[Key]:
    async for item in all_items(lambda after: store.query(ACCOUNTS, CLUSTERS, limit=PAGE, cursor=after)):
        yield fleet_key(item.key.sk)


def _change(item: Item) -> Attributes | None:
    stored = item.attributes.get("state")
    try:
        state = unpacked_state(stored)
    except (ValidationError, zlib.error) as error:
        raise UnreadableRecord(f"its state cannot be read ({type(error).__name__})") from None
    return {"state": packed_state(state)} if isinstance(stored, str) else None


MIGRATION = Migration(
    table=FLEETS,
    number=1,
    title="compress the states of fleets that are stored as plain JSON",
    readable_from=0,
    keys=_keys,
    change=_change,
)
