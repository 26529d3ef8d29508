"""What programs and their people do to sign in a program."""

import re
from html import unescape
from typing import Any

import aiohttp

CLIENT = "clusterra-cli"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"

type Json = dict[str, Any]


async def begin(program: aiohttp.ClientSession, **fields: str) -> Json:
    """Begins a device flow."""
    async with program.post("/v1/auth/device", data={"client_id": CLIENT, "machine": "login-7", **fields}) as answer:
        begun: Json = await answer.json()
        assert answer.status == 200, begun
        return begun


async def poll(program: aiohttp.ClientSession, device_code: str, **fields: str) -> tuple[int, Json]:
    """Asks for the token of a device flow."""
    asked = {"client_id": CLIENT, "grant_type": GRANT, "device_code": device_code, **fields}
    async with program.post("/v1/auth/device/token", data=asked) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.status, await answer.json()


async def decide(browser: aiohttp.ClientSession, user_code: str, decision: str, **headers: str) -> tuple[int, str]:
    """Enters a user code with a decision. Returns the status and the text of the page."""
    form = {"user_code": user_code, "decision": decision}
    async with browser.post("/v1/auth/device/consent", data=form, headers=headers) as answer:
        return answer.status, text_of(await answer.text())


def text_of(page: str) -> str:
    """What a person reads on a page."""
    return unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2]))
