"""Certificates of Kubernetes, checked by real TLS connections."""

import asyncio
import ssl
from pathlib import Path

import pytest
from clusterra_lab.kube.certificates import Authority, Pair
from clusterra_lab.machine.secret_file import write_secret


def context(purpose: ssl.Purpose, authority: Authority, pair: Pair, folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cadata=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    write_secret(folder / "pair", pair.certificate + pair.key)
    context.load_cert_chain(folder / "pair")
    return context


class ConnectionClosed(Exception):
    """The server closed the connection: with TLS 1.3, this or an error tells a client of a rejected certificate."""


async def hello(port: int, trust: ssl.SSLContext, name: str) -> object:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
    try:
        if await reader.read() != b"hello":
            raise ConnectionClosed
        return dict(pair for ((pair),) in writer.get_extra_info("peercert")["subject"])
    finally:
        writer.close()
        await writer.wait_closed()


async def test_client_and_server_trust_only_certificates_of_their_authority(tmp_path: Path) -> None:
    authority, stranger = Authority.new("kubernetes"), Authority.new("kubernetes")
    clients: list[object] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(sorted(pair for ((pair),) in writer.get_extra_info("peercert")["subject"]))
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    listens = context(ssl.Purpose.CLIENT_AUTH, authority, authority.server("api", ["127.0.0.1", "api.lab"]), tmp_path)
    client = authority.client("administrator", "system:masters")
    knows = context(ssl.Purpose.SERVER_AUTH, authority, client, tmp_path)
    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=listens)

    async with server:
        port = server.sockets[0].getsockname()[1]

        assert await hello(port, knows, "127.0.0.1") == {"commonName": "api"}
        assert await hello(port, knows, "api.lab") == {"commonName": "api"}
        with pytest.raises(ssl.SSLCertVerificationError):
            await hello(port, knows, "other.lab")
        with pytest.raises(ssl.SSLCertVerificationError):
            await hello(port, context(ssl.Purpose.SERVER_AUTH, stranger, client, tmp_path), "api.lab")

        forged = context(ssl.Purpose.SERVER_AUTH, authority, stranger.client("administrator"), tmp_path)

        with pytest.raises((ConnectionClosed, ssl.SSLError, ConnectionError)):
            await hello(port, forged, "api.lab")

    assert clients == [[("commonName", "administrator"), ("organizationName", "system:masters")]] * 2


def test_the_repr_of_a_pair_hides_the_key() -> None:
    pair = Authority.new("kubernetes").client("administrator")
    assert "PRIVATE KEY" in pair.key
    assert "PRIVATE" not in repr(pair)
