"""`clusterra files` on the lab: copies both ways, also while the gateway or the command itself is killed."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from command_line import CommandLine
from staged_files import cluster_path, downloaded, uploaded

MIB = 1024**2
LARGE = 120 * MIB
PARTS = ("--part-size", "5")


def large(seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(LARGE)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture
async def command(lab: Stack, ada: User, tmp_path: Path) -> AsyncIterator[CommandLine]:
    variables = {"CLUSTERRA_URL": lab.gateway_url, "CLUSTERRA_CLUSTER": lab.cluster.cluster}
    async with ada.api_token("files") as token:
        command = CommandLine(tmp_path, variables | {"CLUSTERRA_TOKEN": token})
        yield command
        for area in ("data", "outputs"):
            await command("files", "rm", "-r", area)


async def test_files_are_copied_listed_and_deleted(command: CommandLine) -> None:
    here = command.home
    (here / "x.csv").write_text("sample,reads\n")

    up = await command("files", "cp", "x.csv", "bucket:data/")
    piped = await command("files", "cp", "-", "bucket:data/deep/y", "--json", stdin="from a pipe")
    listed = await command("files", "ls", "data")
    long = await command("files", "ls", "-l", "--recursive", "bucket:data")
    alone = (await command("files", "ls", "data/x.csv", "--json")).json
    down = await command("files", "cp", "bucket:data/x.csv", "copy.csv", "-q")
    out = await command("files", "cp", "bucket:data/deep/y", "-")
    within = await command("files", "cp", "bucket:data/x.csv", "bucket:outputs/z.csv")

    assert (up.code, up.out, up.err) == (0, "", ""), up
    assert piped.json == {"path": "bucket:data/deep/y"}
    assert listed.out == "data/deep/\ndata/x.csv\n"
    assert [line.split()[0] for line in long.out.splitlines()] == ["SIZE", "11", "13"]
    assert [(each["path"], each["size"]) for each in alone] == [("data/x.csv", 13)]
    assert (down.out, (here / "copy.csv").read_text()) == ("copy.csv\n", "sample,reads\n"), down
    assert out.out == "from a pipe"
    assert within.code == 0, within
    assert (await command("files", "ls")).out == "scripts/\ndata/\noutputs/\nshared/\n"
    assert (await command("files", "rm", "bucket:outputs/z.csv", "-q")).out == "outputs/z.csv\n"
    folder = await command("files", "rm", "data/deep")
    assert (folder.code, folder.err) == (2, "error: data/deep is a folder\n-r deletes it with all below it\n"), folder
    assert (await command("files", "rm", "-r", "data", "--json")).json["deleted"] == ["data/deep/y", "data/x.csv"]
    assert (await command("files", "ls", "data")).out == ""


async def test_folders_are_made_equal(command: CommandLine) -> None:
    here = command.home
    (here / "run" / "deep").mkdir(parents=True)
    (here / "run" / "a").write_text("a")
    (here / "run" / "deep" / "b").write_text("b")

    dry = await command("files", "sync", "--dry-run", "run", "bucket:data/run")
    up = await command("files", "sync", "run", "bucket:data/run", "--json")
    again = await command("files", "sync", "run", "bucket:data/run", "--json")
    down = await command("files", "cp", "-r", "bucket:data/run", "copy")
    (here / "run" / "a").unlink()
    deleted = await command("files", "sync", "--delete", "run", "bucket:data/run", "--json")

    assert dry.out == "copy    data/run/a\ncopy    data/run/deep/b\n"
    assert sorted(up.json["copied"]) == ["data/run/a", "data/run/deep/b"]
    assert (again.json["copied"], again.json["unchanged"]) == ([], 2)
    assert (down.code, down.err) == (0, "copied 2, deleted 0, unchanged 0\n"), down
    assert (here / "copy" / "deep" / "b").read_text() == "b"
    assert (deleted.json["deleted"], deleted.json["unchanged"]) == (["data/run/a"], 1)


async def test_what_goes_wrong_has_its_own_exit_code(command: CommandLine) -> None:
    (command.home / "folder").mkdir()
    (command.home / "x").write_text("x")
    ran = {
        2: await command("files", "cp", "x", "y"),
        5: await command("files", "cp", "bucket:data/none", "y"),
        6: await command("files", "cp", "x", "bucket:data/../x"),
        1: await command("files", "cp", "none", "bucket:data/"),
    }

    assert {code: each.code for code, each in ran.items()} == {code: code for code in ran}, ran
    assert "ignature" not in "".join(each.err for each in ran.values())
    assert (await command("files", "cp", "folder", "bucket:data/")).code == 2
    assert (await command("files", "rm", "data/none")).code == 5
    assert (await command("files", "ls", "data/none")).code == 5


async def test_an_upload_goes_on_while_the_gateway_is_killed(lab: Stack, ada: User, command: CommandLine) -> None:
    source = command.home / "large.bin"
    source.write_bytes(large())
    process = await command.start("files", "cp", "large.bin", "bucket:data/", *PARTS)
    await until(lambda: _some_parts(lab, ada), seconds=90, what="parts in the bucket", every=0.05)

    lab.services["gateway"].kill()
    assert process.returncode is None, "it was too quick to be cut"
    await lab.restart("gateway")
    async with asyncio.timeout(180):
        _, told = await process.communicate()

    assert process.returncode == 0, told
    assert hashlib.sha256(await downloaded(lab, ada, "data/large.bin") or b"").hexdigest() == digest(source)


async def _some_parts(lab: Stack, ada: User) -> bool:
    async with ada.session.get(cluster_path(lab, "files/uploads"), params={"path": "data/large.bin"}) as answer:
        found = (await answer.json())["uploads"]
    if not found:
        return False
    path = cluster_path(lab, f"files/uploads/{found[0]['upload_id']}/parts")
    async with ada.session.get(path, params={"path": "data/large.bin"}) as answer:
        return answer.status == 200 and len((await answer.json())["parts"]) >= 2


async def test_a_command_that_is_killed_goes_on_both_ways(lab: Stack, ada: User, command: CommandLine) -> None:
    source, target = command.home / "large.bin", command.home / "back.bin"
    source.write_bytes(large(2))

    up = await command.start("files", "cp", "large.bin", "bucket:data/", *PARTS)
    await until(lambda: _some_parts(lab, ada), seconds=90, what="parts in the bucket", every=0.05)
    up.kill()
    await up.communicate()
    assert await downloaded(lab, ada, "data/large.bin") is None
    assert (await command("files", "cp", "large.bin", "bucket:data/", *PARTS)).code == 0

    down = await command.start("files", "cp", "bucket:data/large.bin", "back.bin")
    await until(lambda: _a_range(command.home), seconds=90, what="a part file", every=0.02)
    down.kill()
    await down.communicate()
    lab.services["gateway"].kill()
    resumed = await command.start("files", "cp", "bucket:data/large.bin", "back.bin")
    await lab.restart("gateway")
    async with asyncio.timeout(180):
        _, told = await resumed.communicate()

    assert resumed.returncode == 0, told
    assert digest(target) == digest(source)
    assert list(command.home.glob(".clusterra-*")) == []


async def _a_range(folder: Path) -> bool:
    return any(each.stat().st_size > LARGE for each in folder.glob(".clusterra-*.part"))


async def test_downloads_go_on_while_the_gateway_is_killed(lab: Stack, ada: User, command: CommandLine) -> None:
    contents = {f"data/many/{number}": random.Random(number).randbytes(MIB) for number in range(40)}
    for path, content in contents.items():
        await uploaded(lab, ada, path, content)
    process = await command.start("files", "cp", "-r", "bucket:data/many", "many")
    await until(lambda: _some_files(command.home / "many"), seconds=90, what="the first files", every=0.02)

    lab.services["gateway"].kill()
    assert process.returncode is None, "it was too quick to be cut"
    await lab.restart("gateway")
    async with asyncio.timeout(180):
        _, told = await process.communicate()

    assert process.returncode == 0, told
    found = {f"data/many/{each.name}": each.read_bytes() for each in (command.home / "many").iterdir()}
    assert found == contents


async def _some_files(folder: Path) -> bool:
    return folder.is_dir() and any(not each.name.startswith(".") for each in folder.iterdir())
