"""Hostile addresses of webhooks: none of them is connected to, whatever form they have and whatever a resolver says."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from certificate import write_certificate
from clusterra_contracts.events import NodeFact, event_of
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_events.webhooks.formats import FormatSender
from clusterra_lab.machine.process import until
from clusterra_runtime.outbound import AddressRefused
from clusterra_runtime.user_url import UrlRefused, outbound_of, user_url

from .webhook_world import GUARD_SECONDS, LOOPBACK, REF, receiver, webhook_at

CLOSED_V4 = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("127.0.0.1", "127.1.2.3", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
    *("192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255"),
)
CLOSED_V6 = (
    *("::", "::1", "0:0:0:0:0:0:0:1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:a9fe:a9fe"),
    *("::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1"),
    *("2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1"),
    *("3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "febf::1"),
    *("fec0::1", "ff02::1", "ff0e::1"),
)
NOT_CANONICAL = (
    *("2130706433", "0x7f000001", "0x7f.1", "0x7f.0x0.0x0.0x1", "0177.0.0.1", "017700000001", "127.1", "127.0.1"),
    *("0300.0250.0.1", "3232235521", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0", "00"),
    *("0x0", "127.0.0.1.", "127.0.0.1..", "1.2.3.4.5", "256.256.256.256", "4294967296", "8.8.8.8.", "134744072"),
    *("0x08080808", "010.8.8.8", "hooks.example.com.1", "example.0x7f"),
)
SCHEMES = (
    *(
        "http",
        "ftp",
        "ftps",
        "file",
        "gopher",
        "dict",
        "ldap",
        "ldaps",
        "data",
        "javascript",
        "ws",
        "wss",
        "ssh",
        "jar",
    ),
    *("unix", "redis", "smtp", "tftp", "netdoc", "h2c", "https+unix", "view-source", "about", "blob"),
)
PORTS = (
    *(0, 7, 19, 21, 22, 23, 25, 53, 69, 110, 111, 119, 123, 135, 139, 143, 161, 179, 389, 445, 465, 514, 587, 636, 873),
    *(993, 995, 1433, 1521, 2049, 2379, 3306, 3389, 4222, 5432, 5672, 5900, 6379, 6667, 9042, 9092, 11211, 27017),
    *(65536, 99999),
)
TEXTS = (
    "",
    "https://",
    "https:///path",
    "https:hooks.example.com",
    "https:/hooks.example.com",
    "//hooks.example.com/",
    "hooks.example.com/",
    "https://user@hooks.example.com/",
    "https://user:password@hooks.example.com/",
    "https://:password@hooks.example.com/",
    "https://@hooks.example.com/",
    "https://hooks.example.com@127.0.0.1/",
    "https://127.0.0.1@hooks.example.com/",
    "https://hooks.example.com:443@127.0.0.1:443/",
    "https://hooks.example.com%40127.0.0.1/",
    "https://hooks.example.com\\@127.0.0.1/",
    "https:\\\\127.0.0.1/",
    "https://127.0.0.1\\.example.com/",
    "https://hooks.example.com#@127.0.0.1/",
    "https://hooks.example.com/#fragment",
    "https://hooks.example.com?@127.0.0.1:x@/#",
    "https://%31%32%37.0.0.1/",
    "https://127%2e0%2e0%2e1/",
    "https://127.0.0.1%00.example.com/",
    "https://127.0.0.1%0a.example.com/",
    "https://１２７.０.０.１/",
    "https://127。0。0。1/",
    "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "https://exam\u200bple.com/",
    "https://bücher.example/",
    "https://hooks.example.com/ü",
    "https://hooks.example.com/a b",
    "https://hooks.example.com/\r\nHost: evil",
    "https://hooks.example.com/\n",
    "\nhttps://hooks.example.com/",
    "https://hooks.example.com\t/",
    "https://hooks.example.com/\x00",
    "https://hooks.example.com:/\x7f",
    "https://hooks.example.com:abc/",
    "https://hooks.example.com:-1/",
    "https://hooks.example.com:443:443/",
    "https://hooks.example.com: 443/",
    "https://[::1/",
    "https://::1]/",
    "https://::1/",
    "https://[::1]x/",
    "https://[v1.fe80]/",
    "https://[fe80::1%25eth0]/",
    "https://[::ffff:127.0.0.1%lo]/",
    "https://[127.0.0.1]/",
    "https://[]/",
    "https://.example.com/",
    "https://example..com/",
    "https://-example.com/",
    "https://example-.com/",
    "https://exa_mple.c_m/",
    "https://*.example.com/",
    f"https://{'a' * 64}.example.com/",
    f"https://{'a.' * 130}com/",
    f"https://hooks.example.com/{'a' * 2000}",
    'https://hooks.example.com/"',
    "https://hooks.example.com/<script>",
)
HOSTILE = (
    *(f"https://{address}/" for address in CLOSED_V4),
    *(f"https://[{address}]/" for address in CLOSED_V6),
    *(f"https://{host}/" for host in NOT_CANONICAL),
    *(f"{scheme}://hooks.example.com/" for scheme in SCHEMES),
    *(f"https://hooks.example.com:{port}/" for port in PORTS),
    *TEXTS,
)
PUBLIC = "93.184.215.14"
"""Never connected to: the socket is counted, and is none."""


class Answers(AbstractResolver):
    """A resolver that says what a test wants. The last answer is repeated."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self._answers = list(answers)
        self.asked = list[str]()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass


