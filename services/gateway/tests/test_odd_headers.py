"""Headers whose bytes are no text: they are errors of the client, never of the gateway."""

import asyncio

import pytest
from gateway_world import World
from yarl import URL

ODD = b"\xc8N\xb6\xfc#\x9b"
TOKENS = (
    ODD,
    b"clusterra_" + ODD + b"_x_y",
    b"clusterra_x_y_" + ODD,
    b"clusterra-operator_" + ODD,
    b".".join((ODD, ODD, ODD)),
    b"eyJhbGciOiJSUzI1NiIsImtpZCI6InMifQ.e30." + ODD,
)
ROUTES = ("GET /v1/auth/me", "POST /v1/clusters/main/runs", "GET /v1/tenants", "POST /v1/internal/agent/heartbeat")


async def status_of(world: World, route: str, header: bytes) -> int:
    url = URL(world.url)
    method, path = route.split(" ")
    reader, writer = await asyncio.open_connection(url.host, url.port)
    lines = (f"{method} {path} HTTP/1.1".encode(), b"Host: x", header, b"Content-Length: 2", b"Connection: close")
    writer.write(b"\r\n".join(lines) + b"\r\n\r\n{}")
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize("route", [*ROUTES, "GET /v1/tenants/acme/scim/v2/Users"])
async def test_a_credential_that_is_no_text_is_refused(world: World, route: str) -> None:
    statuses = [await status_of(world, route, b"Authorization: Bearer " + token) for token in TOKENS]

    assert set(statuses) <= {400, 401, 404}


@pytest.mark.parametrize(
    "header", [b"Cookie: session=", b"Idempotency-Key: ", b"User-Agent: ", b"Origin: ", b"Accept: ", b"traceparent: "]
)
async def test_another_header_that_is_no_text_is_no_error_of_the_gateway(world: World, header: bytes) -> None:
    statuses = [await status_of(world, route, header + ODD) for route in ROUTES]

    assert max(statuses) < 500
