"""Reads and writes the API tokens of members in the record. Every change is told in the events of the tenant."""

import secrets
import time

from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, Present
from clusterra_runtime.store.outbox_item import with_messages
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, API_TOKENS, api_token_id, api_token_key, member_key
from clusterra_gateway.accounts.records import ApiToken, Member, expiry
from clusterra_gateway.http.errors import NotFound


class TokenRecords:
    """The tokens of all members. The caller has checked that the actor may do this to the member."""

    def __init__(self, directory: Directory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry

    async def valid(self, member_id: str) -> tuple[tuple[str, ApiToken], ...]:
        """The ids and records of a member's tokens that are valid now."""
        page = await self._directory.store.query(ACCOUNTS, member_key(member_id).pk, sort=API_TOKENS)
        return tuple((api_token_id(item.key), ApiToken.of(item)) for item in page.items)

    async def add(self, member: Member, token_id: str, record: ApiToken) -> None:
        """Adds a token of the member, who makes it."""
        key = api_token_key(member.id, token_id)
        put = Put(ACCOUNTS, key, record.attributes(), Absent(), expiry(record.valid_until))
        await self._write(member, member.id, put, "token.created", token_id)

    async def revoke(self, actor: Member, member_id: str, token_id: str) -> None:
        """Removes a token of a member. Raises NotFound."""
        delete = Delete(ACCOUNTS, api_token_key(member_id, token_id), Present())
        try:
            await self._write(actor, member_id, delete, "token.revoked", token_id)
        except TransactionCancelled:
            raise NotFound("there is no such token", hint="the list of tokens has their ids") from None

    async def _write(self, actor: Member, member_id: str, write: Put | Delete, kind: AdminKind, token_id: str) -> None:
        """Writes a token together with its events.

        The member's item carries the events: the token's own item may be deleted before they are sent.
        """
        fact = AdminFact(kind=kind, actor=actor.user, subject=token_id)
        events = tenant_events(self._registry, actor.tenant, fact, version="1")
        key = member_key(member_id)
        carrier = with_messages(Update(ACCOUNTS, key, condition=Present()), events.messages, now=time.time())
        await self._directory.store.transact(
            [write, carrier, *events.kept], token=f"{kind}-{token_id}-{secrets.token_hex(8)}"
        )
        await self._directory.outbox.send(ACCOUNTS, key)
