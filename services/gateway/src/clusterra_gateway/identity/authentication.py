"""Who makes a request: by the session cookie of a browser, or by a bearer token of a program."""

import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, TenantRef, now
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.store import Store, StoreUnavailable

from clusterra_gateway.accounts.directory import ACCOUNTS, Directory
from clusterra_gateway.accounts.records import ApiToken, Member
from clusterra_gateway.http.errors import Forbidden, Unauthenticated
from clusterra_gateway.identity.origin import refuse_cross_site
from clusterra_gateway.identity.sessions import Claims, SessionKeys

COOKIE = "clusterra_session"
SESSION = "clusterra-session"
"""The audience of session tokens."""
TOKEN_PREFIX = "clusterra_"  # noqa: S105

FRESH_SECONDS = 15.0
"""How long a verified credential is trusted without looking again: what a sign-out, a revocation or a lost role
takes at most on the other replicas."""
MAX_CACHED = 10_000


@dataclass(frozen=True)
class Caller:
    """An authenticated person and the credential that was used."""

    member: Member
    credential: Literal["session", "token"]
    credential_id: str
    expires_at: datetime

    @property
    def tenant(self) -> TenantRef:
        """The tenant, which is the only one this caller can see."""
        return TenantRef(tenant=self.member.tenant)

    @property
    def viewer(self) -> Viewer:
        """For whom jobs are read."""
        return Viewer(user=self.member.slurm_user, admin=self.member.admin)

    def cluster(self, cluster: str) -> ClusterRef:
        """The reference of a cluster of the caller's tenant. Raises pydantic's ValidationError."""
        return ClusterRef(tenant=self.member.tenant, cluster=cluster)


class Authentication:
    """Verifies credentials, and remembers for a short while that it did."""

    def __init__(self, directory: Directory, keys: SessionKeys, own_origin: str) -> None:
        self._directory = directory
        self._store: Store = directory.store
        self._keys = keys
        self._own_origin = own_origin
        self._fresh: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    async def caller(self, request: web.Request) -> Caller:
        """Who makes this request. Raises Unauthenticated, and Forbidden when another site's page does."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and bearer:
            return await self._verified(bearer.strip())
        if cookie := request.cookies.get(COOKIE):
            refuse_cross_site(request.method, request.headers, self._own_origin)
            return await self._verified(cookie)
        raise Unauthenticated("nobody is signed in", hint="sign in at /v1/auth/login, or send a bearer token")

    def forget(self, credential_id: str) -> None:
        """Trust this credential no more without looking."""
        self._fresh = OrderedDict(
            (digest, entry) for digest, entry in self._fresh.items() if entry[0].credential_id != credential_id
        )

    def allows(self, request: web.Request) -> Callable[[], Awaitable[bool]]:
        """For what lasts longer than a moment: whether the request's credential is still good."""

        async def allowed() -> bool:
            try:
                await self.caller(request)
            except (Unauthenticated, Forbidden):
                return False
            except StoreUnavailable:
                return True  # it was good a moment ago, and it is asked again at the next ping
            return True

        return allowed

    async def _verified(self, credential: str) -> Caller:
        digest = sha256(credential.encode()).digest()
        entry = self._fresh.get(digest)
        if entry is None or entry[1] <= time.monotonic():
            look_up = self._by_token if credential.startswith(TOKEN_PREFIX) else self._by_session
            entry = (await look_up(credential), time.monotonic() + FRESH_SECONDS)
            self._fresh[digest] = entry
            if len(self._fresh) > MAX_CACHED:
                self._fresh.popitem(last=False)
        caller = entry[0]
        if caller.expires_at <= now():
            self._fresh.pop(digest, None)
            raise Unauthenticated("this sign-in has expired", hint="sign in again")
        return caller

    async def _by_session(self, session: str) -> Caller:
        claims = self._keys.verify(SESSION, session, Claims)
        if await self._store.get(ACCOUNTS, signed_out_key(claims.sub, claims.jti)) is not None:
            raise Unauthenticated("this session was signed out", hint="sign in again")
        member = await self._member(claims.sub)
        return Caller(member, "session", claims.jti, claims.expires_at)

    async def _by_token(self, token: str) -> Caller:
        member_id, token_id, secret = split_token(token)
        item = await self._store.get(ACCOUNTS, token_key(member_id, token_id))
        if item is None:
            raise Unauthenticated("this token is not valid (any more)", hint="make a new one")
        record = ApiToken.of(item)
        if not hmac.compare_digest(record.secret_hash, hash_of(secret)):
            raise Unauthenticated("this token is not valid (any more)", hint="make a new one")
        return Caller(await self._member(member_id), "token", token_id, record.valid_until)

    async def _member(self, member_id: str) -> Member:
        member = await self._directory.member(member_id)
        if member is None:
            raise Unauthenticated("this sign-in belongs to nobody any more", hint="sign in again")
        return member


def signed_out_key(member_id: str, session_id: str) -> Key:
    """Where it is noted that a session was ended before its time."""
    return Key(f"member#{member_id}", f"signed-out#{session_id}")


def token_key(member_id: str, token_id: str) -> Key:
    """Where a token is."""
    return Key(f"member#{member_id}", f"token#{token_id}")


def split_token(token: str) -> tuple[str, str, str]:
    """The member's id, the token's id and its secret. Raises Unauthenticated."""
    parts = token.removeprefix(TOKEN_PREFIX).split("_", 2)
    if len(parts) != 3 or not all(part.isascii() and 1 <= len(part) <= 64 for part in parts):
        raise Unauthenticated("this is no token of ours", hint="send it exactly as it was shown")
    return parts[0], parts[1], parts[2]


def hash_of(secret: str) -> str:
    """What is kept of a token's secret, which has 256 random bits, so that a plain hash is enough."""
    return sha256(secret.encode()).hexdigest()
