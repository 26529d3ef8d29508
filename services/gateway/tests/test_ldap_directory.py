"""The users of a site from a real LDAP directory: slapd."""

import os
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from certificate import write_certificate
from clusterra_gateway.directory.maps.entries import MapRef
from clusterra_gateway.directory.maps.ldap_directory import DirectoryUnavailable, Secrets, read_directory
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.refresh import DirectoryRefresh
from clusterra_gateway.directory.maps.sources import LdapSource
from clusterra_gateway.tables import TABLES
from clusterra_lab.slurm.root import can_have_root
from clusterra_lab.slurm.slapd import ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Slapd, slapd
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import Outbound
from clusterra_runtime.secrets import reader
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.table_use import tables_of
from ldap3 import MODIFY_ADD, Connection, Server

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="slapd runs in a Debian root, which needs root"),
    pytest.mark.skipif(not can_have_root(), reason="this machine has no Debian root with slapd and cannot build one"),
]

PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
CROWD = 250
"""More users than a page of slapd has."""


def user(name: str, uid: int, gid: int, *emails: str) -> str:
    mails = "".join(f"mail: {email}\n" for email in emails)
    return (
        f"dn: uid={name},{PEOPLE}\nobjectClass: inetOrgPerson\nobjectClass: posixAccount\ncn: {name}\nsn: {name}\n"
        f"uid: {name}\nuidNumber: {uid}\ngidNumber: {gid}\nhomeDirectory: /home/{name}\nuserPassword: hidden\n{mails}\n"
    )


def group(name: str, gid: int, *members: str) -> str:
    listed = "".join(f"memberUid: {member}\n" for member in members)
    return f"dn: cn={name},{GROUPS}\nobjectClass: posixGroup\ncn: {name}\ngidNumber: {gid}\n{listed}\n"


