"""`sbatch --spool` while the gateway is killed at random moments: each submit makes one job, however often it is sent.

CI submits some, `make test-spool` 500.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.fleet import RunningService
from clusterra_lab.stack.stack import Stack
from command_line import CommandLine, Ran

SUBMITS = int(os.environ.get("SPOOL_SUBMITS", "30"))
SEED = int(os.environ.get("SPOOL_SEED", "1"))
AT_ONCE = 8
"""How many processes submit at the same time."""
LONGEST_UP_SECONDS = 2.5
LONGEST_DOWN_SECONDS = 2.0
SETTLES_SECONDS = 300.0
"""A delivery that is cut off is settled after some 50 s."""


@pytest.fixture
async def command(lab: Stack, ada: User, tmp_path: Path) -> AsyncIterator[CommandLine]:
    async with ada.api_token("spool") as token:
        variables = {"CLUSTERRA_URL": lab.gateway_url, "CLUSTERRA_TOKEN": token, "CLUSTERRA_CLUSTER": ada.cluster}
        yield CommandLine(tmp_path, variables)


@pytest.fixture(autouse=True)
async def no_jobs_left(lab: Stack) -> AsyncIterator[None]:
    yield
    # By their ids: by the name of their user they stayed.
    waiting = await lab.slurm.run("squeue", "--noheader", "--states=PENDING", "--format=%A")
    if waiting.stdout.split():
        await lab.slurm.run("scancel", *sorted(set(waiting.stdout.split())))


def _gateway(lab: Stack) -> RunningService:
    return lab.services["gateway"]


@asynccontextmanager
async def killed_at_random(gateway: RunningService, chance: random.Random) -> AsyncIterator[Counter[str]]:
    """Kill the gateway again and again until the block ends. Then it answers."""
    counted, over = Counter[str](), asyncio.Event()

    async def kill() -> None:
        while not over.is_set():
            await asyncio.sleep(chance.uniform(0, LONGEST_UP_SECONDS))
            gateway.kill()
            counted["kills"] += 1
            await asyncio.sleep(chance.uniform(0, LONGEST_DOWN_SECONDS))
            await gateway.start()
            await gateway.ready()

    task = asyncio.create_task(kill())
    try:
        yield counted
    finally:
        over.set()
        await task


async def sbatch(command: CommandLine, *arguments: str, killed_after: float | None = None) -> Ran:
    """Run our sbatch, and kill it after some seconds."""
    environment = {"CLUSTERRA_CONFIG": str(command.home / "config.toml"), "PATH": "/usr/bin:/bin", **command.variables}
    argv = (sys.executable, "-m", "clusterra_cli.slurm_commands", "sbatch", *arguments)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, env=environment)
    if killed_after is not None:
        try:
            await asyncio.wait_for(process.wait(), killed_after)
        except TimeoutError:
            # It may have ended just now.
            with suppress(ProcessLookupError):
                process.kill()
    out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def names_of_jobs(lab: Stack, prefix: str) -> Counter[str]:
    """How many jobs of each name Slurm itself has."""
    listed = await lab.slurm.run("squeue", "--noheader", "--states=all", "--format=%j")
    assert listed.returncode == 0, listed
    return Counter(each.strip() for each in listed.stdout.splitlines() if each.startswith(prefix))


async def all_sent(command: CommandLine) -> list[dict[str, str]]:
    """Send until nothing waits, and return what was sent."""

    async def sent() -> bool:
        await command("spool", "send")
        return not [each for each in (await command("spool", "list", "--json")).json if each["state"] == "waiting"]

    await until(sent, seconds=SETTLES_SECONDS, every=1.0, what="an empty spool")
    listed: list[dict[str, str]] = (await command("spool", "list", "--json")).json
    return listed


async def test_each_spooled_submit_makes_one_job_while_the_gateway_is_killed(lab: Stack, command: CommandLine) -> None:
    chance = random.Random(SEED)
    wanted = [f"spool-{number}" for number in range(SUBMITS)]
    left, ran = list(reversed(wanted)), list[Ran]()

    async def submit() -> None:
        while left:
            ran.append(await sbatch(command, "--spool", "--hold", "-J", left.pop(), "--wrap", "true"))

    async with killed_at_random(_gateway(lab), chance) as counted, asyncio.TaskGroup() as clients:
        for _ in range(AT_ONCE):
            clients.create_task(submit())
    listed = await all_sent(command)

    spooled = sum(not each.out for each in ran)
    print(f"seed {SEED}: {SUBMITS} submits, {counted['kills']} kills, {spooled} were spooled and delivered later")
    assert all(each.code == 0 for each in ran), [each for each in ran if each.code]
    assert await names_of_jobs(lab, "spool-") == Counter(wanted)
    assert Counter(each["state"] for each in listed) == Counter({"sent": SUBMITS})
    assert len({each["job_id"] for each in listed}) == SUBMITS
    assert spooled, "no kill met a submit"


async def test_a_killed_sbatch_makes_one_job_or_none(lab: Stack, command: CommandLine) -> None:
    chance, began = random.Random(SEED), time.monotonic()
    await sbatch(command, "--spool", "-H", "-J", "cut-none", "--wrap", "true")
    whole = time.monotonic() - began
    cut = 0
    for number in range(12):
        after = whole * chance.uniform(0.3, 1.2)
        ran = await sbatch(command, "--spool", "-H", "-J", f"cut-{number}", "--wrap", "true", killed_after=after)
        cut += ran.code == -signal.SIGKILL

    listed = await all_sent(command)
    found = await names_of_jobs(lab, "cut-")

    assert cut
    assert set(found.values()) == {1}
    assert found.total() == sum(each["state"] == "sent" for each in listed)


async def test_what_was_spooled_is_sent_before_the_next_submit(lab: Stack, command: CommandLine) -> None:
    gateway = _gateway(lab)
    gateway.kill()
    away = await sbatch(command, "--spool", "-H", "-J", "first", "--wrap", "true")
    await gateway.start()
    await gateway.ready()

    after = await sbatch(command, "-H", "-J", "second", "--wrap", "true")
    (sent,) = (await command("spool", "list", "--json")).json

    assert (away.code, away.out) == (0, "")
    assert "spooled as s1: Unable to contact slurm controller" in away.err
    assert (after.code, after.err, sent["state"]) == (0, "", "sent")
    assert int(sent["job_id"]) < int(after.out.split()[-1])


async def test_a_refused_submit_is_kept_with_the_reason_and_can_be_deleted(lab: Stack, command: CommandLine) -> None:
    gateway = _gateway(lab)
    gateway.kill()
    await sbatch(command, "--spool", "-H", "-p", "nosuch", "--wrap", "true")
    await gateway.start()
    await gateway.ready()

    sent = await command("spool", "send", "--json")
    (refused,) = (await command("spool", "list", "--json")).json
    at_once = await sbatch(command, "--spool", "-H", "-p", "nosuch", "--wrap", "true")
    deleted = await command("spool", "delete", "s1")

    assert sent.code == 6
    assert (refused["state"], "Invalid partition" in refused["why"]) == ("refused", True)
    assert at_once == Ran(1, "", "sbatch: error: Batch job submission failed: Invalid partition name specified\n")
    assert deleted.code == 0
    assert (await command("spool", "list", "--json")).json == []


async def test_another_person_does_not_send_it(lab: Stack, command: CommandLine) -> None:
    gateway = _gateway(lab)
    gateway.kill()
    await sbatch(command, "--spool", "-H", "-J", "of-ada", "--wrap", "true")
    await gateway.start()
    await gateway.ready()

    async with lab.user("grace@acme.example") as grace, grace.api_token("spool") as token:
        other = command.having(CLUSTERRA_TOKEN=token)
        held = await other("spool", "send", "--json")

    assert held.code == 1
    assert '"waits"' in held.out
    assert "another sign-in" in held.out
    assert await names_of_jobs(lab, "of-ada") == Counter()
