"""Interactive sessions through everything: Jupyter as a job of real Slurm, its page and its kernels for its owner."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from chromium import in_chromium
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from gates import closed_gate
from jupyter_site import idle_cull, installed_jupyter, kernel
from session_client import asked, entered, place, state, until_ready


@dataclass(frozen=True)
class Page:
    """A session that is ready, and a browser in which its owner has opened it."""

    browser: ClientSession
    url: str
    job_id: str


@pytest.fixture(scope="module")
async def owner(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("ada@acme.example") as user:
        yield user


@pytest.fixture(scope="module")
async def page(lab: Stack, owner: User) -> AsyncIterator[Page]:
    """A session with Jupyter."""
    environment = await installed_jupyter(lab)
    params = {"environment": environment, "cpus": 1, "memory_gib": 1, "hours": 1}
    started = await asked(owner, "POST", place(owner), {"template_id": "jupyter", "params": params}, status=201)
    job_id = started["job_id"]

    await until_ready(owner, job_id)
    async with ClientSession() as browser:
        yield Page(browser, await entered(owner, browser, job_id), job_id)
    await owner.cancel(job_id)


async def started_kernel(page: Page) -> str:
    async with page.browser.post(f"{page.url}api/kernels", json={"name": "python3"}) as answer:
        assert answer.status == 201, await answer.text()
        return str((await answer.json())["id"])


async def test_a_session_whose_server_is_missing_says_how_its_job_ended(owner: User) -> None:
    started = await asked(owner, "POST", place(owner), {"template_id": "jupyter"}, status=201)

    async def has_ended() -> bool:
        return bool((await state(owner, started["job_id"]))["state"] == "ended")

    await until(has_ended, seconds=60, what="the end of the session", every=0.2)
    ended = await state(owner, started["job_id"])
    refused = await asked(owner, "POST", place(owner, started["job_id"], "ticket"), status=409)

    assert ended["detail"] == "its job has ended (FAILED, exit code 127); the job's output may say why"
    assert ended["detail"] in refused["detail"]


async def test_its_owner_sees_the_page(page: Page) -> None:
    async with page.browser.get(page.url) as answer:
        text = await answer.text()

    assert answer.status == 200, text
    assert "jupyter-config-data" in text


async def test_a_kernel_runs_what_is_sent_over_the_web_socket(page: Page) -> None:
    async with kernel(page.browser, page.url, await started_kernel(page)) as running:
        assert await running.run("1 + 1") == "2"


async def test_a_kernel_survives_a_restart_of_the_gateway(lab: Stack, page: Page) -> None:
    kernel_id = await started_kernel(page)
    async with kernel(page.browser, page.url, kernel_id) as running:
        await running.run("answer = 42")

    await lab.restart("gateway")

    async with kernel(page.browser, page.url, kernel_id) as running:
        assert await running.run("answer") == "42"


async def test_large_files_go_both_ways(page: Page) -> None:
    content = "0123456789abcdef" * 512 * 1024
    model = json.dumps({"type": "file", "format": "text", "content": content}).encode()
    headers = {"Content-Type": "application/json"}

    async with page.browser.put(f"{page.url}api/contents/large.txt", data=BytesIO(model), headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    async with page.browser.get(f"{page.url}files/large.txt") as answer:
        read = await answer.text()

    assert read == content


async def test_a_real_browser_works_in_the_notebook(lab: Stack, owner: User, page: Page, tmp_path: Path) -> None:
    """From the page on the API's origin, in a browser in which the owner has signed in."""
    cookies = {each.key: each.value for each in owner.session.cookie_jar}

    address = f"{lab.gateway_url}{place(owner, page.job_id, 'open')}"
    told = await in_chromium("jupyter_page.py", address, cookies, tmp_path)

    assert told == "42"


async def test_another_user_gets_404(lab: Stack, page: Page) -> None:
    async with lab.user("grace@acme.example") as grace, ClientSession() as browser:
        for method, action in (("GET", ""), ("DELETE", ""), ("POST", "ticket")):
            await asked(grace, method, place(grace, page.job_id, action), status=404)
        listed = await asked(grace, "GET", place(grace))
        async with browser.get(page.url) as answer:
            assert answer.status == 404

    assert page.job_id not in [each["job_id"] for each in listed["sessions"]]


async def test_another_tenant_gets_404(lab: Stack, page: Page) -> None:
    async with lab.user("eve@globex.example") as eve:
        await asked(eve, "GET", place(eve, page.job_id), status=404)
        await asked(eve, "POST", place(eve, page.job_id, "ticket"), status=404)


