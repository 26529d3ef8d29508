"""The commands as processes, with a real gateway and stand-ins behind it."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from clusterra_contracts.events import JobFact
from clusterra_contracts.identity import now
from clusterra_lab.machine.ports import free_port
from clusterra_runtime.nats.events import EventPublisher
from command_line import CommandLine
from gateway_world import World
from people_world import make_token

SCRIPT = "#!/bin/sh\n#SBATCH --time=10\necho hello\n"


@pytest.fixture(autouse=True)
def _no_jobs(world: World) -> None:
    """Each test begins with an empty cluster."""
    for kept in (world.acme.jobs, world.acme.edge.output, world.acme.keys):
        kept.clear()
    for noted in (world.acme.submits, world.acme.changes, world.acme.cancelled):
        noted.clear()
    world.acme.submit_error = None


@pytest.fixture
def script(ada: CommandLine) -> str:
    (ada.home / "hello.sh").write_text(SCRIPT)
    return "hello.sh"


async def end(world: World, job_id: str, state: str, exit_code: int | None) -> None:
    """A job ends, and its event tells so."""
    ended = {"state": state, "exit_code": exit_code, "started_at": now(), "ended_at": now()}
    job = world.acme.jobs[job_id] = world.acme.jobs[job_id].model_copy(update=ended)
    fact = JobFact(
        kind="job.completed" if state == "COMPLETED" else "job.failed",
        job_id=job_id,
        name=job.name,
        user=job.user,
        uid=job.uid,
        partition="main",
        state=state,
        exit_code=exit_code,
        submitted_at=job.submitted_at,
    )
    await EventPublisher(world.client, "proxy").publish(world.acme.ref, fact, version=now().isoformat(), time=now())


async def test_a_script_is_submitted_with_the_options_and_arguments(
    ada: CommandLine, world: World, script: str
) -> None:
    ran = await ada("submit", "--time=20", "-n", "2", script, "one", "--two")

    assert (ran.code, ran.out) == (0, "Submitted batch job 1\n"), ran
    sent = world.acme.submits[0]
    assert "#SBATCH --time=20" in sent.script
    assert sent.job.argv == ("hello.sh", "one", "--two")
    assert sent.job.environment == ("PATH=/usr/local/bin:/usr/bin:/bin",)
    assert sent.idempotency_key


async def test_letters_of_a_value_are_no_options(ada: CommandLine, world: World, script: str) -> None:
    assert (await ada("submit", "-Jhello", "-H", "--", script)).code == 0
    assert (await ada("run", "--no-requeue", "--quiet", "--wait", "--estimate", "--", "--odd")).code == 0
    assert "#SBATCH --job-name=hello\n" in world.acme.submits[0].script
    for arguments in (("submit", "--help"), ("run", "-h"), ("submit", "-n", "2", "--usage")):
        assert "--confirmed-usd-per-hour" in (await ada(*arguments)).out


async def test_programs_get_the_id_or_json(ada: CommandLine, script: str) -> None:
    assert (await ada("submit", "--parsable", script)).out == "1\n"
    assert (await ada("submit", "--quiet", script)).out == "2\n"
    assert (await ada("submit", "--json", script)).json == {"job_id": "3", "warnings": []}


async def test_a_script_may_come_from_stdin(ada: CommandLine, world: World) -> None:
    assert (await ada("submit", stdin=SCRIPT)).code == 0
    assert world.acme.submits[0].script == SCRIPT


async def test_with_the_same_key_one_job_is_submitted(ada: CommandLine, script: str) -> None:
    ran = [await ada("submit", "--key=only-once-1", script) for _ in range(2)]

    assert [each.out for each in ran] == ["Submitted batch job 1\n"] * 2


async def test_a_dry_run_sends_nothing(command: CommandLine, world: World, ada: CommandLine, script: str) -> None:
    told = (await command("submit", "--dry-run", "--json", "--mem=2G", script)).json

    assert told["job"]["memory_per_node"] == 2048
    assert world.acme.submits == []


async def test_an_estimate_submits_nothing(ada: CommandLine, world: World, script: str) -> None:
    ran = await ada("submit", "--estimate", script)
    told = (await ada("submit", "--estimate", "--json", script)).json

    assert ran.code == 0, ran
    assert "cost" in ran.out
    assert "warning: line 2 of the script: no effect" in ran.err
    assert told["tasks"] == 10
    assert world.acme.submits == []


@pytest.mark.parametrize(("state", "exit_code", "code"), [("COMPLETED", 0, 0), ("FAILED", 3, 3), ("TIMEOUT", None, 1)])
async def test_following_ends_as_the_job_does(
    ada: CommandLine, world: World, state: str, exit_code: int | None, code: int
) -> None:
    process = await ada.start("run", "--time=5", "hostname", "-f")
    assert process.stderr is not None
    async with asyncio.timeout(60):
        assert await process.stderr.readline() == b"Submitted batch job 1\n"
    world.acme.set_state("1", "RUNNING")
    world.acme.edge.write_output("1", "wörker-1\n".encode())
    await end(world, "1", state, exit_code)

    async with asyncio.timeout(120):
        out, _ = await process.communicate()

    assert (out.decode(), process.returncode) == ("wörker-1\n", code)
    assert world.acme.submits[0].script.endswith("\n'hostname' -f\n")


async def test_waiting_as_json_has_the_submit_and_the_end(ada: CommandLine, world: World, script: str) -> None:
    process = await ada.start("submit", "--wait", "--json", script)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        submitted = json.loads(await process.stdout.readline())
    await end(world, submitted["job_id"], "FAILED", 7)

    async with asyncio.timeout(120):
        out, _ = await process.communicate()

    assert json.loads(out)["exit_code"] == process.returncode == 7


async def test_a_job_that_was_submitted_before_is_followed_to_its_exit_code(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7")
    world.acme.edge.write_output("7", b"one\n")
    process = await ada.start("wait", "--follow", "7")
    assert process.stdout is not None
    async with asyncio.timeout(90):
        assert await process.stdout.readline() == b"one\n"
        world.acme.edge.write_output("7", b"two\n")
        await end(world, "7", "FAILED", 7)
        out, err = await process.communicate()

    assert (out, process.returncode) == (b"two\n", 7), err


async def test_several_jobs_end_with_the_greatest_exit_code(ada: CommandLine, world: World) -> None:
    for job_id, state, exit_code in (("7", "FAILED", 3), ("8", "COMPLETED", 0)):
        world.acme.add_job(job_id)
        await end(world, job_id, state, exit_code)
    world.acme.add_job("9")

    ended = await ada("wait", "7", "8", "--json")
    late = await ada("wait", "9", "--timeout=0.2")
    both = await ada("wait", "--follow", "7", "8")

    assert (ended.code, sorted(each["job_id"] for each in ended.lines)) == (3, ["7", "8"]), ended
    assert (late.code, late.out) == (1, ""), late
    assert "9" in late.err
    assert both.code == 2, both


async def test_an_interrupted_command_says_that_the_job_goes_on(ada: CommandLine, world: World) -> None:
    process = await ada.start("run", "sleep", "60")
    assert process.stderr is not None
    async with asyncio.timeout(60):
        await process.stderr.readline()

    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        _, err = await process.communicate()

    assert process.returncode == 130
    assert "clusterra cancel 1" in err.decode()
    assert world.acme.cancelled == []


async def test_jobs_are_listed(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7")
    world.acme.add_job("8", state="PENDING")

    table = await ada("jobs", "--format=id,state,user")
    told = (await ada("jobs", "--json", "--state=running", "--limit=1")).json

    assert table.out.splitlines() == ["JOB  STATE    USER", "  7  RUNNING  ada", "  8  PENDING  ada"], table
    assert [each["job_id"] for each in told] == ["7"]
    assert "cost" not in told[0]
    assert (await ada("jobs", "-q")).out == "7\n8\n"
    more = await ada("jobs", "-q", "--limit=1")
    assert (more.out, more.err) == ("7\n", "there are more jobs: --limit raises their number\n")
    assert "--since" not in table.err + more.err


async def test_a_list_without_jobs_says_how_those_are_listed_that_slurm_has_forgotten(
    ada: CommandLine, world: World
) -> None:
    world.acme.add_job("7")

    ended = await ada("jobs", "--state=completed")
    others = [await ada("jobs", *each.split()) for each in ("-t pending", "-t completed -q", "-t completed --json")]

    assert (ended.code, ended.err.count("such as --since 1d")) == (0, 1), ended
    assert [each.err for each in others] == [""] * 3


async def test_names_of_jobs_do_not_reach_the_terminal_as_they_are(ada: CommandLine, world: World) -> None:
    world.acme.jobs["7"] = world.acme.add_job("7").model_copy(update={"name": "\x1b[2Jx\u202e"})

    assert "\\x1b[2Jx\\u202e" in (await ada("jobs")).out
    assert "\\x1b[2Jx\\u202e" in (await ada("job", "7")).out


async def test_one_job_is_shown_and_explained(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7", state="PENDING")

    shown = await ada("job", "7")
    explained = await ada("why", "7")

    assert "state      PENDING" in shown.out
    assert (await ada("job", "7", "--json")).json["job_id"] == "7"
    assert explained.code == 0, explained
    assert (await ada("why", "7", "--json")).json["text"] in explained.out


async def test_an_output_is_printed_byte_for_byte(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7", state="COMPLETED")
    world.acme.edge.write_output("7", b"one\r\n\xfftwo\nthree\n")
    process = await ada.start("logs", "7")
    async with asyncio.timeout(60):
        out, _ = await process.communicate()

    assert out == b"one\r\n\xfftwo\nthree\n"
    assert (await ada("logs", "7", "--tail=1")).out == "three\n"
    assert (await ada("logs", "7", "-f", "--tail=1")).out == "three\n"
    assert [each.get("output") for each in (await ada("logs", "7", "-f", "--json", "--tail=1")).lines] == ["three\n"]


async def test_an_output_of_more_than_fits_into_memory_is_printed(ada: CommandLine, world: World) -> None:
    """More than the SDK keeps of an answer (64 MiB)."""
    written = b"".join(b"%063d\n" % number for number in range(65 * 1024 * 16))
    world.acme.add_job("7", state="COMPLETED")
    world.acme.edge.write_output("7", written)
    process = await ada.start("logs", "7")
    async with asyncio.timeout(120):
        out, told = await process.communicate()

    assert (process.returncode, len(out)) == (0, len(written)), told
    assert out == written


async def test_jobs_are_changed(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7")
    world.acme.add_job("8")

    for arguments in (("hold", "7"), ("release", "7"), ("requeue", "--hold", "7"), ("signal", "-s", "SIGUSR1", "7")):
        assert (await ada(*arguments)).code == 0
    changed = await ada("update", "7", "--set", "time_limit=90", "--set", "name=better")
    cancelled = await ada("cancel", "7", "8", "--json")

    assert changed.out == "job 7 is changed\n", changed
    assert cancelled.json["jobs"] == [{"job_id": each, "outcome": "cancelled", "detail": ""} for each in ("7", "8")]
    assert world.acme.cancelled == ["7", "8"]
    assert [type(each.change).__name__ for each in world.acme.changes] == [
        *("Hold", "Release", "Requeue", "SendSignal", "Update")
    ]


async def test_after_one_job_that_cannot_be_changed_the_others_are(ada: CommandLine, world: World) -> None:
    world.acme.add_job("8")

    ran = await ada("cancel", "7", "8")

    assert (ran.code, ran.out) == (5, "job 8 is cancelled\n"), ran
    assert "there is no job 7" in ran.err


async def test_tasks_of_an_array_are_changed_and_each_id_is_reported(ada: CommandLine, world: World) -> None:
    world.acme.add_job("8")

    ran = await ada("cancel", "7", "8_[1-3,5]", "--json")
    wrong = await ada("cancel", "8", "8-1")

    assert (ran.code, wrong.code) == (5, 2), (ran, wrong)
    told = {each["job_id"]: each["outcome"] for each in json.loads(ran.out)["jobs"]}
    assert told.keys() == {"7", "8_[1-3,5]"}
    assert told["7"] == "failed"
    assert world.acme.cancelled == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("job", "7"), 5, "there is no job 7"),
        (("wait", "7"), 5, "there is no job 7"),
        (("logs", "7"), 5, "there is no job 7"),
        (("job", "seven"), 2, "seven"),
        (("jobs", "--sort=colour"), 6, "sort"),
        (("jobs", "--format=colour"), 2, "the columns are"),
        (("jobs", "--since=tomorrow-ish"), 2, "no time"),
        (("jobs", "--since=999999w"), 2, "no time"),
        (("jobs", "--since=0001-01-01"), 2, "no time"),
        (("events", "--since=999999w"), 2, "no time"),
        (("submit", "absent.sh"), 2, "absent.sh cannot be read"),
        (("run",), 2, "no command"),
        (("api", "GET", "/v1/nothing-here"), 5, "/v1/docs"),
        (("jobs", "--cluster=absent"), 5, "no such cluster"),
    ],
)
async def test_an_error_has_its_code(ada: CommandLine, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = await ada(*arguments)

    assert (ran.code, ran.out) == (code, ""), ran
    assert said in ran.err
    assert "Traceback" not in ran.err


async def test_a_refused_submit_ends_with_6(ada: CommandLine, world: World, script: str) -> None:
    world.acme.submit_error = "rejected"

    ran = await ada("submit", script)

    assert ran.code == 6, ran
    assert "rejected as the test wants it" in ran.err


async def test_without_a_token_the_command_says_what_to_do(command: CommandLine) -> None:
    ran = await command("jobs")

    assert ran.code == 4, ran
    assert "clusterra login" in ran.err


async def test_a_revoked_token_ends_with_4(world: World, command: CommandLine) -> None:
    browser = await world.login("ada@acme.example")
    made = await make_token(browser)
    program = command.having(CLUSTERRA_TOKEN=made["token"])
    assert (await program("whoami", "--json")).json["email"] == "ada@acme.example"

    assert (await program("tokens", "revoke", made["id"])).code == 0

    assert (await program("whoami")).code == 4


@pytest.fixture(params=[200, 502])
async def proxy_page(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A proxy that answers everything with a page of its own."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(
            status=request.param, text="<html>Log in to the \x1b[31mcampus network</html>", content_type="text/html"
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


async def test_the_page_of_a_proxy_is_named_as_such(ada: CommandLine, proxy_page: str) -> None:
    # This request is not sent again: the page is final.
    ran = await ada("tokens", "revoke", "0" * 16, "--url", proxy_page)

    assert ran.code == 1, ran
    assert "check the address of the gateway" in ran.err
    assert proxy_page in ran.err
    assert "campus network" in ran.err
    assert "\x1b" not in ran.err


async def test_a_gateway_that_is_away_is_named(ada: CommandLine) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ran = await ada("jobs", "--url", url)

    assert ran.code == 1, ran
    notice, named, *_ = ran.err.splitlines()
    assert re.fullmatch(r"the gateway does not answer; trying again for up to 2[5-9] s", notice)
    assert url in named


@pytest.mark.parametrize(
    "arguments",
    [("clusters",), ("nodes",), ("shapes",), ("events",), ("costs",), ("quota",), ("budgets",), ("templates",)],
)
async def test_what_there_is_can_be_read_as_a_table_and_as_json(ada: CommandLine, arguments: tuple[str, ...]) -> None:
    table = await ada(*arguments)
    told = await ada(*arguments, "--json")

    assert table.code == told.code == 0, (table, told)
    if arguments != ("events",):
        json.loads(told.out)


async def test_shapes_have_their_prices(ada: CommandLine) -> None:
    assert "compute-xs  " in (await ada("shapes")).out
    assert (await ada("shapes", "--json")).json[0]["usd_per_hour"] == "0.1"


@pytest.mark.parametrize(
    ("line", "told"), [("job 4", True), ("cancel 8 4", True), ("launch py", True), ("job x", False)]
)
async def test_a_shell_completes_what_there_is(ada: CommandLine, world: World, line: str, told: bool) -> None:
    world.acme.add_job("42")
    world.acme.add_job("8")
    completing = ada.having(_CLUSTERRA_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=f"clusterra {line}")

    ran = await completing()

    assert ran.code == 0, ran
    assert (("42" in ran.out) or ("python-venv" in ran.out)) == told, ran
    assert ran.err == ""


async def test_any_other_request_can_be_sent(ada: CommandLine, world: World) -> None:
    world.acme.add_job("7")

    told: Any = (await ada("api", "GET", "/v1/clusters/{cluster}/jobs", "--query", "limit=1")).json
    assert [each["job_id"] for each in told["jobs"]] == ["7"]
    assert (await ada("api", "delete", "/v1/clusters/main/jobs/7")).out == ""
    assert world.acme.cancelled == ["7"]
    sent = await ada("api", "POST", "/v1/clusters/main/jobs/cancel", "--body", '{"job_ids": 5}')
    assert sent.code == 6


async def test_a_template_is_launched(ada: CommandLine, world: World) -> None:
    found = (await ada("templates", "--json")).json
    ready = next(each["id"] for each in found if each["kind"] == "batch" and not each["inputs"])

    shown = await ada("templates", ready)
    launched = await ada("launch", ready, "--sbatch", "time=5")

    assert shown.code == 0, shown
    assert launched.out == "Submitted batch job 1\n", launched
    assert "#SBATCH --time=5" in world.acme.submits[0].script
    assert (await ada("templates", "absent")).code == 5