class NoSocket(OSError):
    """A socket would have been made."""


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The addresses for which sockets would have been made; none of them is."""
    made = list[str]()
    connector = aiohttp.TCPConnector

    def counting(**options: Any) -> aiohttp.TCPConnector:
        checked = options["socket_factory"]

        def make(info: tuple[Any, ...]) -> socket.socket:
            checked(info).close()
            made.append(str(info[4][0]))
            raise NoSocket

        return connector(**{**options, "socket_factory": make})

    monkeypatch.setattr(aiohttp, "TCPConnector", counting)
    yield made
    monkeypatch.undo()


EVENT = event_of("proxy", REF, NodeFact(kind="node.down", node="n1"), version="1", time=now())


async def attempt(sender: FormatSender, url: str) -> Attempt:
    return await sender.send(webhook_at("https://x/").model_copy(update={"url": url}), REF, EVENT)


def test_there_are_many_of_each_kind() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 200


async def test_no_hostile_url_is_connected_to(sockets: list[str]) -> None:
    outside = Answers((PUBLIC,))
    async with FormatSender(resolver=outside) as sender:
        for url in HOSTILE:
            found = await attempt(sender, url)

            assert not found.delivered, url
            assert found.status is None, url
            assert found.problem not in ("", "no connection to the receiver"), url
            assert "password" not in found.problem.replace("no password", ""), url

    assert sockets == []
    assert outside.asked == []


async def test_no_hostile_url_is_accepted_when_it_is_given() -> None:
    async def resolver(host: str) -> list[str]:
        return [host] if host.replace(".", "").isdecimal() or ":" in host else [PUBLIC]

    for url in HOSTILE:
        with pytest.raises((UrlRefused, AddressRefused)):
            await outbound_of(user_url(url).scheme, (), resolver).check_url(url)


@pytest.mark.parametrize("address", [*CLOSED_V4, *CLOSED_V6])
async def test_a_name_that_leads_to_a_closed_address_is_not_connected_to(address: str, sockets: list[str]) -> None:
    async with FormatSender(resolver=Answers((address,))) as sender:
        found = await attempt(sender, "https://hooks.example.com/")

    assert found.problem == "the address is not a public one"
    assert sockets == []


async def test_a_name_that_leads_elsewhere_by_the_time_of_the_connection_is_not_connected_to(
    sockets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the check of the URL sees a public address, and the connection another one."""
    rebinding = Answers((PUBLIC,), ("127.0.0.1",), ("::1", "10.0.0.1"), ("169.254.169.254",))

    async def resolver(host: str) -> list[str]:
        return [each["host"] for each in await rebinding.resolve(host)]

    await outbound_of("https", (), resolver).check_url("https://hooks.example.com/")
    async with FormatSender(resolver=rebinding) as sender:
        for session in sender._poster._sessions.values():
            monkeypatch.setattr(session.connector, "_use_dns_cache", False)
        for _ in range(3):
            found = await attempt(sender, "https://hooks.example.com/")
            assert found.problem == "the address is not a public one"

    assert sockets == []


