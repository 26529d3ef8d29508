"""The identity sources of a tenant, as a provision file gives them and as the record keeps them."""

from typing import Annotated, Literal, Self

from clusterra_contracts.identity import Moment
from clusterra_runtime.secrets.reference import StoredReference
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.directory.maps.entries import MAX_ENTRIES, MapEntry, ReadMap
from clusterra_gateway.directory.maps.posix_files import read_files

MAX_TEXT = 4_000_000
"""The most characters of a passwd or group file."""

DomainName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*$", max_length=253, to_lower=True)]
DistinguishedName = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Filter = Annotated[str, StringConstraints(pattern=r"^\(.*\)$", max_length=1000)]
AttributeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)

    email_domain: DomainName | None = None
    """Where a user has no e-mail address: the domain in which their name is their address."""


class FileSource(_Source):
    """The users stand in the provision file: as entries, or as the texts of passwd(5) and group(5)."""

    kind: Literal["file"] = "file"
    users: Annotated[tuple[MapEntry, ...], Field(max_length=MAX_ENTRIES)] = ()
    passwd: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    """The text of a passwd(5) file. Users below uid 1000 are left out. Needs `email_domain`."""
    group: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    """The text of a group(5) file. Groups below gid 1000 are left out."""

    @model_validator(mode="after")
    def _recognisable(self) -> Self:
        if self.passwd and self.email_domain is None:
            raise ValueError("passwd needs an email_domain: its users have no addresses by which to recognise people")
        return self

    def read(self) -> ReadMap:
        """The users of the file."""
        read = read_files(self.passwd, self.group, self.email_domain)
        return ReadMap((*self.users, *read.entries), read.refused)


class LdapSource(_Source):
    """The users are posixAccounts and posixGroups (RFC 2307) of a directory that the gateway reads now and then."""

    kind: Literal["ldap"] = "ldap"
    url: Annotated[str, StringConstraints(pattern=r"^ldaps?://[A-Za-z0-9.\[\]:-]+/?$", max_length=300)]
    """`ldaps://host` or `ldap://host`, which is encrypted by StartTLS."""
    ca_certificates: StoredReference | None = None
    """Where the certificates (PEM) are that vouch for the server's; None: those of the machine."""
    plaintext: bool = False
    """Whether `ldap://` stays unencrypted. Only for a directory on the same machine."""
    bind_dn: DistinguishedName | None = None
    """Who reads; None: anonymous."""
    bind_password: StoredReference | None = None
    """Where the reader's password is."""
    users_base: DistinguishedName
    groups_base: DistinguishedName | None = None
    """None: the users have no further groups."""
    user_filter: Filter = "(objectClass=posixAccount)"
    group_filter: Filter = "(objectClass=posixGroup)"
    email_attribute: AttributeName = "mail"
    refresh_seconds: Annotated[int, Field(ge=30, le=86_400)] = 300

    @field_validator("url")
    @classmethod
    def _without_slash(cls, url: str) -> str:
        return url.rstrip("/")

    @model_validator(mode="after")
    def _secret_is_safe(self) -> Self:
        if (self.bind_dn is None) != (self.bind_password is None):
            raise ValueError("bind_dn and bind_password belong together")
        host = self.url.partition("://")[2].rpartition(":")[0] or self.url.partition("://")[2]
        if self.plaintext and (self.url.startswith("ldaps:") or host not in ("127.0.0.1", "localhost", "[::1]")):
            raise ValueError("plaintext is for ldap:// on this machine only")
        return self


class ScimSource(_Source):
    """The users are those whom the tenant's directory provisions by SCIM with a uid number."""

    kind: Literal["scim"] = "scim"


type IdentitySource = Annotated[FileSource | LdapSource | ScimSource, Field(discriminator="kind")]


class StoredSource(Record):
    """The record of a source. A file's users are in its map alone."""

    source: IdentitySource

    @classmethod
    def without_users(cls, source: IdentitySource) -> "StoredSource":
        """The record of a source as given."""
        if isinstance(source, FileSource):
            source = source.model_copy(update={"users": (), "passwd": "", "group": ""})
        return cls(source=source)


class SourceState(Record):
    """How the map of a source stands."""

    users: int = 0
    """How many active users it has."""
    read_at: Moment | None = None
    """When the source was last read as a whole; None: never."""
    tried_at: Moment | None = None
    reading_since: Moment | None = None
    """Since when a gateway reads what was provisioned; None while none does."""
    revision: int = 0
    """Which state of what was provisioned was read last."""
    problem: str = ""
    """Why it could not be read since; the map is what was read last."""
    refused: int = 0
    """How many users of the source the map does not take."""
    reasons: tuple[str, ...] = ()
    """Why, of the first of them."""
