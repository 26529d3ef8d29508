"""A directory that answers without end: slowly, with more than fits into memory, or with ever new names.

It is a tenant's own server.
"""

import asyncio
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from clusterra_gateway.directory.maps import bounded_socket, ldap_directory, map_records
from clusterra_gateway.directory.maps.entries import MapEntry, MapRef, ReadMap
from clusterra_gateway.directory.maps.ldap_directory import DirectoryUnavailable, Secrets, read_directory
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.sources import LdapSource
from clusterra_gateway.tables import TABLES
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.table_use import tables_of

MIB = 1024 * 1024
ENDLESS = b"\x30\x84\x7f\xff\xff\xff"
"""The head of a message of 2 GiB."""
BIND_ACCEPTED = bytes.fromhex("61070a010004000400")

type Talk = Callable[[socket.socket], None]


@contextmanager
def directory(talk: Talk) -> Iterator[LdapSource]:
    """A server that talks so on each connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    talk(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        port = listening.getsockname()[1]
        yield LdapSource(url=f"ldap://127.0.0.1:{port}", plaintext=True, users_base="dc=example")
    finally:
        listening.close()


def drip(connection: socket.socket) -> None:
    """Answers the login with a byte now and then, for 20 s."""
    connection.recv(4096)
    connection.sendall(ENDLESS)
    for _ in range(400):
        time.sleep(0.05)
        connection.sendall(b"\0")


def flood(connection: socket.socket) -> None:
    """Accepts the login, and answers the search with a message of 1 GiB."""
    login = connection.recv(4096)
    connection.sendall(b"\x30\x0c" + login[2:5] + BIND_ACCEPTED)
    connection.recv(4096)
    connection.sendall(ENDLESS)
    for _ in range(1024):
        connection.sendall(bytes(MIB))


async def test_a_directory_that_drips_holds_no_thread_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_directory, "READ_SECONDS", 1.0)

    with directory(drip) as source:
        async with asyncio.timeout(10):
            with pytest.raises(DirectoryUnavailable):
                await asyncio.to_thread(read_directory, source, Secrets())


def test_an_endless_message_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_directory, "READ_SECONDS", 20.0)

    with directory(flood) as source:
        tracemalloc.start()
        with pytest.raises(DirectoryUnavailable, match="bytes"):
            read_directory(source, Secrets())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert peak < 40 * MIB


def pieces(*messages: bytes) -> Talk:
    """Accepts the login, and answers the search with these operations of LDAP."""

    def talk(connection: socket.socket) -> None:
        login = connection.recv(4096)
        connection.sendall(b"\x30\x0c" + login[2:5] + BIND_ACCEPTED)
        search = connection.recv(4096)
        number = search[2:5] if search[1] < 0x80 else search[2 + search[1] - 0x80 :][:3]
        connection.sendall(b"".join(value(0x30, number + each) for each in messages))
        connection.recv(4096)

    return talk


def value(tag: int, content: bytes) -> bytes:
    return bytes((tag, 0x84)) + len(content).to_bytes(4) + content


EMPTY_ENTRY = value(0x64, b"\x04\x00\x30\x00")


@pytest.mark.parametrize("tag", [0x04, 0x30, 0x10], ids=["texts", "sequences", "sequences by another tag"])
def test_an_entry_of_very_many_values_is_not_taken_apart(tag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_socket, "MAX_ELEMENTS", 1000)
    attribute = value(0x30, b"\x04\x04mail" + value(0x31, bytes((tag, 0)) * 1000))
    entry = value(0x64, b"\x04\x01x" + value(0x30, attribute))

    with directory(pieces(entry)) as source, pytest.raises(DirectoryUnavailable, match="too many values"):
        read_directory(source, Secrets())


def test_very_many_entries_are_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_socket, "MAX_MESSAGES", 1000)

    answer = pieces(*[EMPTY_ENTRY] * 1001)

    with directory(answer) as source, pytest.raises(DirectoryUnavailable, match="too many values"):
        read_directory(source, Secrets())


@pytest.mark.parametrize(
    "entry",
    [
        value(0x64, value(0x30, b"\x04\x7f") + b"\x04\x00" * 5000),
        value(0x64, b"\x30\x80" + b"\x04\x00" * 5000),
        value(0x64, b"\x30\x89" + bytes(8) + b"\x00" + b"\x04\x00" * 5000),
        value(0x64, b"\x04"),
    ],
    ids=["ends outside", "of unknown length", "of a long length", "cut"],
)
def test_what_is_no_ber_is_not_taken_apart(entry: bytes) -> None:
    with directory(pieces(entry)) as source, pytest.raises(DirectoryUnavailable, match="LDAP"):
        read_directory(source, Secrets())


@pytest.mark.parametrize(
    "answer",
    [
        value(0x78, b"\x0a\x01\x00\x04\x00\x04\x00\x8a\x161.3.6.1.4.1.1466.20037"),
        value(0x61, b"\x0a\x01\x00\x04\x00\x04\x00\x87\x04\x01\x7f\x00\xff"),
    ],
    ids=["the name of StartTLS", "credentials of SASL"],
)
def test_plain_bytes_of_an_answer_are_no_values(answer: bytes) -> None:
    message = value(0x30, b"\x02\x01\x01" + answer)

    assert bounded_socket._elements(bytearray(message), 100) == 7


def user(number: int) -> MapEntry:
    return MapEntry(name=f"u{number}", uid=5000 + number, gid=5000, emails=(f"u{number}@acme.example",))


async def test_a_map_keeps_so_many_names_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_records, "MAX_NAMES", 3)
    ref = MapRef("acme", "campus")

    async with MemoryStore() as store:
        await store.create_tables(*tables_of(TABLES))
        records = MapRecords(store)
        for first in range(0, 20, 2):
            state = await records.replace_all(ref, ReadMap((user(first), user(first + 1)), ()))
        known = await records.users(ref)
        again = await records.replace_all(ref, ReadMap((user(0), user(1)), ()))

    assert set(known) == {"u0", "u1", "u2"}
    assert (state.users, state.refused) == (0, 2)
    assert (again.users, again.refused) == (2, 0)
