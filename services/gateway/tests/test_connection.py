"""Requests whose Content-Type is there twice, as SchedMD's client for Go sends it."""

import asyncio
import json

import pytest
from clusterra_gateway.http.server.server import without_repeated_content_type
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

HEAD = b"POST /v1/auth/token HTTP/1.1\r\nHost: x\r\n"
SAME = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("data", "passed"),
    [
        (HEAD + SAME + SAME + b"\r\n{}", HEAD + SAME + b"\r\n{}"),
        (HEAD + SAME + b"A: b\r\n" + SAME + SAME + b"\r\n", HEAD + SAME + b"A: b\r\n\r\n"),
        (HEAD + SAME + SAME, None),
        (HEAD + SAME + b"Content-Type: text/plain\r\n\r\n", None),
        (HEAD + SAME + b"\r\n" + b"\r\n" + SAME + SAME, None),
        (HEAD + b"X-" + SAME + SAME + SAME + b"\r\n", HEAD + b"X-" + SAME + SAME + b"\r\n"),
        (b"body\r\n" + SAME + SAME + b"\r\n", None),
        (HEAD + b"A-" + SAME + b"B-" + SAME + b"\r\n", None),
    ],
)
def test_a_header_that_says_the_same_again_is_left_out(data: bytes, passed: bytes | None) -> None:
    assert without_repeated_content_type(data) == (data if passed is None else passed)


@given(
    st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b":", b"a", b"content-type:x", b"Content-Type: x"])).map(b"".join)
)
def test_all_else_is_kept(lines: bytes) -> None:
    data = HEAD + lines
    passed = without_repeated_content_type(data)

    assert without_repeated_content_type(passed) == passed
    assert passed.partition(b"\r\n\r\n")[2] == data.partition(b"\r\n\r\n")[2]
    kept = iter(data.split(b"\r\n"))
    assert all(line in kept for line in passed.split(b"\r\n"))


async def test_requests_of_one_connection_may_repeat_it_but_not_contradict(world: World) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.settings.http_port)

    async def sent(*types: str) -> int:
        lines = [f"Content-Type: {each}" for each in types]
        head = ["POST /v1/auth/token HTTP/1.1", f"Host: 127.0.0.1:{world.settings.http_port}", "Content-Length: 18"]
        writer.write("\r\n".join([*head, *lines, "", "grant_type=unknown"]).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = answer.partition("content-length: ")[2].partition("\r\n")[0]
        body = await reader.readexactly(int(length))
        assert b"unsupported_grant_type" in body or b"Duplicate" in body
        return int(b"unsupported_grant_type" in body)

    form = "application/x-www-form-urlencoded"
    async with asyncio.timeout(90):
        assert [await sent(form), await sent(form, form), await sent(form, form)] == [1, 1, 1]
        assert await sent(form, "application/json") == 0
    writer.close()


async def test_a_body_that_comes_after_the_answer_takes_nothing_of_the_next_request(world: World) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.settings.http_port)
    body = b"POST / HTTP/1.1\r\n" + SAME + SAME + b"\r\n"

    async def status() -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        return head.split()[1]

    async with asyncio.timeout(90):
        writer.write(b"POST /v1/clusters/main/runs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert await status() == b"401"
        writer.write(body)
        await asyncio.sleep(0)  # a segment of its own
        writer.write(b"GET /v1/auth/issuers HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await status() == b"200"
    writer.close()


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (f"GET /v1/problems?x={'y' * 9000} HTTP/1.1\r\nHost: x\r\n\r\n", "longer than 8190 bytes"),
        (f"GET /v1/problems HTTP/1.1\r\nHost: x\r\nX-Long: {'y' * 9000}\r\n\r\n", "longer than 8190 bytes"),
        ("GET /v1/problems HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", "400"),
    ],
)
async def test_a_head_that_cannot_be_read_is_answered_with_a_problem(world: World, head: str, told: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.settings.http_port)

    writer.write(head.encode())
    async with asyncio.timeout(90):
        answered, _, body = (await reader.read()).partition(b"\r\n\r\n")

    assert answered.split()[1] == b"400"
    assert b"application/problem+json" in answered
    problem = json.loads(body)
    assert (problem["type"], problem["status"]) == ("about:blank", 400)
    assert told in f"{problem['status']} {problem['detail']}"
    assert problem["request_id"].encode() in answered
    writer.close()
