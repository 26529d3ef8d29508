"""Programs: one is signed in by its code from the console, and revoked on the page of one's own tokens."""

import re
from functools import partial

from aiohttp import ClientSession
from clusterra_lab.machine.process import until
from clusterra_lab.parts.api_errors import UnavailableError
from clusterra_lab.parts.patience import patiently
from clusterra_lab.stack.stack import Stack

from browser.accessibility import violations
from browser.conftest import Person
from browser.playwright_api import expect

CLIENT = "clusterra-cli"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


async def redeemed(program: ClientSession, device_code: str) -> str:
    """The token of a sign-in that was approved. A program that asks too soon is told to slow down."""
    asked = {"grant_type": DEVICE_CODE, "device_code": device_code, "client_id": CLIENT}

    async def ask() -> str:
        async with program.post("/v1/auth/token", data=asked) as answer:
            told = await answer.json()
        if told.get("error") == "slow_down":
            raise UnavailableError(told["error_description"])
        return str(told["access_token"])

    return await patiently(ask)


async def status(program: ClientSession, token: str) -> int:
    async with program.get("/v1/users/me", headers={"Authorization": f"Bearer {token}"}) as answer:
        return answer.status


async def is_noted(program: ClientSession, token: str) -> bool:
    async with program.get("/v1/users/me/tokens", headers={"Authorization": f"Bearer {token}"}) as answer:
        return all(each["last_used_at"] for each in (await answer.json())["tokens"])


async def test_a_program_is_signed_in_by_its_code_until_it_is_revoked(lab: Stack, person: Person) -> None:
    page = (await person("grace")).page
    machine = "login-node (rack 4)"
    async with ClientSession(lab.gateway_url) as program:
        begun = {"client_id": CLIENT, "machine": machine, "scope": "profile"}
        async with program.post("/v1/auth/device", data=begun) as answer:
            flow = await answer.json()

        await page.goto("/c/main/jobs")
        await page.get_by_role("button", name=", account").click()
        await page.get_by_role("menuitem", name="Enter a device code").click()
        assert await violations(page) == []
        await page.get_by_label("Code").fill(flow["user_code"].lower())
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_text(machine)).to_be_visible()
        assert await violations(page) == []
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("heading", name="Approved")).to_be_visible()
        token = await redeemed(program, flow["device_code"])
        assert await status(program, token) == 200

        await until(partial(is_noted, program, token), seconds=90, what="the use of the token to be noted")
        await page.goto("/c/main/tokens")
        await expect(page.get_by_role("row", name=machine)).to_contain_text(re.compile("in the last hour|1 hour ago"))
        await page.get_by_role("button", name=f"Actions for {machine}").click()
        await page.get_by_role("menuitem", name="Revoke token").click()
        await page.get_by_role("dialog").get_by_role("button", name="Revoke token").click()
        await expect(page.get_by_role("cell", name=machine)).to_have_count(0)
        assert await status(program, token) == 401
