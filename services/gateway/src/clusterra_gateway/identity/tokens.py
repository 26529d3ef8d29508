"""The caller's API tokens: the handlers of `/v1/users/me/tokens`."""

import secrets
import time
from datetime import timedelta
from typing import Annotated

import structlog
from aiohttp import web
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent, Present
from clusterra_runtime.store.outbox_item import with_messages
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, API_TOKENS, api_token_id, api_token_key, member_key
from clusterra_gateway.accounts.records import ApiToken, expiry
from clusterra_gateway.accounts.roles import SCOPES, Scope
from clusterra_gateway.http.errors import Conflict, Forbidden, NotFound
from clusterra_gateway.http.parameters import Body, Parameter, body, path_id
from clusterra_gateway.http.responses import ResponseBody, json_response, no_content
from clusterra_gateway.identity.authentication import Caller
from clusterra_gateway.identity.credentials import join_token, secret_hash
from clusterra_gateway.identity.revocations import Revocations

log = structlog.get_logger()

DAY = 86_400
MAX_TOKENS = 50

TOKEN_ID = Parameter("token_id", "path", "^[0-9a-f]{16}$")


class NewToken(Body):
    """The request for a new token."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
    expires_in_seconds: Annotated[int, Field(ge=60, le=365 * DAY)] = 30 * DAY
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=len(SCOPES))] | None = None
    """What the token may be used for; null for all that its owner may do."""


class Token(ResponseBody):
    """A token without its secret."""

    id: str
    name: str
    created_at: Moment
    expires_at: Moment
    scopes: tuple[Scope, ...] | None
    """What the token may be used for; null for all that its owner may do."""

    @classmethod
    def of(cls, token_id: str, record: ApiToken) -> "Token":
        """The stored token with this id."""
        return Token(
            id=token_id,
            name=record.name,
            created_at=record.created_at,
            expires_at=record.valid_until,
            scopes=record.scopes,
        )


class MadeToken(Token):
    """A new token. `token` is the token itself, which is shown only this once."""

    token: str


class Tokens(ResponseBody):
    """All tokens of the caller."""

    tokens: tuple[Token, ...]
    total: int


class ApiTokens:
    """The handlers of API tokens."""

    def __init__(self, directory: Directory, registry: Registry, revocations: Revocations) -> None:
        self._directory = directory
        self._registry = registry
        self._revocations = revocations

    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the caller's tokens that are valid now."""
        tokens = await self._tokens(caller)
        return json_response(Tokens(tokens=tokens, total=len(tokens)))

    async def make(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes a token. This needs a session: a leaked token must not be able to make others that outlive it."""
        wanted = await body(request, NewToken)
        if caller.credential != "session":
            raise Forbidden("a token cannot make tokens", hint="sign in and make it from there")
        if len(await self._tokens(caller)) >= MAX_TOKENS:
            raise Conflict(f"you have {MAX_TOKENS} tokens, the most allowed", hint="revoke one that is not used")
        token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        made_at = now()
        record = ApiToken(
            name=wanted.name,
            secret_hash=secret_hash(secret),
            created_at=made_at,
            valid_until=made_at + timedelta(seconds=wanted.expires_in_seconds),
            scopes=wanted.scopes,
        )
        key = api_token_key(caller.member.id, token_id)
        put = Put(ACCOUNTS, key, record.attributes(), Absent(), expiry(record.valid_until))
        await self._write(caller, put, "token.created", token_id)
        log.info("api_key_made", tenant=caller.member.tenant, user=caller.member.user, token_id=token_id)
        shown = Token.of(token_id, record).model_dump()
        return json_response(MadeToken(**shown, token=join_token(caller.member.id, token_id, secret)), status=201)

    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes a token of the caller. It no longer works within a second, on all replicas."""
        token_id = path_id(request, TOKEN_ID)
        delete = Delete(ACCOUNTS, api_token_key(caller.member.id, token_id), Present())
        try:
            await self._write(caller, delete, "token.revoked", token_id)
        except TransactionCancelled:
            raise NotFound("there is no such token", hint="GET /v1/users/me/tokens lists yours") from None
        self._revocations.token_revoked(caller.member.tenant, token_id)
        log.info("api_key_revoked", tenant=caller.member.tenant, user=caller.member.user, token_id=token_id)
        return no_content()

    async def _tokens(self, caller: Caller) -> tuple[Token, ...]:
        page = await self._directory.store.query(ACCOUNTS, member_key(caller.member.id).pk, sort=API_TOKENS)
        return tuple(Token.of(api_token_id(item.key), ApiToken.of(item)) for item in page.items)

    async def _write(self, caller: Caller, write: Put | Delete, kind: AdminKind, token_id: str) -> None:
        """Writes a token together with its events.

        The member's item carries the events: the token's own item may be deleted before they are sent.
        """
        fact = AdminFact(kind=kind, actor=caller.member.user, subject=token_id)
        events = tenant_events(self._registry, caller.member.tenant, fact, version="1")
        key = member_key(caller.member.id)
        carrier = with_messages(Update(ACCOUNTS, key, condition=Present()), events.messages, now=time.time())
        token = f"{kind}-{token_id}-{secrets.token_hex(8)}"
        await self._directory.store.transact([write, carrier, *events.kept], token=token)
        await self._directory.outbox.send(ACCOUNTS, key)
