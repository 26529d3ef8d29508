"""The routes of service accounts and their keys."""

from typing import Annotated

from aiohttp import web
from clusterra_contracts.identity import Moment
from pydantic import Field

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import Role, Scope
from clusterra_gateway.http.answers.responses import ResponseBody, json_response, no_content
from clusterra_gateway.http.requests.errors import Forbidden, InvalidRequest
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.identity.tokens.token_records import FreshToken, Rotation, TokenRecords
from clusterra_gateway.identity.tokens.tokens import DAY, MadeToken, NewToken, Token
from clusterra_gateway.people.service_accounts import CreateServiceAccount, ServiceAccounts

NAME = Parameter("name", "path", "^[a-z_][a-z0-9_-]{0,30}$")
KEY_ID = Parameter("key_id", "path", "^[0-9a-f]{16}$")


SERVICE_ACCOUNTS = "/v1/service-accounts"
SERVICE_ACCOUNT = f"{SERVICE_ACCOUNTS}/{{name}}"
KEYS = f"{SERVICE_ACCOUNT}/keys"
KEY = f"{KEYS}/{{key_id}}"
api = caller_routes(NAME, KEY_ID, reads=Needs("members:read", "admin"), changes=Needs("members:write", "admin"))

DEFAULT_KEY_DAYS = 90
MAX_KEY_DAYS = 365
MAX_OVERLAP_DAYS = 30

Lifetime = Annotated[int, Field(ge=60, le=MAX_KEY_DAYS * DAY)]


class ServiceAccount(ResponseBody):
    """A service account. `name` and `uid` are its Slurm identity; `id` is its id as a member."""

    id: str
    name: str
    uid: int
    role: Role
    scopes: tuple[Scope, ...] | None
    description: str
    disabled: bool
    created_at: Moment

    @classmethod
    def of(cls, account: Member) -> "ServiceAccount":
        """A service account, for the admins of its tenant."""
        return cls(
            id=account.id,
            name=account.user,
            uid=account.uid,
            role=account.role,
            scopes=account.scopes,
            description=account.display_name,
            disabled=account.disabled,
            created_at=account.joined_at,
        )


class ServiceAccountList(ResponseBody):
    """All service accounts of a tenant, in the order of their names."""

    service_accounts: tuple[ServiceAccount, ...]
    total: int


class NewKey(NewToken):
    """The request for a new key. Without scopes it has those of its service account."""

    expires_in_seconds: Lifetime = DEFAULT_KEY_DAYS * DAY


class RotateKey(Body):
    """How long the old key still works beside the new one, and how long the new one is valid."""

    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_DAYS * DAY), NotBoolean] = DAY
    expires_in_seconds: Lifetime = DEFAULT_KEY_DAYS * DAY


class Keys(ResponseBody):
    """All keys of a service account that are valid now, without their secrets."""

    keys: tuple[Token, ...]
    total: int


