"""`bus-login.<tenant>` and `bus-revocation.<tenant>`: logins of integrations at NATS, which the authority signs."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import Id, Moment, Wire

MIN_LOGIN_SECONDS = 60
MAX_LOGIN_SECONDS = 7 * 86_400
"""The longest life of a login. It is renewed by then."""
MAX_BUS_CREDENTIALS = 20
"""The most bus credentials of a tenant."""

BusCredentialId = Annotated[str, StringConstraints(pattern=r"^bc_[0-9a-f]{16}$")]
UserKey = Annotated[str, StringConstraints(pattern=r"^U[A-Z2-7]{55}$")]
"""The public NKey of a user at NATS. Its owner keeps the seed."""


class SignBusLogin(Wire):
    """Sign a login that reads the events of the tenant, or of one of its clusters, and may do nothing else."""

    schema_name: ClassVar[str] = "bus-login.sign.v1"

    credential_id: BusCredentialId
    public_key: UserKey
    cluster: Id | None = None
    """None: the events of the whole tenant."""
    lifetime_seconds: Annotated[int, Field(ge=MIN_LOGIN_SECONDS, le=MAX_LOGIN_SECONDS)]


class BusLogin(Wire):
    """A login at NATS. It is of use only with the seed of its key."""

    schema_name: ClassVar[str] = "bus-login.signed.v1"

    jwt: Annotated[str, StringConstraints(max_length=8192)]
    account: str
    """The public NKey of the tenant's account at NATS."""
    subject: str
    """What it may subscribe."""
    expires_at: Moment


class RevokeBusLogins(Wire):
    """Revoke all logins of some keys until now, or of all keys of the tenant. Their connections are cut."""

    schema_name: ClassVar[str] = "bus-login.revoke.v1"

    public_keys: Annotated[tuple[UserKey, ...], Field(max_length=MAX_BUS_CREDENTIALS)]
    every: bool = False
    """All logins of the tenant, whatever their keys."""
