"""The lists that people have saved under names: in one item for each person, so that their number has a bound."""

from collections.abc import Callable, Mapping

from clusterra_contracts.identity import Moment
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Put, Store, Update
from pydantic import Field, ValidationError

from clusterra_gateway.accounts.keyspace import ACCOUNTS, saved_views_key
from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.requests.errors import Conflict, NotFound

MAX_VIEWS = 50
"""How many a person may have. With the longest queries they take 110 KB; an item has room for 400."""


class SavedView(Record):
    """A list with its filters, as a console writes them into its address."""

    page: str
    query: str
    saved_at: Moment


class _Views(Record):
    """All of a person's, by name. They are read one by one: one that cannot be read hides no other."""

    views: dict[str, dict[str, object]] = Field(default_factory=dict)

    def that_can_be_read(self) -> dict[str, SavedView]:
        found = dict[str, SavedView]()
        for name, view in self.views.items():
            try:
                found[name] = SavedView.model_validate(view)
            except ValidationError:
                continue
        return found


class SavedViews:
    """The saved views of all people, each person's for themselves. Methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def all(self, member: str) -> dict[str, SavedView]:
        """A member's views by name, in the order of the names."""
        return dict(sorted(_read(await self._store.get(ACCOUNTS, saved_views_key(member))).that_can_be_read().items()))

    async def save(self, member: str, name: str, view: SavedView) -> None:
        """Saves a view, also in place of one with this name. Raises Conflict for more than MAX_VIEWS."""

        def saved(views: Mapping[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            if name not in views and len(views) >= MAX_VIEWS:
                raise Conflict(f"you have {MAX_VIEWS} saved views, the most allowed", hint="delete one of them")
            return {**views, name: view.model_dump(mode="json")}

        await self._change(member, saved)

    async def delete(self, member: str, name: str) -> None:
        """Deletes a view. Raises NotFound, Conflict."""

        def without(views: Mapping[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            if name not in views:
                raise NotFound("you have no view with this name", hint="GET /v1/users/me/views lists yours")
            return {other: view for other, view in views.items() if other != name}

        await self._change(member, without)

    async def _change(
        self, member: str, change: Callable[[Mapping[str, dict[str, object]]], dict[str, dict[str, object]]]
    ) -> None:
        key = saved_views_key(member)

        async def attempt() -> None:
            item = await self._store.get(ACCOUNTS, key)
            attributes = _Views(views=change(_read(item).views)).attributes()
            if item is None:
                await self._store.write(Put(ACCOUNTS, key, attributes, Absent()))
            else:
                await self._store.write(Update(ACCOUNTS, key, set=attributes, condition=VersionIs(item.version)))

        contended = Conflict("your saved views are being changed by others", hint="try again in a moment")
        await write_optimistically(attempt, contended=contended)


def _read(item: Item | None) -> _Views:
    return _Views() if item is None else _Views.of(item)
