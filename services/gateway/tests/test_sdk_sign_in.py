"""The SDK signs programs in at a real gateway: by the browser of the machine, and by the device flow."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra import Client, SignInNeeded
from clusterra.credentials import store
from clusterra.sign_in.flows import DevicePrompt, SignedIn, SignInFailed, Wanted, device, loopback
from gateway_world import World
from program_sign_in import decide
from test_loopback import asked as opened
from test_loopback import decide as answered
from yarl import URL


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "own" / "config.toml"))
    for name in ("CLUSTERRA_URL", "CLUSTERRA_TOKEN", "CLUSTERRA_CLUSTER"):
        monkeypatch.delenv(name, raising=False)


def in_browser(decision: str, browser: aiohttp.ClientSession) -> tuple[Callable[[str], None], list[Future[Any]]]:
    """What opens an address: Ada's browser, in which she decides."""
    loop, visits = asyncio.get_running_loop(), list[Future[Any]]()

    async def visit(address: str) -> int:
        _, _, form = await opened(browser, dict(URL(address).query))
        led_to = await answered(browser, form, decision)
        async with aiohttp.ClientSession() as http, http.get(led_to) as answer:  # type: ignore[arg-type]  # it is a URL
            return answer.status

    def open_browser(address: str) -> None:
        visits.append(asyncio.run_coroutine_threadsafe(visit(address), loop))

    return open_browser, visits


async def test_a_program_is_signed_in_by_the_browser_of_its_machine(world: World) -> None:
    browser = await world.login("ada@acme.example")
    open_browser, visits = in_browser("approve", browser)
    wanted = Wanted("ada-laptop", ("profile", "clusters:read"), 3600)

    signed_in: SignedIn = await asyncio.to_thread(loopback, world.url, open_browser, wanted=wanted, timeout=90)

    assert await asyncio.wrap_future(visits[0]) == 200
    assert set(signed_in.scope.split()) == {"profile", "clusters:read"}
    store(world.url, signed_in.token)
    with Client(world.url) as client:
        me = await asyncio.to_thread(client.me)
        assert me.email == "ada@acme.example"
        (token,) = await asyncio.to_thread(client.tokens)
        assert token.name == "ada-laptop"
        await asyncio.to_thread(client.revoke_token, token.id)
        with pytest.raises(SignInNeeded):
            await asyncio.to_thread(_until_revoked, client)


def _until_revoked(client: Client) -> None:
    """Asks until the revocation has come to the gateway, which takes a second."""
    for _ in range(600):
        client.clusters()


async def test_a_program_that_the_person_denies_gets_no_token(world: World) -> None:
    open_browser, visits = in_browser("deny", await world.login("ada@acme.example"))

    with pytest.raises(SignInFailed) as failed:
        await asyncio.to_thread(loopback, world.url, open_browser, timeout=90)

    assert failed.value.code == "access_denied"
    assert await asyncio.wrap_future(visits[0]) == 200


async def test_a_device_is_signed_in_by_a_browser_elsewhere(world: World) -> None:
    browser, loop = await world.login("ada@acme.example"), asyncio.get_running_loop()
    visits: list[Future[tuple[int, str]]] = []

    def show(prompt: DevicePrompt) -> None:
        assert prompt.verification_uri.startswith(world.url)
        visits.append(asyncio.run_coroutine_threadsafe(decide(browser, prompt.user_code, "approve"), loop))

    signed_in = await asyncio.to_thread(device, world.url, show, wanted=Wanted("login-7"))

    assert (await asyncio.wrap_future(visits[0]))[0] == 200
    with Client(world.url, signed_in.token) as client:
        assert (await asyncio.to_thread(client.me)).tenant.id == "acme"
