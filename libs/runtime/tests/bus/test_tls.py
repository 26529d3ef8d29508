"""TLS: a client talks only to a server with a certificate of the configured authority for the name in the address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusterra_lab.kube.certificates import Authority
from clusterra_lab.machine.process import until
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.credentials import CredentialsUnreadable
from clusterra_runtime.settings import ServiceSettings

from .conftest import connected
from .test_credentials import configured, works


def tls(directory: Path, authority: Authority, *hosts: str) -> dict[str, object]:
    pair = authority.server("nats", hosts)
    certificate, key = directory / "tls.crt", directory / "tls.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    return {"tls": {"cert_file": str(certificate), "key_file": str(key)}}


def trusting(directory: Path, authority: Authority, url: str) -> ServiceSettings:
    file = directory / "ca.crt"
    file.write_text(authority.certificate)
    return ServiceSettings(nats_url=url.replace("nats://", "tls://"), nats_ca_file=file)


async def test_a_client_connects_and_reconnects_with_the_configured_authority(tmp_path: Path) -> None:
    authority = Authority.new("authority of NATS")
    async with (
        configured(tmp_path, tls(tmp_path, authority, "127.0.0.1")) as (url, process, _),
        connected(trusting(tmp_path, authority, url)) as client,
    ):
        assert await works(client)

        await client.force_reconnect()
        await until(lambda: works(client), seconds=90, what="the client to reconnect", process=process)


@pytest.mark.parametrize("host", ["127.0.0.1", "nats.example.com"], ids=["another authority", "another name"])
async def test_a_client_does_not_talk_to_another_server(tmp_path: Path, host: str) -> None:
    authority = Authority.new("authority of NATS")
    trusted = Authority.new("authority of NATS") if host == "127.0.0.1" else authority
    async with configured(tmp_path, tls(tmp_path, authority, host)) as (url, process, _):
        connecting = asyncio.create_task(bus.connect(trusting(tmp_path, trusted, url), "early"))
        try:
            await until(lambda: "TLS handshake error" in process.tail(), seconds=90, what="the refused handshake")
            assert not connecting.done()
        finally:
            connecting.cancel()
            await asyncio.wait({connecting})


async def test_a_missing_authority_is_named(tmp_path: Path) -> None:
    settings = ServiceSettings(nats_url="tls://127.0.0.1:1", nats_ca_file=tmp_path / "none.crt")

    with pytest.raises(CredentialsUnreadable, match=r"none\.crt holds no certificate of an authority"):
        async with connected(settings):
            pass


@asynccontextmanager
async def asking_for_tls(answer: bytes) -> AsyncIterator[tuple[ServiceSettings, list[bytes]]]:
    """A server that asks for TLS, and gives each handshake the same answer; with the first bytes of all handshakes."""
    handshakes: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"tls_required":true}\r\n')
        if first := await reader.read(1):
            handshakes.append(first)
            writer.write(answer)
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield ServiceSettings(nats_url=f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"), handshakes
    finally:
        server.close()


@pytest.mark.parametrize(("answer", "attempts"), [(b"", 1), (b"no record of TLS", 3)], ids=["silent", "broken"])
async def test_connect_outlives_failed_handshakes_and_can_be_cancelled(answer: bytes, attempts: int) -> None:
    async with asking_for_tls(answer) as (settings, handshakes):
        connecting = asyncio.create_task(bus.connect(settings, "early"))
        try:
            await until(lambda: len(handshakes) >= attempts, seconds=60, what=f"{attempts} handshakes")
        finally:
            connecting.cancel()
            await asyncio.wait({connecting}, timeout=30)

        assert connecting.cancelled()
