"""What each person has chosen to get mails about."""

from clusterra_contracts.notifications import Choices
from clusterra_runtime.store.store import Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, notifications_key
from clusterra_gateway.accounts.records import Record


class _Notifications(Record):
    """The choices of a member."""

    choices: Choices = Choices()


class Notifications:
    """The choices of all members. Methods raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, member: str) -> Choices:
        """A member's choices; the defaults where they have chosen nothing."""
        item = await self._store.get(ACCOUNTS, notifications_key(member))
        found = None if item is None else _Notifications.readable(item)
        return Choices() if found is None else found.choices

    async def replace(self, member: str, choices: Choices) -> None:
        """Replaces a member's choices."""
        record = _Notifications(choices=choices)
        await self._store.write(Update(ACCOUNTS, notifications_key(member), set=record.attributes()))
