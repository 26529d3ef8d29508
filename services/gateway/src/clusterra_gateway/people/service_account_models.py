"""The bodies of requests for service accounts and their keys, and of their answers."""

from typing import Annotated, Literal

from clusterra_contracts.identity import Moment, UserName
from pydantic import Field, StringConstraints

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.accounts.roles import SCOPES, Role, Scope
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, NotBoolean
from clusterra_gateway.identity.tokens.tokens import DAY, NewToken, Token

DEFAULT_KEY_DAYS = 90
MAX_KEY_DAYS = 365
MAX_OVERLAP_DAYS = 30

Lifetime = Annotated[int, Field(ge=60, le=MAX_KEY_DAYS * DAY)]


class CreateServiceAccount(Body):
    """The request for a new service account."""

    name: UserName
    """Its Slurm user name."""
    role: Literal["viewer", "member", "admin"] = "member"
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=len(SCOPES))] | None = None
    """What its keys may be used for at most; null for all that its role may do."""
    description: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


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
