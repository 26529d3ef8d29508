"""Pages of a console at an origin of its own use the API with the session cookie; pages of all others do not."""

from collections.abc import AsyncIterator

import pytest
from clusterra_gateway.identity.access.private_route import PrivateRoute
from clusterra_gateway.settings import Settings
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from pydantic import ValidationError
from route_table import example_path, route_table
from yarl import URL

CONSOLE = "https://console.example"
FOREIGN = "https://console.example.evil.example"
ALLOW = "Access-Control-Allow-Origin"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture
async def world(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    async with running(settings.model_copy(update={"console_origins": (CONSOLE,)}), issuer) as world:
        yield world


async def test_a_page_of_the_console_reads_and_changes(world: World) -> None:
    browser = await world.login("ada@acme.example")
    origin = {"Origin": CONSOLE, "Sec-Fetch-Site": "same-site"}

    async with browser.get("/v1/users/me", headers=origin) as answer:
        assert answer.status == 200
        assert (answer.headers[ALLOW], answer.headers["Access-Control-Allow-Credentials"]) == (CONSOLE, "true")
        assert "Origin" in ",".join(answer.headers.getall("Vary"))
    async with browser.post("/v1/users/me/tokens", json={"name": "console"}, headers=origin) as answer:
        assert answer.status == 201
        assert answer.headers[ALLOW] == CONSOLE
    async with browser.get("/v1/clusters/none", headers=origin) as answer:
        assert (answer.status, answer.headers[ALLOW]) == (404, CONSOLE)


@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://console.example", "https://console.example:8443", "*"])
async def test_a_page_of_another_origin_does_neither(world: World, origin: str) -> None:
    browser = await world.login("ada@acme.example")
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}

    async with browser.get("/v1/users/me", headers=headers) as answer:
        assert ALLOW not in answer.headers
    async with browser.post("/v1/users/me/tokens", json={"name": "x"}, headers=headers) as answer:
        assert answer.status == 403
        assert ALLOW not in answer.headers
    question = headers | {"Access-Control-Request-Method": "PATCH"}
    async with browser.options("/v1/users/me", headers=question) as answer:
        assert answer.status == 405
        assert ALLOW not in answer.headers


async def test_a_browser_asks_before_it_sends(world: World) -> None:
    browser = await world.browser()
    question = {"Origin": CONSOLE, "Access-Control-Request-Method": "PATCH"}

    async with browser.options("/v1/clusters/main", headers=question) as answer:
        assert answer.status == 204
        assert answer.headers[ALLOW] == CONSOLE
        assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
        assert "Idempotency-Key" in answer.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize(
    ("return_to", "status"),
    [(f"{CONSOLE}/jobs?page=2", 302), (f"{FOREIGN}/", 400), (f"{CONSOLE}@evil.example/", 400), (CONSOLE, 400)],
)
async def test_a_login_returns_to_the_console_alone(world: World, return_to: str, status: int) -> None:
    browser = await world.browser()

    async with browser.get(URL("/v1/auth/login").with_query(return_to=return_to), allow_redirects=False) as answer:
        assert answer.status == status, await answer.text()


@pytest.mark.parametrize(
    ("headers", "opens"),
    [
        ({"Origin": FOREIGN}, False),
        ({"Origin": "null"}, False),
        ({"Origin": FOREIGN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "websocket"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": CONSOLE, "Sec-Fetch-Site": "same-site"}, True),
        ({}, True),
    ],
)
async def test_a_web_socket_with_a_cookie_opens_for_pages_of_our_origins_alone(
    world: World, headers: dict[str, str], opens: bool
) -> None:
    """No route has WebSockets yet: the check comes before each handler of a GET."""
    world.acme.add_job("7")
    browser = await world.login("boss@acme.example")
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
    }
    routes = [route for route in route_table() if isinstance(route, PrivateRoute) and route.method == "GET"]
    assert len(routes) > 30

    for route in routes:
        async with browser.get(example_path(route), headers=handshake | headers) as answer:
            refused = answer.status == 403 and "a page of another site" in await answer.text()
            assert refused != opens, route.name


async def test_a_web_socket_with_a_bearer_token_needs_no_origin(world: World) -> None:
    browser, program = await world.login("ada@acme.example"), await world.browser()
    async with browser.post("/v1/users/me/tokens", json={"name": "ci"}) as answer:
        bearer = {"Authorization": f"Bearer {(await answer.json())['token']}"}

    handshake = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": FOREIGN}
    async with program.get("/v1/users/me", headers=handshake | bearer) as answer:
        assert answer.status == 200


async def test_without_consoles_nobody_is_allowed(settings: Settings, issuer: IssuerStandIn) -> None:
    async with running(settings, issuer) as world:
        browser = await world.login("ada@acme.example")
        async with browser.get("/v1/users/me", headers={"Origin": CONSOLE}) as answer:
            assert (answer.status, ALLOW in answer.headers) == (200, False)


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "http://console.example", f"{CONSOLE}/", f"{CONSOLE}/x", "https://A.example", "https://u@a.example"],
)
def test_only_origins_are_accepted_as_consoles(origin: str) -> None:
    with pytest.raises(ValidationError, match="console_origins"):
        Settings(oidc_issuer="https://issuer.example", oidc_client_id="clusterra", console_origins=(origin,))