async def test_of_several_addresses_only_public_ones_are_connected_to(sockets: list[str]) -> None:
    async with FormatSender(resolver=Answers(("10.0.0.1", PUBLIC, "::1"))) as sender:
        await attempt(sender, "https://hooks.example.com/")

    assert set(sockets) == {PUBLIC}


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://hooks.example.com", 443),
        ("HTTPS://Hooks.Example.COM:8443/a/../b;c?d=[e]&f=%20", 8443),
        ("https://xn--bcher-kva.example./", 443),
        ("https://8.8.8.8/x", 443),
        ("https://[2606:4700::1111]:443/", 443),
        ("https://a_b.example.com:65535/", 65535),
    ],
)
async def test_a_usual_url_is_connected_to(url: str, port: int, sockets: list[str]) -> None:
    assert user_url(url).port == port
    assert "/" in user_url(url).text.removeprefix("https://")
    async with FormatSender(resolver=Answers((PUBLIC,))) as sender:
        found = await attempt(sender, url)

    assert found.problem == "no connection to the receiver"
    assert len(sockets) >= 1


async def test_plain_http_goes_to_allowed_networks_alone(sockets: list[str]) -> None:
    async with FormatSender(LOOPBACK, resolver=Answers((PUBLIC,), ("127.0.0.1",))) as sender:
        refused = await attempt(sender, "http://hooks.example.com/")

    assert refused.problem == "the address may only be called by https"
    assert sockets == []


async def test_proxies_and_passwords_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    async with receiver() as proxy, receiver() as hook:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password secret\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        async with FormatSender(LOOPBACK) as sender:
            found = await attempt(sender, hook.url)

        assert found.delivered
        assert (hook.begun, proxy.begun) == (1, 0)
        assert "authorization" not in hook.taken[0].headers


@pytest.mark.parametrize("valid_for", [timedelta(days=1), timedelta(days=-1)])
async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(valid_for: timedelta, tmp_path: Path) -> None:
    write_certificate(tmp_path / "server.pem", valid_for)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")
    asked = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1000))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        async with FormatSender(LOOPBACK) as sender:
            found = await attempt(sender, f"https://127.0.0.1:{port}/")

    assert found.problem == "the certificate of the receiver is not valid"
    assert b"".join(asked) == b""


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "the connection ended before the answer"),
        (b"the-answer\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: the-answer\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: the-answer" * 10_000 + b"\r\n\r\n", "the answer is not HTTP"),
        (None, "no answer within 0.5 s"),
    ],
)
async def test_what_is_no_answer_is_told_in_our_words(answer: bytes | None, problem: str) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await ended.wait()
        writer.write(answer or b"")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with FormatSender(LOOPBACK, seconds=0.5) as sender:
            found = await attempt(sender, f"http://127.0.0.1:{port}/")
        ended.set()

    assert (found.delivered, found.status, found.problem) == (False, None, problem)


async def test_names_that_nobody_answers_for_delay_neither_others_nor_the_rest_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are more look-ups that hang than asyncio has threads for all."""
    hang, real = threading.Event(), socket.getaddrinfo
    hanging = list[str]()

    def look_up(host: str, *rest: Any, **options: Any) -> Any:
        if not host.startswith("silent"):
            return real(host, *rest, **options)
        hanging.append(host)
        hang.wait(GUARD_SECONDS)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with receiver() as hook, FormatSender(LOOPBACK, seconds=60) as sender:
        silent = [asyncio.create_task(attempt(sender, f"https://silent{number}.example/")) for number in range(40)]
        try:
            await until(lambda: len(hanging) == 40, seconds=GUARD_SECONDS, what="look-ups that hang")
            found = await attempt(sender, hook.url.replace("127.0.0.1", "localhost"))
            await asyncio.wait_for(asyncio.to_thread(lambda: None), GUARD_SECONDS)
        finally:
            hang.set()
        others = await asyncio.gather(*silent)

    assert found.delivered
    assert {each.problem for each in others} == {"the host has no address"}