LDIF = "".join(
    [
        f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: Campus\ndc: campus\n\n",
        *(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n" for unit in ("people", "groups")),
        user("ada", 5001, 5000, "Ada@acme.example", "lovelace@acme.example"),
        user("grace", 5002, 5000),
        user("svc", 900, 900, "svc@acme.example"),
        user("eve", 5003, 100, "eve@acme.example"),
        user("Dr.Who", 5004, 5000, "who@acme.example"),
        *(user(f"c{number}", 6000 + number, 5000) for number in range(CROWD)),
        group("people", 5000),
        group("docker", 998, "ada"),
        group("chem", 7001, "ada", "grace"),
    ]
)


@pytest.fixture(scope="module")
async def directory(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Slapd]:
    folder = tmp_path_factory.mktemp("slapd")
    write_certificate(folder / "certificate.pem", timedelta(days=30))
    async with slapd(folder / "directory", folder / "certificate.pem", LDIF) as running:
        yield running


@pytest.fixture
def source(directory: Slapd, tmp_path: Path) -> Callable[..., LdapSource]:
    (tmp_path / "password").write_text(ADMIN_PASSWORD)

    def make(**changes: object) -> LdapSource:
        given = {
            "url": directory.url,
            "bind_dn": ADMIN_DN,
            "bind_password": f"file:{tmp_path / 'password'}",
            "ca_certificates": f"file:{directory.certificate}",
            "users_base": PEOPLE,
            "groups_base": GROUPS,
            "email_domain": "acme.example",
        }
        return LdapSource.model_validate(given | changes)

    return make


def trusting(directory: Slapd, password: str = ADMIN_PASSWORD) -> Secrets:
    certificate = directory.certificate.read_text()
    return Secrets(password, certificate[certificate.index("-----BEGIN CERTIFICATE") :])


@pytest.mark.parametrize("encryption", ["starttls", "tls"])
async def test_users_and_groups_are_read(directory: Slapd, source: Callable[..., LdapSource], encryption: str) -> None:
    url = directory.url if encryption == "starttls" else directory.tls_url

    read = read_directory(source(url=url), trusting(directory))

    users = {entry.name: entry for entry in read.entries}
    assert len(users) == 2 + CROWD
    ada, grace = users["ada"], users["grace"]
    assert (ada.uid, ada.gid, ada.group, ada.home) == (5001, 5000, "people", "/home/ada")
    assert (ada.groups, ada.group_names) == ((7001,), ("chem",))
    assert ada.emails == ("ada@acme.example", "lovelace@acme.example")
    assert grace.emails == ("grace@acme.example",)
    reasons = {each.name: each.reason for each in read.refused}
    assert "gid" in reasons["eve"]
    assert "name" in reasons["Dr.Who"]
    assert f"cn=docker,{GROUPS}" in reasons


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"users_base": f"ou=nobody,{SUFFIX}"}, "noSuchObject|NoSuchObject"),
        ({"users_base": GROUPS}, "has no user"),
        ({"url": "ldap://127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
async def test_what_cannot_be_read_is_no_empty_map(
    directory: Slapd, source: Callable[..., LdapSource], changes: dict[str, str], problem: str
) -> None:
    with pytest.raises(DirectoryUnavailable, match=problem):
        read_directory(source(**changes), trusting(directory))


async def test_a_closed_address_is_not_connected_to(directory: Slapd, source: Callable[..., LdapSource]) -> None:
    with pytest.raises(DirectoryUnavailable, match="metadata service"):
        read_directory(source(), trusting(directory), Outbound(closed=(ip_network("127.0.0.0/8"),)))


async def test_a_server_with_another_certificate_gets_no_password(
    directory: Slapd, source: Callable[..., LdapSource], tmp_path: Path
) -> None:
    write_certificate(tmp_path / "other.pem", timedelta(days=30))
    other = (tmp_path / "other.pem").read_text()
    wrong = Secrets(ADMIN_PASSWORD, other[other.index("-----BEGIN CERTIFICATE") :])

    for url in (directory.url, directory.tls_url):
        with pytest.raises(DirectoryUnavailable, match=r"(?i)certificate"):
            read_directory(source(url=url), wrong)


async def test_a_wrong_password_is_told_without_it(directory: Slapd, source: Callable[..., LdapSource]) -> None:
    wrong = secrets.token_hex(16)

    with pytest.raises(DirectoryUnavailable, match=r"(?i)credentials") as raised:
        read_directory(source(), trusting(directory, wrong))

    assert wrong not in str(raised.value)


async def test_an_outage_keeps_the_map_and_says_so(directory: Slapd, source: Callable[..., LdapSource]) -> None:
    ref = MapRef("acme", "campus")
    async with MemoryStore() as store, reader.Secrets() as known:
        await store.create_tables(*tables_of(TABLES))
        records, registry = MapRecords(store), Registry()
        refresh = DirectoryRefresh(records, registry, known)
        await records.put_source(ref, source())
        await refresh.refresh(ref)
        read, _ = await records.state(ref)
        assert (read.users, read.problem) == (2 + CROWD, "")

        await directory.stop()
        try:
            await due(records, ref)
            await refresh.refresh(ref)

            kept, _ = await records.state(ref)
            assert (kept.users, kept.read_at) == (read.users, read.read_at)
            assert directory.url in kept.problem
            assert (await records.by_email(ref, "lovelace@acme.example")) is not None
        finally:
            await directory.start()

        await due(records, ref)
        change(directory, f"cn=chem,{GROUPS}", {"memberUid": [(MODIFY_ADD, ["c1"])]})
        await refresh.refresh(ref)

        again, _ = await records.state(ref)
        joined = await records.by_name(ref, "c1")
        assert again.problem == ""
        assert joined is not None
        assert joined.group_names == ("chem",)


async def test_only_one_gateway_reads_a_directory(directory: Slapd, source: Callable[..., LdapSource]) -> None:
    ref = MapRef("acme", "campus")
    async with MemoryStore() as store, reader.Secrets() as known:
        await store.create_tables(*tables_of(TABLES))
        records = MapRecords(store)
        await records.put_source(ref, source())
        await DirectoryRefresh(records, Registry(), known).refresh(ref)
        state, version = await records.state(ref)

        await DirectoryRefresh(records, Registry(), known).refresh(ref)

        assert await records.state(ref) == (state, version)


async def due(records: MapRecords, ref: MapRef) -> None:
    """Let the next look read the directory, as when the time has passed."""
    state, version = await records.state(ref)
    assert await records.put_state(ref, state.model_copy(update={"tried_at": None}), version)


def change(directory: Slapd, dn: str, changes: dict[str, list[tuple[str, list[str]]]]) -> None:
    admin = Connection(Server(directory.url, get_info="NO_INFO"), ADMIN_DN, ADMIN_PASSWORD)
    try:
        assert admin.bind()
        assert admin.modify(dn, changes), admin.result  # type: ignore[no-untyped-call]
    finally:
        admin.unbind()
