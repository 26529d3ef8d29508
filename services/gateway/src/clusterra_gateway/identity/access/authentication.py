"""Authenticates requests: by the session cookie of a browser, or by the bearer token of a program."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import structlog
from aiohttp import web
from clusterra_contracts.identity import ClusterRef, SlurmUser, TenantRef, now
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.store import ConditionFailed, Put

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, api_token_key, signed_out_key
from clusterra_gateway.accounts.records import ApiToken, Member, expiry
from clusterra_gateway.accounts.roles import Role, Scope, includes, manages
from clusterra_gateway.http.requests.client_address import ClientAddresses
from clusterra_gateway.http.requests.errors import Forbidden, Unauthenticated
from clusterra_gateway.identity.access.credentials import TOKEN_PREFIX, CredentialCache, secret_hash, split_token
from clusterra_gateway.identity.access.cross_site import reject_cross_site
from clusterra_gateway.identity.access.limits import RateLimits, Rates, WrongTokens
from clusterra_gateway.identity.access.operators import Operator, Operators, is_operator_token
from clusterra_gateway.identity.access.signed_tokens import Claims, SigningKeys
from clusterra_gateway.identity.access.token_uses import TokenUses
from clusterra_gateway.identity.access.unix_users import UnixUser
from clusterra_gateway.settings import MAX_SESSION_SECONDS

log = structlog.get_logger()

COOKIE = "clusterra_session"
HOST_COOKIE = f"__Host-{COOKIE}"
"""The name over HTTPS. Browsers take this prefix from our own host only, so that no other host of our domain can set a
session of its own in place of ours. So over HTTPS the other name counts for nothing."""
SIGN_INS_PER_MINUTE = 1000
"""How many logins an address may finish in a minute, or look up by a domain or an invitation: each takes a request to
an issuer or a read of the store, and nobody knows yet who asks. It may be the address of a whole campus."""
SESSION = "clusterra-session"
"""The audience of session tokens."""


def session_cookie(*, secure: bool) -> str:
    """The name of the session cookie, over HTTPS or without."""
    return HOST_COOKIE if secure else COOKIE


@dataclass(frozen=True)
class Caller:
    """An authenticated person and the credential they used."""

    member: Member
    credential: Literal["session", "token"]
    credential_id: str
    expires_at: datetime
    since: datetime
    """When the person signed in, or the token was made."""
    scopes: tuple[Scope, ...] | None = None
    """What the credential may be used for; None: all that the person may do."""
    sees_all: bool = False
    """Whether they see everybody's jobs on the cluster of the request, whatever their role."""
    unix_user: UnixUser | None = None
    """Who they are on the cluster of the request; None without a cluster."""

    def require(self, role: Role, scope: Scope) -> None:
        """Raises Forbidden where the person lacks the role, or the credential the scope."""
        if not includes(self.member.role, role):
            raise Forbidden(
                f"this needs the role {role}, and yours is {self.member.role}", hint="ask an admin of your workspace"
            )
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden(f"this token lacks the scope {scope}", hint="make a token with this scope")

    @property
    def tenant(self) -> TenantRef:
        """The caller's tenant. They can see no other."""
        return TenantRef(tenant=self.member.tenant)

    @property
    def owner_key(self) -> str:
        """Names the person in their tenant, as the owner of idempotency keys."""
        return f"{self.member.tenant}#{self.member.id}"

    @property
    def slurm_user(self) -> SlurmUser:
        """The user as whom the caller's jobs run. Raises Forbidden where they are nobody on the cluster."""
        user = self._user_there
        if user is None:
            raise Forbidden(
                f"you are no user of this cluster: {self.unix_user.reason if self.unix_user else ''}",
                hint="ask an admin of your workspace to have you added to the identity source",
            )
        return user

    @property
    def viewer(self) -> Viewer:
        """The person as whom the caller reads jobs. Raises Forbidden for a member who is nobody on the cluster.

        An admin sees everybody's jobs, and so need not be anybody there.
        """
        if self._user_there is None and manages(self.member.role):
            return Viewer(user=self.member.slurm_user, admin=True, identified=False)
        return Viewer(user=self.slurm_user, admin=manages(self.member.role), sees_all=self.sees_all)

    @property
    def sees_everybody(self) -> bool:
        """Whether the caller sees what all people have on the cluster of the request."""
        return manages(self.member.role) or self.sees_all

    @property
    def _user_there(self) -> SlurmUser | None:
        return self.member.slurm_user if self.unix_user is None else self.unix_user.user

    def cluster(self, cluster: str) -> ClusterRef:
        """The reference of a cluster in the caller's tenant. Raises pydantic's ValidationError."""
        return ClusterRef(tenant=self.member.tenant, cluster=cluster)


