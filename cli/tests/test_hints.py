"""What errors of the API say on the command line: commands in place of routes, and options in place of fields."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest
from clusterra.errors import error_of
from clusterra.exchange import Answer
from clusterra_cli.hints import hint_of
from clusterra_cli.job_script import JobScript, from_script
from clusterra_cli.sbatch_options import read
from command_line import CommandLine


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("GET /v1/clusters lists yours", "`clusterra clusters` lists yours"),
        ("GET /v1/clusters/main/runs lists your runs", "`clusterra workflows list` lists your runs"),
        ("GET .../files lists what there is", "`clusterra files ls` lists what there is"),
        ("GET /v1/templates/shell shows its parameters", "`clusterra templates shell` shows its parameters"),
        ("GET /v1/templates/schema describes definitions", "GET /v1/templates/schema describes definitions"),
        ("GET /v1/templates/mine/versions lists them", "GET /v1/templates/mine/versions lists them"),
        ("POST /v1/launchables/wf/submit starts its run", "`clusterra launch wf` starts its run"),
        ("ask an admin", "ask an admin"),
        (None, None),
    ],
)
def test_a_route_becomes_its_command_where_there_is_one(hint: str | None, shown: str | None) -> None:
    assert hint_of("there is no such thing", hint) == shown


def test_a_scope_that_is_missing_is_named() -> None:
    hint = hint_of("this token lacks the scope members:write", "make a token with this scope")

    assert "`clusterra login --scope members:write`" in (hint or "")


def test_an_error_in_the_shape_of_slurmrestd_is_its_description() -> None:
    for body, text in (
        (b'{"jobs":[],"errors":[{"description":"no such partition","error_number":2000}]}', "no such partition"),
        (b'{"jobs":[],"errors":[]}', '400: {"jobs":[],"errors":[]}'),
        (b'{"errors":[7]}', '400: {"errors":[7]}'),
    ):
        answer = Answer(400, {"content-type": "application/json"}, body)
        assert str(error_of("https://x.example", answer)) == text


def made(line: str, script: str) -> JobScript:
    options, words = read(line.split())
    return from_script(script, words, options, {})


def test_a_line_that_the_command_line_has_added_is_no_line_of_the_script() -> None:
    job = made("--time=abc -J x job.sh", "#!/bin/sh\n#SBATCH -n 2\n\necho\n")

    assert job.script.splitlines()[2:4] == ["#SBATCH --time=abc", "#SBATCH --job-name=x"]
    for sent, shown in ((2, "line 2 of the script"), (3, "the command line"), (4, "the command line")):
        assert job.placed(f"line {sent} of the script: wrong") == f"{shown}: wrong"
    assert job.placed("line 6 of the script: it has a DOS line ending") == (
        "line 4 of the script: it has a DOS line ending"
    )


async def test_somebody_who_is_not_signed_in_reads_one_line(command: CommandLine) -> None:
    ran = await command("whoami")

    assert (ran.code, ran.err) == (4, "error: you are not signed in: `clusterra login`\n"), ran


async def test_squeue_without_a_token_names_the_sign_in(command: CommandLine) -> None:
    environment = {**command.variables, "HOME": str(command.home), "CLUSTERRA_CONFIG": str(command.home / "none.toml")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clusterra_cli.slurm_commands", "squeue"), stdout=PIPE, stderr=PIPE, env=environment
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()

    assert (process.returncode, out) == (1, b"")
    assert err == b"slurm_load_jobs error: Protocol authentication error: sign in with `clusterra login`\n"


async def test_nothing_on_stdin_is_no_script(ada: CommandLine) -> None:
    ran = await ada("submit")

    assert (ran.code, ran.err) == (2, "error: no script\nname a file, or send one to stdin\n"), ran


async def test_the_cluster_is_named_by_an_option(ada: CommandLine) -> None:
    ran = await ada.having(CLUSTERRA_CLUSTER="")("jobs")

    assert ran.code == 2, ran
    assert "give --cluster," in ran.err
