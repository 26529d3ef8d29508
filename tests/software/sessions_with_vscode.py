"""VS Code as an interactive session: code-server in a job of real Slurm, its page in a real browser for its owner.

Part of `make test-software`, because the first run downloads and compiles code-server.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession
from chromium import in_chromium
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from session_client import asked, entered, place, until_ready
from vscode_site import installed_vscode


@dataclass(frozen=True)
class Page:
    """A session that is ready, and a browser in which its owner has opened it."""

    browser: ClientSession
    url: str
    job_id: str
    folder: Path
    """The folder that VS Code shows, as this machine sees it."""


@pytest.fixture(scope="module")
async def owner(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("ada@acme.example") as user:
        yield user


@pytest.fixture(scope="module")
async def page(lab: Stack, owner: User) -> AsyncIterator[Page]:
    environment = await installed_vscode(lab)
    folder = lab.slurm.shared_dir / "project"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    values = {
        "inputs": {"folder": f"{lab.slurm.shared_path}/project"},
        "params": {"environment": environment, "cpus": 1, "memory_gib": 1, "hours": 1},
    }
    started = await asked(owner, "POST", place(owner), {"template_id": "vscode", **values}, status=201)
    job_id = started["job_id"]
    try:
        await until_ready(owner, job_id)
        async with ClientSession() as browser:
            yield Page(browser, await entered(owner, browser, job_id), job_id, folder)
    finally:
        await owner.cancel(job_id)


async def test_its_owner_sees_the_workbench_without_a_password(page: Page) -> None:
    async with page.browser.get(page.url) as answer:
        text = await answer.text()

    assert answer.status == 200, text
    assert "vscode-workbench-web-configuration" in text
    assert "login" not in answer.url.path


async def test_a_real_browser_works_in_the_terminal_the_explorer_and_the_editor(
    lab: Stack, owner: User, page: Page, tmp_path: Path
) -> None:
    cookies = {each.key: each.value for each in owner.session.cookie_jar}

    address = f"{lab.gateway_url}{place(owner, page.job_id, 'open')}"
    told = await in_chromium("vscode_page.py", address, cookies, tmp_path)

    assert told == f"job {page.job_id} bash"
    assert (page.folder / "answer.txt").read_text() == f"job {page.job_id} bash\n"


async def test_the_server_turns_away_who_has_no_token(lab: Stack, page: Page) -> None:
    told = await asyncio.to_thread((lab.slurm.shared_dir / f"job_{page.job_id}.session").read_text)
    port = int(told.partition('"port": ')[2].partition(",")[0])

    async with ClientSession() as stranger:
        async with stranger.get(f"http://127.0.0.1:{port}/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, "./login")
        async with stranger.get(f"http://127.0.0.1:{port}/proxy/{port}/", allow_redirects=False) as answer:
            assert answer.status >= 300


async def test_another_user_gets_404(lab: Stack, page: Page) -> None:
    async with lab.user("grace@acme.example") as grace, ClientSession() as browser:
        for method, action in (("GET", ""), ("DELETE", ""), ("POST", "ticket")):
            await asked(grace, method, place(grace, page.job_id, action), status=404)
        async with browser.get(page.url) as answer:
            assert answer.status == 404
