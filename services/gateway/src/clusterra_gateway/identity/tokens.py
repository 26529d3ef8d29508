"""The caller himself: `/v1/users/me` and his tokens."""

import secrets
import time
from datetime import timedelta
from typing import Annotated, Literal

import structlog
from aiohttp import web
from clusterra_contracts.events import AdminFact, AdminKind
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.condition import Absent, Present
from clusterra_runtime.store.outbox import with_messages
from clusterra_runtime.store.page import Prefix
from clusterra_runtime.store.store import Delete, Put, TransactionCancelled, Update
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from clusterra_gateway.accounts.admin_events import tenant_events
from clusterra_gateway.accounts.directory import ACCOUNTS, member_key
from clusterra_gateway.accounts.records import ApiToken, epoch
from clusterra_gateway.context import gateway
from clusterra_gateway.http.errors import Conflict, Forbidden, NotFound
from clusterra_gateway.http.parameters import Body, body
from clusterra_gateway.http.replies import reply
from clusterra_gateway.identity.authentication import TOKEN_PREFIX, Caller, hash_of, token_key

log = structlog.get_logger()

DAY = 86_400
MAX_TOKENS = 50


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Workspace(_Answer):
    """The caller's tenant."""

    id: str
    name: str


class Profile(_Answer):
    """The caller: `name` and `uid` are the Slurm identity. The cost is null when it is not known now."""

    id: str
    name: str
    uid: int
    email: str
    display_name: str
    tenant: Workspace
    role: Literal["admin", "member"]
    burn_rate_usd_per_hour: float | None
    pending_bill_usd: float | None
    running_jobs: int | None
    session_expires_at: Moment


class NewToken(Body):
    """A token to make."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
    expires_in_seconds: Annotated[int, Field(ge=60, le=365 * DAY)] = 30 * DAY


class Token(_Answer):
    """A token without its secret."""

    id: str
    name: str
    created_at: Moment
    expires_at: Moment


class MadeToken(Token):
    """A token right after it was made: `token` is told this once."""

    token: str


class Tokens(_Answer):
    """All tokens of the caller."""

    tokens: tuple[Token, ...]
    total: int


async def me(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The caller's profile, with what his running jobs cost now."""
    parts = gateway(request)
    member = caller.member
    tenant = await parts.directory.tenant(caller.tenant)
    try:
        usage = await parts.upstream.usage(caller.tenant, member.uid)
    except RpcFailed as failed:
        log.info("usage_unknown", tenant=member.tenant, reason=failed.error.detail)
        usage = None
    return reply(
        Profile(
            id=member.id,
            name=member.user,
            uid=member.uid,
            email=member.email,
            display_name=member.display_name,
            tenant=Workspace(id=member.tenant, name=tenant.name if tenant else member.tenant),
            role="admin" if member.admin else "member",
            burn_rate_usd_per_hour=usage.burn_rate_usd_per_hour if usage else None,
            pending_bill_usd=usage.pending_bill_usd if usage else None,
            running_jobs=usage.running_jobs if usage else None,
            session_expires_at=caller.expires_at,
        )
    )


async def tokens(request: web.Request, caller: Caller) -> web.StreamResponse:
    """The caller's tokens that are valid now."""
    found = await _tokens(request, caller)
    return reply(Tokens(tokens=found, total=len(found)))


async def make_token(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Make a token. Only from a session: a token that leaked must not live on in others that it made."""
    wanted = await body(request, NewToken)
    if caller.credential != "session":
        raise Forbidden("a token cannot make tokens", hint="sign in and make it from there")
    if len(await _tokens(request, caller)) >= MAX_TOKENS:
        raise Conflict(f"you have {MAX_TOKENS} tokens", hint="revoke one that is not used")
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    made_at = now()
    record = ApiToken(
        name=wanted.name,
        secret_hash=hash_of(secret),
        created_at=made_at,
        valid_until=made_at + timedelta(seconds=wanted.expires_in_seconds),
    )
    key = token_key(caller.member.id, token_id)
    put = Put(ACCOUNTS, key, record.attributes(), Absent(), epoch(record.valid_until))
    await _write_and_tell(request, caller, put, "token.created", token_id)
    log.info("api_key_made", tenant=caller.member.tenant, user=caller.member.user, token_id=token_id)
    return reply(
        MadeToken(
            **_told(token_id, record).model_dump(), token=f"{TOKEN_PREFIX}{caller.member.id}_{token_id}_{secret}"
        ),
        status=201,
    )


async def revoke_token(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Revoke a token of the caller; other replicas take it for a few seconds more."""
    token_id = request.match_info["token_id"]
    parts = gateway(request)
    delete = Delete(ACCOUNTS, token_key(caller.member.id, token_id), Present())
    try:
        await _write_and_tell(request, caller, delete, "token.revoked", token_id)
    except TransactionCancelled:
        raise NotFound("there is no such token", hint="GET /v1/users/me/tokens lists yours") from None
    parts.authentication.forget(token_id)
    log.info("api_key_revoked", tenant=caller.member.tenant, user=caller.member.user, token_id=token_id)
    return web.Response(status=204)


async def _write_and_tell(
    request: web.Request, caller: Caller, write: Put | Delete, kind: AdminKind, token_id: str
) -> None:
    """Write a token and tell of it. The member's item carries the events: a token's own may vanish before they went."""
    parts = gateway(request)
    fact = AdminFact(kind=kind, actor=caller.member.user, subject=token_id)
    told = tenant_events(parts.registry, caller.member.tenant, fact, version="1")
    key = member_key(caller.member.id)
    carrier = with_messages(Update(ACCOUNTS, key, condition=Present()), told, now=time.time())
    await parts.directory.store.transact([write, carrier], token=f"{kind}-{token_id}-{secrets.token_hex(8)}")
    await parts.directory.outbox.send(ACCOUNTS, key)


async def _tokens(request: web.Request, caller: Caller) -> tuple[Token, ...]:
    page = await gateway(request).directory.store.query(
        ACCOUNTS, token_key(caller.member.id, "").pk, sort=Prefix(token_key(caller.member.id, "").sk)
    )
    return tuple(_told(item.key.sk.partition("#")[2], ApiToken.of(item)) for item in page.items)


def _told(token_id: str, record: ApiToken) -> Token:
    return Token(id=token_id, name=record.name, created_at=record.created_at, expires_at=record.valid_until)
