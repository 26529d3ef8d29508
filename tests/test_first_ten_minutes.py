"""A new person's first ten minutes: the lines of docs/guide/first-job.md, with nothing installed before."""

import asyncio
import re
import shlex
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from chromium import chromium, playwright
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from command_line import CommandLine
from fresh_machine import fresh_environment
from program_sign_in import decide

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide" / "first-job.md"
DEADLINE_SECONDS = 400


def lines_of_the_guide(gateway: str) -> str:
    """The blocks of the section as one script, with this gateway."""
    (section,) = re.findall(r"^## With the command line\n(.*?)^## ", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    script = "".join(re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
    assert "https://clusterra.example" in script
    return script.replace("https://clusterra.example", gateway)


async def test_the_first_ten_minutes_of_the_guide(lab: Stack, ada: User, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("cli", "libs", "services", "admin", "planner-tools", "lab", "pyproject.toml"):
        (checkout / name).symlink_to(ROOT / name)
    environment = {**fresh_environment(tmp_path), "CLUSTERRA_CONFIG": str(tmp_path / "config.toml")}
    command = ("bash", "-euo", "pipefail", "-c", lines_of_the_guide(lab.gateway_url))

    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=checkout, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    told = b""
    async with asyncio.timeout(DEADLINE_SECONDS):
        printed = asyncio.create_task(process.stdout.read())
        while line := await process.stderr.readline():
            told += line
            if code := re.search(r"enter the code (\S+)", line.decode()):
                assert (await decide(ada.session, code[1], "approve"))[0] == 200
        out = (await printed).decode()

    assert await process.wait() == 0, (told, out)
    assert "ada@acme.example" in out
    assert re.search(r"^hello from \S+\ndone$", out, re.MULTILINE), out
    assert re.search(r"^state +COMPLETED$", out, re.MULTILINE), out
    assert re.search(
        r"^job (\d+) is cancelled$[\s\S]*^ *\1 +hello\.sh +ada +(CANCELLED|COMPLETING)", out, re.MULTILINE
    ), out
    assert (tmp_path / "bin" / "clusterra").resolve().is_relative_to(tmp_path / "tools")


async def test_a_real_browser_signs_the_command_in(lab: Stack, tmp_path: Path) -> None:
    """By the provider's own form, the page of the gateway, and back to the port of the command."""
    ada = lab.oidc.logins["ada@acme.example"]
    script, picture = Path(__file__).with_name("sign_in_page.py"), tmp_path / "page.png"
    arguments = (sys.executable, str(script), await chromium(), str(picture), ada.subject, str(ada.password_file))
    browser, log = tmp_path / "browser", tmp_path / "browser.log"
    driven = f'PYTHONPATH={shlex.quote(str(await playwright()))} exec {shlex.join(arguments)} "$1"'
    browser.write_text(f"#!/bin/sh\n{driven} > {shlex.quote(str(log))} 2>&1\n")
    browser.chmod(0o755)
    command = CommandLine(tmp_path, {"BROWSER": f"{browser} %s &"})

    signed_in = await command("login", lab.gateway_url)

    assert signed_in.code == 0, (signed_in, log.read_text())
    assert (await command("whoami", "--json")).json["email"] == "ada@acme.example"
    assert (await command("jobs", "--json")).code == 0
    assert (await command("logout", "--revoke")).code == 0