class Authentication:
    """Verifies credentials, and trusts a verified one for 15 s without another check.

    `secure`: whether browsers reach the gateway over HTTPS, so that only the cookie of our own host is a session's.
    """

    def __init__(
        self,
        directory: Directory,
        keys: SigningKeys,
        origins: frozenset[str],
        operators: Operators,
        addresses: ClientAddresses,
        uses: TokenUses,
        *,
        secure: bool,
    ) -> None:
        self._session_cookie = session_cookie(secure=secure)
        self._directory = directory
        self._operators = operators
        self._keys = keys
        self.origins = origins
        self._addresses = addresses
        self._uses = uses
        self._verified: CredentialCache[Caller] = CredentialCache()
        self._wrong = WrongTokens()
        self._sign_ins = RateLimits(Rates(SIGN_INS_PER_MINUTE, SIGN_INS_PER_MINUTE))

    async def caller(self, request: web.Request) -> Caller:
        """The caller.

        Raises Unauthenticated, Forbidden for a request that another site's page made, and TooManyRequests.
        """
        if (bearer := bearer_of(request)) is not None:
            return await self.owner(request, bearer)
        if cookie := request.cookies.get(self._session_cookie):
            self.reject_cross_site(request)
            return await self.owner(request, cookie)
        raise Unauthenticated(
            "the request has no session cookie and no bearer token",
            hint="sign in at /v1/auth/login, or send a bearer token",
        )

    async def operator(self, request: web.Request) -> Operator:
        """The operator of the platform who calls.

        Raises Unauthenticated; Forbidden for a member, whatever their credential and role.
        """
        bearer = bearer_of(request)
        if bearer is not None and is_operator_token(bearer):
            return await self._operators.operator(bearer)
        await self.caller(request)
        raise Forbidden("only an operator of the platform may do this", hint="ask those who run this installation")

    def reject_cross_site(self, request: web.Request) -> None:
        """Raises Forbidden for a request that another site's page made."""
        reject_cross_site(request.method, request.headers, self.origins)

    def admit_sign_in(self, request: web.Request) -> None:
        """Counts a step of a login for the address that it comes from. Raises TooManyRequests."""
        self._sign_ins.admit(request, self._addresses.network_of(request))

    async def sign_out(self, caller: Caller) -> None:
        """Ends the caller's session, on all replicas, before it expires.

        The mark of this is kept for as long as any renewal of the session may be valid, not only the caller's.
        """
        key = signed_out_key(caller.member.id, caller.credential_id)
        ended = expiry(now() + timedelta(seconds=MAX_SESSION_SECONDS))
        try:
            await self._directory.store.write(Put(ACCOUNTS, key, {}, Absent(), ended))
        except ConditionFailed:
            log.info("signed_out_twice", user=caller.member.user)
        self.forget(caller.credential_id)

    def forget(self, credential_id: str) -> None:
        """Makes the next request with this credential verify it again."""
        self._verified.forget(lambda caller: caller.credential_id == credential_id)

    def forget_member(self, tenant: str, user: str) -> None:
        """Makes the next request of this member read their role again, whatever the credential."""
        self._verified.forget(lambda caller: (caller.member.tenant, caller.member.user) == (tenant, user))

    async def owner(self, request: web.Request, credential: str) -> Caller:
        """The owner of a session or of an API token, which the request has somewhere.

        Raises Unauthenticated, Forbidden for an operator's token, and TooManyRequests after many wrong tokens.
        """
        if is_operator_token(credential):
            operator = await self._operators.operator(credential)
            raise Forbidden(
                f"the operator {operator.name} belongs to no workspace", hint="operators use the routes of /v1/tenants"
            )
        digest = secret_hash(credential)
        caller = self._verified.get(digest)
        if caller is None:
            forgotten = self._verified.forgotten
            if credential.startswith(TOKEN_PREFIX):
                caller = await self._verify_token(request, credential)
            else:
                caller = await self._verify_session(credential)
            self._verified.put(digest, caller, forgotten)
        if caller.expires_at <= now():
            self.forget(caller.credential_id)
            raise Unauthenticated("this sign-in has expired", hint="sign in again")
        return caller

    async def _verify_session(self, session: str) -> Caller:
        claims = self._keys.verify(SESSION, session, Claims)
        if await self._directory.store.get(ACCOUNTS, signed_out_key(claims.sub, claims.jti)) is not None:
            raise Unauthenticated("this session was signed out", hint="sign in again")
        member = await self._member(claims.sub)
        if member.kind != "person":
            raise Unauthenticated("a service account has no sessions", hint="send one of its keys")
        return Caller(member, "session", claims.jti, claims.expires_at, claims.signed_in_at)

    async def looked_up[T](self, request: web.Request, token: str, look: Callable[[], Awaitable[T | None]]) -> T | None:
        """What a look at the store finds by a bearer token. One that finds nothing counts as wrong for its address.

        Raises TooManyRequests after many wrong tokens, and what `look` raises.
        """
        address, digest = self._addresses.network_of(request), secret_hash(token)
        self._wrong.admit(address, digest)
        found = await look()
        if found is None:
            self._wrong.count(address)
        else:
            self._wrong.remember(digest)
        return found

    async def _verify_token(self, request: web.Request, token: str) -> Caller:
        member_id, token_id, secret = split_token(token)

        async def look() -> ApiToken | None:
            item = await self._directory.store.get(ACCOUNTS, api_token_key(member_id, token_id))
            record = None if item is None else ApiToken.of(item)
            right = record is not None and hmac.compare_digest(record.secret_hash, secret_hash(secret))
            return record if right else None

        record = await self.looked_up(request, token, look)
        if record is None:
            raise Unauthenticated("this token is wrong, expired or revoked", hint="make a new one")
        member = await self._member(member_id)
        self._uses.note(member, token_id, record, now())
        return Caller(member, "token", token_id, record.valid_until, record.created_at, record.scopes)

    async def _member(self, member_id: str) -> Member:
        member = await self._directory.member(member_id)
        if member is None:
            raise Unauthenticated("the member who signed in no longer exists", hint="sign in again")
        if member.disabled:
            raise Unauthenticated("this member is disabled", hint="ask an admin of your workspace")
        return member


def bearer_of(request: web.Request) -> str | None:
    """The bearer token of a request; None where it has none."""
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" and bearer.strip() else None
