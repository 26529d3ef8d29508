"""What hands out credentials is not called: neither when its address is given, nor by a later connection."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, AddressRefused, Outbound

CLOSED = (
    "169.254.169.254",
    "169.254.170.2",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::a9fe:a9fe",
)
OPEN = ("127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "203.0.113.9", "2001:db8::1", "fd00:ec3::254", "100.100.100.201")


@pytest.mark.parametrize("address", CLOSED)
def test_a_closed_address_is_refused_however_it_is_written(address: str) -> None:
    with pytest.raises(AddressRefused, match="metadata service"):
        DEFAULT_OUTBOUND.check(address)


@pytest.mark.parametrize("address", OPEN)
def test_any_other_address_is_called(address: str) -> None:
    DEFAULT_OUTBOUND.check(address)


def test_a_network_can_be_allowed() -> None:
    outbound = Outbound((ip_network("169.254.20.0/24"),))

    outbound.check("169.254.20.9")

    with pytest.raises(AddressRefused):
        outbound.check("169.254.169.254")


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254", "http://2852039166:80/latest", "http://[::ffff:a9fe:a9fe]:6820"]
)
async def test_a_url_with_a_closed_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        await DEFAULT_OUTBOUND.check_url(url)


async def test_a_url_is_refused_where_one_of_its_hosts_addresses_is_closed() -> None:
    async def resolver(host: str) -> Sequence[str]:
        assert host == "slurm.acme.example"
        return "10.0.0.1", "fd00:ec2::254"

    with pytest.raises(AddressRefused, match="fd00:ec2::254"):
        await Outbound(resolver=resolver).check_url("https://slurm.acme.example:6820/prefix")


async def test_a_host_that_is_not_known_here_is_let_through() -> None:
    async def resolver(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    await Outbound(resolver=resolver).check_url("http://slurm.tenant-acme:6820")


class _Rebinding(AbstractResolver):
    """Answers with an open address at first, and then with the closed one."""

    def __init__(self, port: int) -> None:
        self._addresses = ["127.0.0.1", "127.0.0.2"]
        self._port = port

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
        address = self._addresses.pop(0)
        return [{"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        pass


async def test_a_name_that_leads_to_a_closed_address_later_is_not_connected_to() -> None:
    asked_at: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked_at.append(writer.get_extra_info("sockname")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    outbound = Outbound(closed=(ip_network("127.0.0.2/32"),))
    async with await asyncio.start_server(answer, "0.0.0.0", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connector = aiohttp.TCPConnector(
            socket_factory=outbound.socket_of, resolver=_Rebinding(port), use_dns_cache=False, force_close=True
        )
        async with aiohttp.ClientSession(connector=connector) as http:
            async with http.get(f"http://slurm.example:{port}") as first:
                assert first.status == 200
            with pytest.raises(aiohttp.ClientConnectorError) as refused:
                await http.get(f"http://slurm.example:{port}")

    assert isinstance(refused.value.os_error, AddressRefused)
    assert asked_at == ["127.0.0.1"]
