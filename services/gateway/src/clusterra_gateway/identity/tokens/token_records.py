"""Reads and writes the API tokens of members in the record. Every change is told in the events of the tenant."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

import structlog
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, Condition, Present, VersionIs
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update

from clusterra_gateway.accounts.admin_events import AuditedWrites
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, API_TOKENS, api_token_id, api_token_key, member_key
from clusterra_gateway.accounts.records import ApiToken, Member, expiry
from clusterra_gateway.accounts.roles import Scope
from clusterra_gateway.http.requests.errors import Conflict, NotFound
from clusterra_gateway.identity.access.credentials import join_token, secret_hash
from clusterra_gateway.identity.tokens.revocations import Revocations

log = structlog.get_logger()

MAX_TOKENS = 50
"""How many tokens a member may have that are valid now."""
ADD_ATTEMPTS = 10
"""Attempts to add a token while others change the same member or their tokens."""


class AlreadyRedeemed(Exception):
    """Another request has redeemed what the token would have been given for."""


@dataclass(frozen=True)
class FreshToken:
    """A token before it is stored. `text` is the token as its owner sends it, which is shown once."""

    id: str
    record: ApiToken
    text: str = field(repr=False)

    @classmethod
    def made(cls, member_id: str, name: str, *, seconds: int, scopes: tuple[Scope, ...] | None) -> Self:
        """A token of this member with a new secret, valid from now on for this long."""
        token_id, secret, made_at = secrets.token_hex(8), secrets.token_urlsafe(32), now()
        record = ApiToken(
            name=name,
            secret_hash=secret_hash(secret),
            created_at=made_at,
            valid_until=made_at + timedelta(seconds=seconds),
            scopes=scopes,
        )
        return cls(token_id, record, join_token(member_id, token_id, secret))


@dataclass(frozen=True, slots=True)
class Rotation:
    """How long the new token is valid, and the old one still."""

    seconds: int
    overlap_seconds: int


class TokenRecords:
    """The tokens of all members. The caller has checked that the actor may do this to the member.

    A token that is revoked or rotated works less within a second, on all replicas.
    """

    def __init__(self, directory: Directory, registry: Registry, revocations: Revocations) -> None:
        self._store = directory.store
        self._revocations = revocations
        self._writes = AuditedWrites(directory, registry)

    async def valid(self, member_id: str) -> tuple[tuple[str, ApiToken], ...]:
        """The ids and records of a member's tokens that are valid now."""
        page = await self._store.query(ACCOUNTS, member_key(member_id).pk, sort=API_TOKENS)
        return tuple((api_token_id(item.key), ApiToken.of(item)) for item in page.items)

    async def add(self, actor: Member, member_id: str, new: FreshToken) -> None:
        """Adds a token of a member, who may have MAX_TOKENS. Raises Conflict, NotFound."""
        await self._add(actor, member_id, new, {})
        log.info("token_made", tenant=actor.tenant, by=actor.user, owner=member_id, token_id=new.id)

    async def redeem(self, owner: Member, new: FreshToken, redeemed: Update) -> None:
        """Adds a token of its owner in place of something that can be redeemed once: both writes, or none.

        `redeemed` has the condition that it can be redeemed now. Raises AlreadyRedeemed, Conflict, NotFound.
        """
        await self._add(owner, owner.id, new, {}, redeemed)

    async def rotate(self, actor: Member, member_id: str, token_id: str, rotation: Rotation) -> FreshToken:
        """Adds a token with the name and scopes of this one. This one ends after the overlap, and no later than before.

        Raises Conflict, NotFound.
        """
        key = api_token_key(member_id, token_id)
        item = await self._store.get(ACCOUNTS, key)
        if item is None:
            raise NotFound("there is no such token", hint="the list of tokens has their ids")
        old = ApiToken.of(item)
        new = FreshToken.made(member_id, old.name, seconds=rotation.seconds, scopes=old.scopes)
        ends = min(old.valid_until, now() + timedelta(seconds=rotation.overlap_seconds))
        ending = old.model_copy(update={"valid_until": ends}).attributes()
        change = Update(ACCOUNTS, key, set=ending, condition=VersionIs(item.version), expires_at=expiry(ends))
        await self._add(actor, member_id, new, {"token.rotated": change})
        await self._revocations.token_revoked(actor.tenant, token_id)
        log.info("token_rotated", tenant=actor.tenant, by=actor.user, token_id=token_id, new_token_id=new.id)
        return new

    async def _add(
        self,
        actor: Member,
        member_id: str,
        new: FreshToken,
        others: Mapping[AdminKind, Put | Update],
        redeemed: Update | None = None,
    ) -> None:
        """Adds a token, together with other changes of tokens, unless the member has MAX_TOKENS.

        Two that are added at the same moment cannot both be the last one: the write holds only if nobody has changed
        the member since their tokens were counted, and each token that is added changes them. A counter would not
        follow the tokens that expire.
        """
        key, ends = api_token_key(member_id, new.id), expiry(new.record.valid_until)
        put = Put(ACCOUNTS, key, new.record.attributes(), Absent(), ends)
        silent = () if redeemed is None else (redeemed,)

        async def attempt() -> None:
            item = await self._store.get(ACCOUNTS, member_key(member_id))
            if item is None or Member.of(item).deleted:
                raise NotFound("this member no longer exists", hint="GET /v1/members lists those of your workspace")
            if len(await self.valid(member_id)) >= MAX_TOKENS:
                raise Conflict(f"there are {MAX_TOKENS} tokens, the most allowed", hint="revoke one that is not used")
            try:
                writes = {"token.created": put, **others}
                # A token that is rotated has the name of the one that replaces it.
                await self._write(actor, member_id, writes, new.record.name, VersionIs(item.version), silent)
            except TransactionCancelled as cancelled:
                if any(cancelled.reasons[1 : 1 + len(silent)]):
                    raise AlreadyRedeemed from None
                raise

        contended = Conflict("these tokens are being changed by others", hint="try again in a moment")
        await write_optimistically(attempt, contended=contended, attempts=ADD_ATTEMPTS)

    async def revoke(self, actor: Member, member_id: str, token_id: str) -> None:
        """Removes a token of a member. Raises NotFound."""
        key = api_token_key(member_id, token_id)
        item = await self._store.get(ACCOUNTS, key)
        record = None if item is None else ApiToken.readable(item)
        name = "" if record is None else record.name
        try:
            await self._write(actor, member_id, {"token.revoked": Delete(ACCOUNTS, key, Present())}, name, Present())
        except TransactionCancelled:
            raise NotFound("there is no such token", hint="the list of tokens has their ids") from None
        await self._revocations.token_revoked(actor.tenant, token_id)
        log.info("token_revoked", tenant=actor.tenant, by=actor.user, token_id=token_id)

    async def _write(
        self,
        actor: Member,
        member_id: str,
        writes: Mapping[AdminKind, Put | Update | Delete],
        name: str,
        member_is: Condition,
        silent: tuple[Update, ...] = (),
    ) -> None:
        """Writes tokens of a name together with their events, if the member's item is as `member_is` says.

        `silent` are further writes, which have no event. The member's item carries the events: a token's own item may
        be deleted before they are sent.
        """
        facts = [
            AdminFact(kind=kind, actor=actor.user, subject=api_token_id(write.key), detail=name)
            for kind, write in writes.items()
        ]
        carrier = Update(ACCOUNTS, member_key(member_id), condition=member_is)
        await self._writes.write(actor.tenant, facts, carrier, [*silent, *writes.values()])
