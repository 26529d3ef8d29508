"""Bus credentials as the API takes and shows them."""

from typing import Annotated

from clusterra_contracts.bus import permissions
from clusterra_contracts.identity import Id, Moment, TenantRef, Wire
from clusterra_contracts.rpc.bus_logins import (
    MAX_LOGIN_SECONDS,
    MIN_LOGIN_SECONDS,
    BusCredentialId,
    BusLogin,
    UserKey,
)
from pydantic import Field, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, NotBoolean

DAY = 86_400

Lifetime = Annotated[int, Field(ge=MIN_LOGIN_SECONDS, le=MAX_LOGIN_SECONDS), NotBoolean]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class BusCredential(Wire):
    """A bus credential, as it is stored. It holds no secret: the seed is its owner's."""

    id: BusCredentialId
    name: Name
    public_key: UserKey
    cluster: Id | None = None
    created_by: str
    created_at: Moment
    renewed_at: Moment
    expires_at: Moment
    """When the last login ends."""


class NewBusCredential(Body):
    """A bus credential to create."""

    name: Name
    public_key: UserKey
    """The public NKey of a user, `U...`. Your program makes it and keeps its seed, which we never see."""
    cluster_id: Id | None = None
    """Only the events of this cluster; null: of the whole workspace."""
    lifetime_seconds: Lifetime = DAY
    """How long the login is valid: at most 7 days. Renew it before."""


class RenewBusCredential(Body):
    """For how long the new login is valid."""

    lifetime_seconds: Lifetime = DAY


class BusCredentialView(ResponseBody):
    """A bus credential."""

    id: str
    name: str
    public_key: str
    cluster_id: str | None
    subject: str
    """What it may subscribe at NATS, and all subjects below."""
    created_by: str
    created_at: Moment
    renewed_at: Moment
    expires_at: Moment
    """When its last login ends. A program that renews has a later one before."""

    @classmethod
    def of(cls, tenant: str, credential: BusCredential) -> "BusCredentialView":
        """What admins see of it."""
        allowed = permissions.integration(TenantRef(tenant=tenant), credential.cluster)
        return cls.showing(credential, cluster_id=credential.cluster, subject=allowed.subscribe[0])


class SignedBusCredential(BusCredentialView):
    """A bus credential with a new login at NATS."""

    jwt: str
    """The user JWT for NATS. It works only together with the seed of `public_key`."""
    account: str
    """The account of the workspace at NATS, in which nothing but its events is."""

    @classmethod
    def signed(cls, tenant: str, credential: BusCredential, login: BusLogin) -> "SignedBusCredential":
        """What whoever asked for the login gets."""
        view = BusCredentialView.of(tenant, credential)
        return cls(**view.model_dump(), jwt=login.jwt, account=login.account)


class BusCredentialList(ResponseBody):
    """All bus credentials of a workspace, the oldest first."""

    bus_credentials: tuple[BusCredentialView, ...]
    total: int
