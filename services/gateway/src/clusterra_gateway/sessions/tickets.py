"""One-time tickets: how a browser gets from the API's origin to that of sessions without the API's cookie."""

import secrets
from datetime import datetime, timedelta

from clusterra_contracts.identity import Id, JobId, Moment, now
from clusterra_runtime.store.condition import Absent, VersionIs
from clusterra_runtime.store.store import ConditionFailed, Delete, Put, Store

from clusterra_gateway.accounts.keyspace import ACCOUNTS, session_ticket_key
from clusterra_gateway.accounts.records import Record, expiry
from clusterra_gateway.identity.access.credentials import secret_hash

VALID_SECONDS = 60


class Ticket(Record):
    """What a ticket stands for. Only its hash is stored."""

    tenant: Id
    cluster: Id
    job_id: JobId
    member: str
    sign_in: str
    """The id of the credential that asked for it: when it is taken, what the ticket led to ends."""
    by_token: bool = False
    """Whether that is an API token, and not a browser's sign-in."""
    until: Moment
    """When that credential ends."""
    valid_until: Moment


class Tickets:
    """The tickets of all sessions. Methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, ticket: Ticket) -> str:
        """A new ticket. It is kept nowhere."""
        made = secrets.token_urlsafe(32)
        key = session_ticket_key(secret_hash(made))
        await self._store.write(Put(ACCOUNTS, key, ticket.attributes(), Absent(), expiry(ticket.valid_until) + 60))
        return made

    async def redeem(self, ticket: str) -> Ticket | None:
        """Redeems a ticket, once. Returns None for one that is wrong, expired, or was redeemed before."""
        item = await self._store.get(ACCOUNTS, session_ticket_key(secret_hash(ticket)))
        if item is None:
            return None
        try:
            await self._store.delete(Delete(ACCOUNTS, item.key, VersionIs(item.version)))
        except ConditionFailed:
            return None
        found = Ticket.of(item)
        return found if found.valid_until > now() else None


def valid_until() -> datetime:
    """The end of a ticket that is made now."""
    return now() + timedelta(seconds=VALID_SECONDS)