class ServiceAccountHandlers:
    """The handlers of service accounts."""

    def __init__(self, accounts: ServiceAccounts, once: AnswerOnce) -> None:
        self._accounts = accounts
        self._once = once

    @api.post(
        "service_accounts_create",
        SERVICE_ACCOUNTS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=CreateServiceAccount,
        result=ServiceAccount,
        names=(Named(SERVICE_ACCOUNT, "/name"),),
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Creates a service account: a member for programs, which has keys and cannot sign in with a browser.

        Its jobs run under its own uid. A name that was deleted comes back with the uid it had, without its keys.
        """
        wanted = await body(request, CreateServiceAccount)

        async def create() -> ServiceAccount:
            return ServiceAccount.of(await self._accounts.create(caller.member, wanted))

        return await self._once.answer(request, caller.owner_key, wanted, create)

    @api.get(
        "service_accounts_list",
        SERVICE_ACCOUNTS,
        result=ServiceAccountList,
        names=(Named(SERVICE_ACCOUNT, "/service_accounts/0/name"),),
    )
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the service accounts of the caller's tenant."""
        accounts = await self._accounts.all(caller.member.tenant)
        shown = tuple(map(ServiceAccount.of, accounts))
        return json_response(ServiceAccountList(service_accounts=shown, total=len(shown)))

    @api.get("service_accounts_get", SERVICE_ACCOUNT, result=ServiceAccount)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a service account of the caller's tenant."""
        account = await self._accounts.one(caller.member.tenant, path_id(request, NAME))
        return json_response(ServiceAccount.of(account))

    @api.delete("service_accounts_delete", SERVICE_ACCOUNT)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a service account. Its keys no longer work within a second, on all replicas. Its jobs go on."""
        await self._accounts.delete(caller.member, path_id(request, NAME))
        return no_content()


class KeyHandlers:
    """The handlers of the keys of service accounts."""

    def __init__(self, accounts: ServiceAccounts, records: TokenRecords, once: AnswerOnce) -> None:
        self._accounts = accounts
        self._records = records
        self._once = once

    @api.post(
        "service_accounts_keys_make",
        KEYS,
        parameters=(IDEMPOTENCY_KEY,),
        status=201,
        body=NewKey,
        result=MadeToken,
        names=(Named(KEY, "/id"),),
    )
    async def make(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes a key of a service account, which is shown only this once. This needs a session, as for tokens.

        A key with the scope `scim` has no other one, and only an owner makes it: a directory decides about all members.
        With an Idempotency-Key that has made a key already, 409 names that key: its secret is not shown again.
        """
        account, wanted = await self._account(request, caller), await body(request, NewKey)
        _require_session(caller)
        scopes = _limited(account, wanted.scopes)
        _allow_provisioning(caller, scopes)

        async def make() -> MadeToken:
            made = FreshToken.made(account.id, wanted.name, seconds=wanted.expires_in_seconds, scopes=scopes)
            await self._records.add(caller.member, account.id, made)
            return MadeToken.shown(made)

        return await self._once.answer(request, caller.owner_key, wanted, make)

    @api.get("service_accounts_keys_list", KEYS, result=Keys, names=(Named(KEY, "/keys/0/id"),))
    async def list(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the keys of a service account that are valid now."""
        account = await self._account(request, caller)
        keys = tuple(Token.of(*each) for each in await self._records.valid(account.id))
        return json_response(Keys(keys=keys, total=len(keys)))

    @api.delete("service_accounts_keys_revoke", KEY)
    async def revoke(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Revokes a key of a service account. It no longer works within a second, on all replicas."""
        account = await self._account(request, caller)
        await self._records.revoke(caller.member, account.id, path_id(request, KEY_ID))
        return no_content()

    @api.post(
        "service_accounts_keys_rotate",
        f"{KEY}/rotate",
        parameters=(IDEMPOTENCY_KEY,),
        status=201,
        body=RotateKey,
        result=MadeToken,
        names=(Named(KEY, "/id"),),
    )
    async def rotate(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Makes a new key with the name and scopes of an old one.

        The old key ends after `overlap_seconds`, and no later than it would have. This needs a session, as making a key
        does. A repetition with the same Idempotency-Key is answered as there.
        """
        account, key_id = await self._account(request, caller), path_id(request, KEY_ID)
        wanted = await body(request, RotateKey)
        _require_session(caller)
        for known_id, known in await self._records.valid(account.id):
            if known_id == key_id:
                _allow_provisioning(caller, known.scopes)
        rotation = Rotation(wanted.expires_in_seconds, wanted.overlap_seconds)

        async def rotate() -> MadeToken:
            return MadeToken.shown(await self._records.rotate(caller.member, account.id, key_id, rotation))

        return await self._once.answer(request, caller.owner_key, wanted, rotate)

    async def _account(self, request: web.Request, caller: Caller) -> Member:
        return await self._accounts.one(caller.member.tenant, path_id(request, NAME))


def _require_session(caller: Caller) -> None:
    if caller.credential != "session":
        raise Forbidden("a token cannot make keys that may outlive it", hint="sign in and make the key from there")


def _allow_provisioning(caller: Caller, scopes: tuple[Scope, ...] | None) -> None:
    """Raises Forbidden, InvalidRequest for a key by which a directory provisions people."""
    if "scim" not in (scopes or ()):
        return
    if scopes != ("scim",):
        raise InvalidRequest("a key with the scope scim has no other scope", hint="make two keys")
    if caller.member.role != "owner":
        raise Forbidden("only an owner lets a directory provision people", hint="ask an owner of your workspace")


def _limited(account: Member, wanted: tuple[Scope, ...] | None) -> tuple[Scope, ...] | None:
    """The scopes of a new key: those wanted, of which the account must have each. Raises InvalidRequest."""
    if account.scopes is None or wanted is None:
        return wanted or account.scopes
    if beyond := [scope for scope in wanted if scope not in account.scopes]:
        raise InvalidRequest(
            f"the service account {account.user} does not have {', '.join(beyond)}",
            hint=f"its scopes are {', '.join(account.scopes)}",
        )
    return wanted
