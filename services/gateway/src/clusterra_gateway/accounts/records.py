"""What the gateway's tables hold, as models: tenants, members, names, domains, invitations and tokens."""

from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Self

from clusterra_contracts.identity import Id, Moment, SlurmUser, UserName
from clusterra_runtime.store.item import Attributes, Item
from pydantic import BaseModel, ConfigDict, Field

OPERATOR = "operator"
"""The owner of a name that a cluster's operator has."""


class Record(BaseModel):
    """A stored item's attributes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def of(cls, item: Item) -> Self:
        """Read an item. Raises pydantic's ValidationError for one that this version cannot read."""
        return cls.model_validate(dict(item.attributes))

    def attributes(self) -> Attributes:
        """What to store."""
        attributes: dict[str, Any] = self.model_dump(mode="json")
        return attributes


class Tenant(Record):
    """A customer."""

    name: str


class Domain(Record):
    """An e-mail domain: whoever signs in with a verified address of it belongs to this tenant."""

    tenant: Id


class Invitation(Record):
    """A single e-mail address: its owner belongs to this tenant, whatever the domain, and may be its admin."""

    tenant: Id
    admin: bool = False


class Member(Record):
    """A person: `iss` and `sub` of the OIDC issuer, and the Slurm identity that is his for good."""

    issuer: str
    subject: str
    tenant: Id
    user: UserName
    uid: Annotated[int, Field(ge=1000)]
    email: str
    display_name: str = ""
    admin: bool = False
    joined_at: Moment

    @property
    def id(self) -> str:
        """Names the person in sessions and keys."""
        return member_id(self.issuer, self.subject)

    @property
    def slurm_user(self) -> SlurmUser:
        """The identity the person's jobs run under: the group is the person's own."""
        return SlurmUser(name=self.user, uid=self.uid, gid=self.uid)


class NameReservation(Record):
    """A Slurm user name of a tenant that is taken, for good: by a member's id, or by a cluster's operator."""

    uid: int
    owner: str
    """A member's id or `OPERATOR`."""


class ApiToken(Record):
    """A bearer token; of its secret only the hash is kept."""

    name: str
    secret_hash: str
    created_at: Moment
    valid_until: Moment


def member_id(issuer: str, subject: str) -> str:
    """32 hexadecimal digits for a person at an issuer."""
    return sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:32]


def epoch(moment: datetime) -> int:
    """When an item expires, as the store counts."""
    return int(moment.timestamp())
