"""Commands never tell an empty list while nobody answers, and need no HTTP to refuse a command line."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.program import COMMANDS, install
from clusterra_lab.machine.ports import free_port

AWAY = "Unable to contact slurm controller (connect failure)"


async def ran(*argv: str, url: str = "", stdin: str = "") -> tuple[int, str, str]:
    environment = {
        "PATH": os.environ["PATH"],
        "CLUSTERRA_URL": url,
        "CLUSTERRA_TOKEN": "x",
        "CLUSTERRA_CLUSTER": "main",
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clusterra_cli.slurm_commands", *argv),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate(stdin.encode())
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("squeue", "-h"), f"slurm_load_jobs error: {AWAY}\n"),
        (("squeue", "-j", "5"), f"slurm_load_jobs error: {AWAY}\n"),
        (("sacct", "-n", "-j", "5"), f"sacct: error: {AWAY}\n"),
        (("scontrol", "show", "job", "5"), f"slurm_load_jobs error: {AWAY}\n"),
        (("sinfo", "-h"), f"slurm_load_partitions: {AWAY}\n"),
    ],
)
async def test_a_command_fails_as_slurms_own_while_nobody_answers(argv: tuple[str, ...], told: str) -> None:
    assert await ran(*argv, url=f"http://127.0.0.1:{free_port()}") == (1, "", told)


async def test_a_proxy_with_a_page_of_its_own_is_no_empty_list() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>"
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        code, out, err = await ran("squeue", "-h", url=f"http://127.0.0.1:{port}")

    assert (code, out) == (1, "")
    assert err.startswith("slurm_load_jobs error: ")


async def test_a_job_is_not_gone_where_the_cluster_is_not_there() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            body = b'{"errors": []}'
            head = f"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await answer(reader, writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code, out, err = await ran("squeue", "-h", "-j", "5", url=url)

    assert (code, out, err) == (1, "", f"slurm_load_jobs error: there is no cluster main at {url}\n")


@pytest.mark.parametrize(
    ("argv", "code", "told"),
    [
        (("sbatch", "--wrap", "true", "x"), 1, "sbatch: error: Script arguments not permitted with --wrap option\n"),
        (("sbatch", "/nowhere/script"), 1, "sbatch: error: Unable to open file /nowhere/script\n"),
        (("sbatch", "--foo"), 255, "sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n"),
        (("squeue", "-j", "abc"), 1, "squeue: error: Invalid job id: abc\n"),
        (("scancel",), 1, "scancel: error: No job identification provided\n"),
        (("sacct", "|", "tail", "-1"), 1, "sacct: invalid option -- '1'\n"),
        (("scontrol", "foo"), 1, "invalid keyword: foo\n"),
    ],
)
async def test_a_wrong_command_line_is_told_without_a_gateway(argv: tuple[str, ...], code: int, told: str) -> None:
    assert await ran(*argv) == (code, "", told)


async def test_scripts_that_sbatch_refuses() -> None:
    assert (await ran("sbatch", stdin=""))[2] == "sbatch: error: Batch script is empty!\n"
    assert "DOS line breaks" in (await ran("sbatch", stdin="#!/bin/sh\r\ntrue\r\n"))[2]
    assert "first line must begin with #!" in (await ran("sbatch", stdin="true\n"))[2]


def test_a_wrong_command_line_imports_nothing_slow() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "clusterra_cli.slurm_commands", "squeue", "--foo"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}

    assert not imported & {"httpx2", "pydantic", "rich", "typer", "keyring", "asyncio"}


def test_install_makes_links_and_replaces_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "clusterra-slurm")])
    folder = tmp_path / "bin"

    assert install([str(folder)]) == install([str(folder)]) == 0
    assert {each.name: each.readlink() for each in folder.iterdir()} == dict.fromkeys(
        COMMANDS, tmp_path / "clusterra-slurm"
    )

    (folder / "squeue").unlink()
    (folder / "squeue").write_text("Slurm's own")
    with pytest.raises(CommandFailed, match="squeue"):
        install([str(folder)])
    assert (folder / "squeue").read_text() == "Slurm's own"
