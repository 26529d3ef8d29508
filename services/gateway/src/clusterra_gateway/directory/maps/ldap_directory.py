"""Reads the posixAccounts and posixGroups (RFC 2307) of an LDAP directory."""

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, override
from urllib.parse import urlsplit

from clusterra_contracts.identity import PosixId
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound
from ldap3 import AUTO_BIND_NONE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clusterra_gateway.directory.maps.bounded_socket import BoundedSocket
from clusterra_gateway.directory.maps.entries import MAX_EMAILS, MAX_ENTRIES, ReadMap, Refused
from clusterra_gateway.directory.maps.posix_files import FIRST_ID, Account, Group, entries_of, mistakes
from clusterra_gateway.directory.maps.sources import LdapSource

CONNECT_SECONDS = 5
ANSWER_SECONDS = 30
READ_SECONDS = 300.0
"""How long all pages together may take."""
MAX_ADDRESSES = 4
"""How many addresses of a server are tried: each may take CONNECT_SECONDS."""
PAGE = 500
MAX_MEMBERS = 20_000
"""The most members of a group. A larger group is refused."""


class DirectoryUnavailable(Exception):
    """The directory could not be read; the text says why, and holds no secret."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the connection needs besides the source: the reader's password, and the certificates (PEM) to trust."""

    password: str | None = None
    ca_certificates: str | None = None


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


First = BeforeValidator(_first)
"""Of an attribute that may have several values."""


class _Account(BaseModel):
    """The attributes of a posixAccount, as ldap3 gives them without a schema: lists of strings."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    uid: Annotated[str, First, Field(max_length=256)]
    uid_number: Annotated[int, First, Field(alias="uidNumber", ge=0)]
    gid_number: Annotated[int, First, Field(alias="gidNumber", ge=0)]
    home_directory: Annotated[str | None, First, Field(alias="homeDirectory", max_length=4096)] = None
    emails: tuple[str, ...] = ()


class _Group(BaseModel):
    """The attributes of a posixGroup."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    cn: Annotated[str, First, Field(max_length=256)]
    gid_number: Annotated[PosixId, First, Field(alias="gidNumber")]
    member_uid: Annotated[tuple[str, ...], Field(alias="memberUid", max_length=MAX_MEMBERS)] = ()


class _VerifiedTls(Tls):
    """TLS as Python verifies it. ldap3's own check of the server's name takes no addresses."""

    def __init__(self, host: str, ca_certificates: str | None) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._host = host
        self._context = ssl.create_default_context(cadata=ca_certificates)

    @override
    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        given = connection.socket
        plain = given.inner if isinstance(given, BoundedSocket) else given
        wrapped = self._context.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=do_handshake)
        if isinstance(given, BoundedSocket):
            given.inner = wrapped
        else:
            connection.socket = wrapped


