"""`clusterra` as people run it, as a process: on the whole lab, from the sign-in to the exit code of a job."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, DummyCookieJar
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import ApiToken, User
from clusterra_lab.stack.stack import Stack
from command_line import CommandLine
from session_client import published, until_ready
from yarl import URL

SCRIPT = """#!/bin/bash
#SBATCH --time=10
echo "hello $1 of $SLURM_NTASKS"
echo second
sleep ${2:-0}
"""


@pytest.fixture
async def token(ada: User) -> ApiToken:
    """A token that the test itself revokes, or leaves to the lab."""
    async with ada.session.post("/v1/users/me/tokens", json={"name": "laptop"}) as answer:
        return ApiToken.model_validate(await answer.json())


@pytest.fixture
async def command(lab: Stack, token: ApiToken, tmp_path: Path) -> AsyncIterator[CommandLine]:
    """The command of ada, who has signed in with a token on stdin."""
    command = CommandLine(tmp_path)
    (tmp_path / "hello.sh").write_text(SCRIPT)

    signed_in = await command("login", lab.gateway_url, "--token-stdin", stdin=f"{token.token}\n")

    assert signed_in.code == 0, signed_in
    assert token.token not in signed_in.err + signed_in.out
    yield command
    for job_id in (await command("jobs", "-q", "--state=PENDING,RUNNING")).out.split():
        await command("cancel", job_id)


async def test_a_job_from_its_submit_to_its_end(command: CommandLine) -> None:
    submitted = (await command("submit", "--json", "--ntasks=2", "hello.sh", "ada's job", "300")).json
    job_id = submitted["job_id"]
    waits = await command("why", job_id)
    assert waits.code == 0, waits
    followed = await command.start("logs", "-f", job_id)
    assert followed.stdout is not None
    async with asyncio.timeout(180):
        assert await followed.stdout.readline() == b"hello ada's job of 2\n"
        assert await followed.stdout.readline() == b"second\n"

    async def listed() -> bool:
        rows = (await command("jobs", "--json", "--name=hello.sh")).json
        return [each["state"] for each in rows if each["job_id"] == job_id] == ["RUNNING"]

    await until(listed, seconds=60, what="the list to have the running job")
    table = await command("jobs", "--format=id,name,user,state")
    shown = await command("job", job_id)
    runs = (await command("why", job_id, "--json")).json
    nodes = (await command("nodes", "--json")).json
    cancelled = await command("cancel", job_id)
    async with asyncio.timeout(120):
        _, told = await followed.communicate()

    assert [job_id, "hello.sh", "ada", "RUNNING"] in [line.split() for line in table.out.splitlines()], table
    assert "state       RUNNING" in shown.out, shown
    assert runs["state"] == "running"
    assert runs["places"][0]["worker"] in {each["name"] for each in nodes}
    assert (cancelled.code, cancelled.out) == (0, f"job {job_id} is cancelled\n"), cancelled
    assert followed.returncode == 0, told
    assert (await command("logs", job_id)).out.startswith("hello ada's job of 2\nsecond\n")
    assert "CANCELLED" in (await command("logs", job_id, "--tail=1")).out


async def test_a_command_ends_with_the_exit_code_of_its_job(command: CommandLine) -> None:
    failed = await command(
        "run", "--time=5", "--export=GREETING=hi there", "sh", "-c", 'echo "$GREETING" "$0"; exit 3', "*"
    )
    done = await command("submit", "--wait", "--quiet", "hello.sh", "x")
    killed = await command("run", "--time=5", "--json", "sh", "-c", "kill -9 $$")

    assert (failed.code, failed.out) == (3, "hi there *\n"), failed
    assert "FAILED" in failed.err
    assert (done.code, done.out) == (0, ""), done
    assert killed.code == 137, killed
    assert [json.loads(line) for line in killed.out.splitlines()][-1]["state"] == "FAILED"


async def test_options_of_the_command_line_win(command: CommandLine) -> None:
    submitted = (await command("submit", "--json", "-t", "20", "--mem-per-cpu=100M", "-H", "hello.sh")).json
    held = (await command("job", "--json", submitted["job_id"])).json
    changed = await command("update", submitted["job_id"], "--set", "time_limit=7", "--set", "name=renamed")
    after = (await command("job", "--json", submitted["job_id"])).json

    assert (held["name"], held["time_limit_seconds"], held["memory_per_cpu_mib"]) == ("hello.sh", 1200, 100)
    assert held["state"] == "PENDING"
    assert changed.code == 0, changed
    assert (after["name"], after["time_limit_seconds"]) == ("renamed", 420)


async def test_what_goes_wrong_has_its_own_exit_code(command: CommandLine) -> None:
    refused = await command("submit", "--time=never", "hello.sh")
    unknown = await command("job", "99999")

    assert refused.code == 6, refused
    assert "--time=never" in refused.err
    assert unknown.code == 5, unknown


async def test_a_revoked_token_ends_with_4(ada: User, command: CommandLine, token: ApiToken) -> None:
    async with ada.session.delete(f"/v1/users/me/tokens/{token.id}") as answer:
        assert answer.status == 204

    async def refused() -> bool:
        return (await command("jobs")).code == 4

    await until(refused, seconds=60, what="the token to be refused")
    ran = await command("jobs")
    assert "clusterra login" in ran.err
    assert token.token not in ran.err


async def test_a_gateway_that_is_killed_in_the_middle_loses_nothing(lab: Stack, command: CommandLine) -> None:
    counting = 'for i in $(seq 1 300); do echo "line $i"; sleep 0.05; done; exit 4'
    runs = await command.start("run", "--time=5", "bash", "-c", counting)
    assert runs.stdout is not None
    assert runs.stderr is not None
    async with asyncio.timeout(240):
        job_id = (await runs.stderr.readline()).decode().split()[-1]
        first = await runs.stdout.readline()
        follows = await command.start("logs", "-f", job_id)
        assert follows.stdout is not None
        also_first = await follows.stdout.readline()

        lab.services["gateway"].kill()
        await lab.restart("gateway")

        (ran, _), (followed, _) = await asyncio.gather(runs.communicate(), follows.communicate())

    whole = "".join(f"line {number}\n" for number in range(1, 301)).encode()
    assert first + ran == also_first + followed == whole
    assert (runs.returncode, follows.returncode) == (4, 0)


async def test_a_session_at_a_port_of_this_machine(lab: Stack, command: CommandLine, ada: User) -> None:
    page = Path(__file__).with_name("session_page.yaml").read_text()
    async with published(ada, page):
        job_id = (await command("sessions", "start", "small-page", "--quiet")).out.strip()
        await until_ready(ada, job_id)
        process = await command.start("sessions", "open", job_id, "--forward=0")
        assert process.stdout is not None
        try:
            async with asyncio.timeout(90), ClientSession(cookie_jar=DummyCookieJar()) as browser:
                address = URL((await process.stdout.readline()).decode().strip())
                here = URL.build(scheme="http", host="127.0.0.1", port=address.port or 0)
                headers = {"Host": address.authority}
                async with browser.get(here.join(address.relative()), headers=headers, allow_redirects=False) as led:
                    assert led.status == 303, await led.text()
                    place = here.join(URL(led.headers["Location"]))
                    headers["Cookie"] = led.headers["Set-Cookie"].partition(";")[0]
                async with browser.get(place, headers=headers) as answer:
                    assert (await answer.text()).startswith(f"the page of job {job_id} for ")
                headers["Origin"] = str(address.origin())
                async with browser.ws_connect(place, headers=headers) as socket:
                    assert await socket.receive_str() == "hello"
                async with browser.get(place, headers={"Host": address.authority}) as answer:
                    assert answer.status == 403
            assert (await command("sessions", "stop", job_id, "--quiet")).out == f"{job_id}\n"
            async with asyncio.timeout(120):
                _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, told
    assert b"has ended" in told
