"""Signing in by a token, by a code, and by a browser; and where all of it is kept."""

import asyncio
import re
import stat
import sys
from asyncio.subprocess import PIPE, Process
from html import unescape
from pathlib import Path

import aiohttp
import pytest
from command_line import CommandLine
from gateway_world import World
from people_world import make_token
from program_sign_in import decide
from yarl import URL


@pytest.fixture
def alone(tmp_path: Path) -> CommandLine:
    """A command without anything in its environment."""
    return CommandLine(tmp_path)


async def line_with(process: Process, pattern: str) -> str:
    """What the first line on stderr that matches has in its group."""
    assert process.stderr is not None
    seen = b""
    async with asyncio.timeout(60):
        while line := await process.stderr.readline():
            seen += line
            if found := re.search(pattern, line.decode()):
                return found[1]
    raise AssertionError(seen.decode())


async def test_a_token_from_stdin_is_kept_in_a_file_of_its_owner_alone(world: World, alone: CommandLine) -> None:
    made = await make_token(await world.login("ada@acme.example"))

    signed_in = await alone("login", world.url, "--token-stdin", stdin=f"{made['token']}\n")

    stored = alone.home / "credentials.json"
    assert signed_in.code == 0, signed_in
    assert str(stored) in signed_in.err
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert made["token"] not in (alone.home / "config.toml").read_text()
    assert (await alone("whoami", "--json")).json["email"] == "ada@acme.example"
    assert (await alone("jobs", "--json")).json == []  # the only cluster is that of the context


async def test_a_wrong_token_is_not_kept(world: World, alone: CommandLine) -> None:
    refused = await alone("login", world.url, "--token-stdin", stdin="clusterra_a_b_c")
    empty = await alone("login", world.url, "--token-stdin", stdin="\n")

    assert (refused.code, empty.code) == (4, 2), (refused, empty)
    assert not (alone.home / "credentials.json").exists()
    assert not (alone.home / "config.toml").exists()


async def test_a_token_of_the_environment_wins_and_that_is_told(world: World, alone: CommandLine) -> None:
    ada = (await make_token(await world.login("ada@acme.example")))["token"]
    bob = (await make_token(await world.login("bob@acme.example")))["token"]

    signed_in = await alone.having(CLUSTERRA_TOKEN=bob)("login", world.url, "--token-stdin", stdin=ada)

    assert "CLUSTERRA_TOKEN is set" in signed_in.err
    assert (await alone.having(CLUSTERRA_TOKEN=bob)("whoami", "--json")).json["email"] == "bob@acme.example"
    assert (await alone("whoami", "--json")).json["email"] == "ada@acme.example"


async def test_signing_in_by_a_code(world: World, alone: CommandLine) -> None:
    browser = await world.login("ada@acme.example")
    process = await alone.start("login", world.url, "--device", "--days=2")
    code = await line_with(process, r"enter the code (\S+)")

    await decide(browser, code, "approve")
    async with asyncio.timeout(60):
        _, err = await process.communicate()

    assert process.returncode == 0, err
    assert (await alone("whoami", "--json")).json["email"] == "ada@acme.example"


async def test_whoever_denies_a_code_is_not_signed_in(world: World, alone: CommandLine) -> None:
    browser = await world.login("ada@acme.example")
    process = await alone.start("login", world.url, "--device")
    code = await line_with(process, r"enter the code (\S+)")

    await decide(browser, code, "deny")
    async with asyncio.timeout(60):
        _, err = await process.communicate()

    assert process.returncode == 1
    assert b"denied" in err
    assert not (alone.home / "credentials.json").exists()


async def approved(browser: aiohttp.ClientSession, page: str) -> None:
    """What a person does on the page, and the browser then."""
    async with browser.get(URL(page, encoded=True)) as answer:
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', await answer.text())
    form = {name: unescape(value) for name, value in hidden}
    consent = f"{page.partition('/v1/')[0]}/v1/auth/authorize/consent"
    async with browser.post(consent, data={**form, "decision": "approve"}, allow_redirects=False) as answer:
        assert answer.status in (302, 303), await answer.text()
        back = answer.headers["Location"]
    async with aiohttp.ClientSession() as anybody, anybody.get(URL(back, encoded=True)) as answer:
        assert answer.status == 200


async def test_signing_in_by_a_browser(world: World, alone: CommandLine) -> None:
    browser = await world.login("ada@acme.example")
    process = await alone.having(BROWSER="true").start("login", world.url)
    page = await line_with(process, r"in your browser: (\S+)")

    await approved(browser, page)
    async with asyncio.timeout(60):
        _, err = await process.communicate()

    assert process.returncode == 0, err
    assert (await alone("whoami", "--json")).json["email"] == "ada@acme.example"


async def test_signing_out_forgets_the_token_and_revokes_it_if_wanted(world: World, alone: CommandLine) -> None:
    token = (await make_token(await world.login("ada@acme.example")))["token"]
    program = alone.having(CLUSTERRA_URL=world.url, CLUSTERRA_TOKEN=token)
    await alone("login", world.url, "--token-stdin", stdin=token)

    assert (await alone("logout")).code == 0
    assert (await alone("whoami")).code == 4
    assert (await program("whoami")).code == 0

    await alone("login", world.url, "--token-stdin", stdin=token)
    revoked = await alone("logout", "--revoke")
    assert (revoked.code, revoked.err) == (
        0,
        f"the token for {world.url} is revoked\nthe token for {world.url} is forgotten\n",
    ), revoked
    assert (await program("whoami")).code == 4


async def test_contexts(alone: CommandLine) -> None:
    assert (await alone("context", "set", "work", "--url", "https://Work.example/", "-M", "main")).code == 0
    assert (await alone("context", "set", "home", "--url", "http://127.0.0.1:8080")).code == 0
    assert (await alone("context", "use", "home")).code == 0
    assert (await alone("context", "set", "home", "-M", "small")).code == 0

    told = (await alone("context", "list", "--json")).json
    table = await alone("context")

    assert told["current"] == "home"
    assert told["contexts"] == [
        {"name": "work", "url": "https://work.example", "cluster": "main"},
        {"name": "home", "url": "http://127.0.0.1:8080", "cluster": "small"},
    ]
    assert "*  home" in table.out
    assert (await alone("context", "remove", "work")).code == 0
    assert (await alone("context", "list", "--quiet")).out == "home\n"
    assert (await alone("context", "use", "work")).code == 2
    assert (await alone("context", "remove", "work")).code == 5
    assert (await alone("context", "set", "new")).code == 2


async def test_without_a_gateway_the_command_says_what_to_do(alone: CommandLine) -> None:
    ran = await alone("jobs")

    assert ran.code == 2, ran
    assert "clusterra login" in ran.err
    assert (await alone("login")).code == 2


async def test_a_token_is_not_created_over_plain_http(alone: CommandLine) -> None:
    ran = await alone("tokens", "create", "--device", "--url", "http://clusterra.example")

    assert ran.code == 2, ran
    assert "is not HTTPS" in ran.err


async def test_a_closed_stdout_is_no_error(alone: CommandLine) -> None:
    command = f'exec "{sys.executable}" -m clusterra_cli context list >&-'
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", command), stderr=PIPE, env={"CLUSTERRA_CONFIG": str(alone.home / "config.toml")}
    )
    async with asyncio.timeout(90):
        _, err = await process.communicate()

    assert process.returncode == 0, err
    assert b"Traceback" not in err