async def test_a_ticket_is_good_for_one_browser(owner: User, page: Page) -> None:
    ticket = await asked(owner, "POST", place(owner, page.job_id, "ticket"), status=201)

    form = {"ticket": ticket["ticket"]}
    async with ClientSession() as first, ClientSession() as second:
        async with first.post(ticket["url"], data=form, allow_redirects=False) as answer:
            assert answer.status == 303
        async with second.post(ticket["url"], data=form, allow_redirects=False) as answer:
            assert answer.status == 404


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "none"}])
async def test_only_our_own_pages_lead_into_a_session(owner: User, page: Page, headers: dict[str, str]) -> None:
    """Otherwise somebody could lead another person's browser into a session of their own."""
    ticket = await asked(owner, "POST", place(owner, page.job_id, "ticket"), status=201)

    async with (
        ClientSession() as browser,
        browser.post(ticket["url"], data={"ticket": ticket["ticket"]}, headers=headers) as answer,
    ):
        assert answer.status == 403


async def test_signing_out_ends_the_page_and_its_web_sockets(lab: Stack, page: Page) -> None:
    kernel_id = await started_kernel(page)

    async with lab.user("ada@acme.example") as again, ClientSession() as browser:
        url = await entered(again, browser, page.job_id)
        async with kernel(browser, url, kernel_id) as running:
            await running.run("1")
            async with again.session.post("/v1/auth/logout") as answer:
                assert answer.status < 400, await answer.text()

            # Sooner than the next look is due.
            async with asyncio.timeout(5):
                while (await running.socket.receive()).type not in (WSMsgType.CLOSED, WSMsgType.ERROR):
                    pass
        async with browser.get(url) as answer:
            assert answer.status == 404


async def test_a_bearer_of_the_gateway_goes_no_further(page: Page) -> None:
    async with page.browser.get(
        f"{page.url}api/status", headers={"Authorization": "Bearer clusterra_secret"}
    ) as answer:
        # With it in place of the session's token, Jupyter would answer 403.
        assert answer.status == 200


async def test_a_page_of_another_site_opens_no_web_socket(page: Page) -> None:
    kernel_id = await started_kernel(page)

    with pytest.raises(WSServerHandshakeError) as refused:
        await page.browser.ws_connect(
            f"{page.url}api/kernels/{kernel_id}/channels", headers={"Origin": "https://evil.example"}
        )

    assert refused.value.status == 403


async def test_a_template_that_is_no_session_is_refused(owner: User) -> None:
    body = {"template_id": "shell", "params": {"commands": "true"}}

    refused = await asked(owner, "POST", place(owner), body, status=400)

    assert "no interactive template" in refused["detail"]


async def test_a_session_says_once_that_it_is_ready(
    lab: Stack, owner: User, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)

    async def told() -> list[str]:
        return [each.kind for each in await owner.history("session.*") if each.subject == page.job_id]

    async with idle_cull(lab, minute_seconds=60) as culling:
        for _ in range(2):  # beside the lab's own gateway, which looks too
            await culling.sweeper().once()

    await until(told, seconds=60, what="the event in the history", every=0.2)
    assert await told() == ["session.ready"]


async def test_an_idle_session_is_warned_and_cancelled_and_a_busy_one_is_not(
    lab: Stack, owner: User, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this file: the session ends. Its 60 minutes are 1.2 seconds here."""
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    gate = closed_gate(lab)
    async with kernel(page.browser, page.url, await started_kernel(page)) as running:
        await running.begin(f"import os, time\nwhile not os.path.exists({gate.path!r}): time.sleep(0.1)")
        await running.socket.receive_json()
    began = time.monotonic()

    async with idle_cull(lab, minute_seconds=0.02) as culling:
        while time.monotonic() - began < 2.4:
            await culling.sweeper().once()
            assert (await state(owner, page.job_id))["state"] == "ready"
        gate.open()

        async def has_ended() -> bool:
            await culling.sweeper().once()
            return bool((await state(owner, page.job_id))["state"] == "ended")

        await until(has_ended, seconds=60, what="the end of the idle session", every=0.2)

    async def told() -> list[tuple[str, str]] | None:
        ends = [each.data for each in await owner.history("action.*") if each.subject == page.job_id]
        found = [(each.kind, getattr(each, "actor", "")) for each in ends]
        return found if {kind for kind, _ in found} >= {"action.warn", "action.cancel"} else None

    # The archive may have the events a moment later.
    actions = await until(told, seconds=60, what="the warning and the cancel in the history", every=0.2)
    # The lab's own gateway, whose minutes are longer, may withdraw a warning: then there is another one.
    assert set(actions[:-1]) == {("action.warn", "idle-cull")}
    assert actions[-1] == ("action.cancel", "idle-cull")

    async def is_gone() -> bool:
        async with page.browser.get(page.url) as answer:
            return answer.status == 404

    # The gateway knows a session's state for some seconds.
    await until(is_gone, seconds=60, what="the end of the page", every=0.2)