class _Server(Server):
    """A server that is not connected to at an address which no service may call."""

    def __init__(self, outbound: Outbound, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._outbound = outbound

    @override
    def candidate_addresses(self) -> list[Any]:
        found: list[Any] = super().candidate_addresses()  # type: ignore[no-untyped-call]
        for each in found:
            self._outbound.check(str(each[4][0]))
        return found[:MAX_ADDRESSES]


def read_directory(source: LdapSource, secrets: Secrets, outbound: Outbound = DEFAULT_OUTBOUND) -> ReadMap:
    """Reads all users from FIRST_ID on, with their groups. Blocks: call it on a thread.

    Raises DirectoryUnavailable, also for a directory without any such user: a wrong base must not empty the map.
    """
    until = time.monotonic() + READ_SECONDS
    try:
        connection = _connection(source, secrets, outbound)
        try:
            _open(source, connection, until)
            return _read(source, connection)
        finally:
            with suppress(LDAPException, OSError):
                connection.unbind()
            # ldap3 leaves a socket open that it could not connect.
            if connection.socket is not None:
                connection.socket.close()
    except (LDAPException, OSError, ssl.SSLError) as error:
        raise DirectoryUnavailable(f"{source.url}: {type(error).__name__}: {_said(error)}") from error


def _connection(source: LdapSource, secrets: Secrets, outbound: Outbound) -> Connection:
    host = urlsplit(source.url).hostname
    server = _Server(
        outbound,
        source.url,
        tls=_VerifiedTls(host or "", secrets.ca_certificates),
        connect_timeout=CONNECT_SECONDS,
        get_info="NO_INFO",
    )
    return Connection(
        server,
        user=source.bind_dn,
        password=secrets.password,
        auto_bind=AUTO_BIND_NONE,
        read_only=True,
        receive_timeout=ANSWER_SECONDS,
        raise_exceptions=True,
        auto_referrals=False,
    )


def _open(source: LdapSource, connection: Connection, until: float) -> None:
    """Connects, encrypts, and only then sends the password."""
    connection.open()
    connection.socket = BoundedSocket(connection.socket, until, ANSWER_SECONDS)
    if source.url.startswith("ldap:") and not source.plaintext and not connection.start_tls():
        raise DirectoryUnavailable(f"{source.url} does not encrypt the connection: StartTLS failed")
    connection.bind()


def _read(source: LdapSource, connection: Connection) -> ReadMap:
    refused: list[Refused] = []
    accounts: list[Account] = []
    wanted = ["uid", "uidNumber", "gidNumber", "homeDirectory", source.email_attribute]
    for dn, attributes in _found(connection, source.users_base, source.user_filter, wanted):
        emails = tuple(str(each) for each in _values(attributes, source.email_attribute))
        try:
            read = _Account.model_validate(attributes | {"emails": emails})
        except ValidationError as error:
            refused.append(Refused(dn, mistakes(error)))
            continue
        if read.uid_number >= FIRST_ID:
            if not emails and source.email_domain is not None:
                emails = (f"{read.uid}@{source.email_domain}",)
            accounts.append(
                Account(read.uid, read.uid_number, read.gid_number, read.home_directory or None, emails[:MAX_EMAILS])
            )
    if not accounts:
        raise DirectoryUnavailable(f"{source.url} has no user below {source.users_base} that can be read")
    groups: list[Group] = []
    if source.groups_base is not None:
        found = _found(connection, source.groups_base, source.group_filter, ["cn", "gidNumber", "memberUid"])
        for dn, attributes in found:
            try:
                group = _Group.model_validate(attributes)
            except ValidationError as error:
                refused.append(Refused(dn, mistakes(error)))
                continue
            groups.append(Group(group.cn, group.gid_number, group.member_uid))
    read_map = entries_of(accounts, groups)
    return ReadMap(read_map.entries, (*refused, *read_map.refused))


def _found(
    connection: Connection, base: str, search_filter: str, attributes: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries below a base, page by page: their names and attributes. At most MAX_ENTRIES are read."""
    found = connection.extend.standard.paged_search(
        search_base=base,
        search_filter=search_filter,
        search_scope=SUBTREE,
        attributes=list(attributes),
        paged_size=PAGE,
        time_limit=ANSWER_SECONDS,
        generator=True,
    )
    count = 0
    for entry in found:
        if entry.get("type") != "searchResEntry":
            continue
        count += 1
        if count > MAX_ENTRIES:
            raise DirectoryUnavailable(f"more than {MAX_ENTRIES} entries below {base}: choose a narrower filter")
        yield str(entry["dn"])[:200], {name: _text(value) for name, value in entry["raw_attributes"].items()}


def _text(values: Sequence[bytes]) -> list[str]:
    return [value.decode("utf-8", "replace") for value in values]


def _values(attributes: dict[str, Any], name: str) -> list[str]:
    """The values of an attribute, whose name servers write in a case of their own."""
    return next((values for known, values in attributes.items() if known.lower() == name.lower()), [])


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
