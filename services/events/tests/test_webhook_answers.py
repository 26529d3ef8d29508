"""Receivers that send without an end, and names with very many addresses: neither takes much of the service."""

import asyncio
import socket
from collections import Counter
from typing import Any

import pytest
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.posting.bounded_answer import MAX_BYTES, MAX_HEAD_BYTES
from clusterra_events.webhooks.posting.resolving import MOST_ADDRESSES, OwnThreads

from .test_webhook_urls import attempt
from .webhook_world import GUARD_SECONDS, LOOPBACK

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "endless", "status"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", None),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (CHUNKED, b"1" + b";x" * 1000, 200),
    ],
)
async def test_an_answer_without_an_end_is_left_soon(begin: bytes, endless: bytes, status: int | None) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(begin)
        part = endless * (10_000 // len(endless) + 1)
        try:
            while True:
                writer.write(part)
                await writer.drain()
        except OSError:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with FormatSender(LOOPBACK, seconds=GUARD_SECONDS) as sender:
            found = await attempt(sender, f"http://127.0.0.1:{port}/")

    assert found.status == status
    assert found.problem == ("the answer is not HTTP" if status is None else "")


async def test_a_body_that_is_longer_than_what_is_read_is_an_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nX: " + b"y" * 8000
        writer.write(head + f"\r\nContent-Length: {2 * MAX_BYTES}\r\n\r\n".encode() + bytes(2 * MAX_BYTES))
        writer.close()

    assert MAX_HEAD_BYTES > 9000
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with FormatSender(LOOPBACK, seconds=GUARD_SECONDS) as sender:
            found = await attempt(sender, f"http://127.0.0.1:{port}/")

    assert found.delivered
    assert found.status == 200


async def test_of_a_name_with_thousands_of_addresses_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        kind = (socket.SOCK_STREAM, 6, "")
        old = [(socket.AF_INET, *kind, (f"127.0.{of}.{each}", port)) for of in range(8) for each in range(250)]
        return [(socket.AF_INET6, *kind, (f"2606::{each}", port, 0, 0)) for each in range(1, 1000)] + old

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    resolver = OwnThreads(1)
    try:
        found = await resolver.resolve("many.example", 443)
    finally:
        await resolver.close()

    assert Counter(each["family"] for each in found) == {
        socket.AF_INET6: MOST_ADDRESSES,
        socket.AF_INET: MOST_ADDRESSES,
    }
