"""Programs that others wrote sign in: OAuth clients that know the gateway's address, and nothing else of it."""

import asyncio
import re
from html import unescape

import aiohttp
import pytest
import requests
from gateway_world import World
from oauthlib.oauth2 import DeviceClient  # type: ignore[import-untyped]
from program_sign_in import CLIENT, Json, decide
from requests_oauthlib import OAuth2Session  # type: ignore[import-untyped]

BACK = "http://127.0.0.1:45123/"


@pytest.fixture(autouse=True)
def plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has oauthlib take plain HTTP, as this gateway is on loopback."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


async def endpoints(program: aiohttp.ClientSession) -> Json:
    """What the gateway says of itself as an authorization server."""
    async with program.get("/.well-known/oauth-authorization-server") as answer:
        assert answer.status == 200
        told: Json = await answer.json()
    return told


async def test_the_description_names_this_gateway(world: World) -> None:
    told = await endpoints(await world.browser())

    assert told["issuer"] == world.settings.public_url
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert told["token_endpoint_auth_methods_supported"] == ["none"]
    paths = {name: each.removeprefix(told["issuer"]) for name, each in told.items() if name.endswith("_endpoint")}
    assert paths == {
        "authorization_endpoint": "/v1/auth/authorize",
        "device_authorization_endpoint": "/v1/auth/device",
        "token_endpoint": "/v1/auth/token",
    }


async def test_an_oauth_client_signs_in_by_the_browser(world: World) -> None:
    browser = await world.login("ada@acme.example")
    told = await endpoints(browser)
    client = OAuth2Session(CLIENT, redirect_uri=BACK, scope=["profile", "jobs:read"], pkce="S256")
    address, _ = client.authorization_url(told["authorization_endpoint"], machine="ada-laptop")

    async with browser.get(address) as answer:
        page = await answer.text()
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    (action,) = re.findall(r'<form method="post" action="([^"]*)">', page)
    form = {name: unescape(value) for name, value in hidden} | {"decision": "approve"}
    async with browser.post(action, data=form, allow_redirects=False) as answer:
        back = answer.headers["Location"]
    await asyncio.to_thread(
        client.fetch_token, told["token_endpoint"], authorization_response=back, include_client_id=True
    )

    profile = await asyncio.to_thread(client.get, f"{world.url}/v1/users/me")
    assert profile.json()["email"] == "ada@acme.example"


async def test_an_oauth_client_signs_in_with_the_device_flow(world: World) -> None:
    browser = await world.login("ada@acme.example")
    told = await endpoints(browser)
    client = OAuth2Session(client=DeviceClient(CLIENT, scope=["profile"]))
    asked = {"client_id": CLIENT, "scope": "profile"}
    begun = (await asyncio.to_thread(requests.post, told["device_authorization_endpoint"], data=asked)).json()

    def poll() -> None:
        client.fetch_token(told["token_endpoint"], device_code=begun["device_code"], include_client_id=True)

    with pytest.raises(Exception, match="authorization_pending"):
        await asyncio.to_thread(poll)
    assert (await decide(browser, begun["user_code"], "approve"))[0] == 200
    await asyncio.to_thread(poll)

    profile = await asyncio.to_thread(client.get, f"{world.url}/v1/users/me")
    assert profile.json()["email"] == "ada@acme.example"
