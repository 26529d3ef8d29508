"""Reads of job output, and waits for more of it."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.edge_folders import LocalUser
from clusterra_contracts.rpc.reply import Reply
from clusterra_edge_agent.folders.folder_requests import FolderRequests
from clusterra_edge_agent.folders.user_process import UserProcesses
from clusterra_edge_agent.logs import job_output, log_reads
from clusterra_edge_agent.logs.log_reads import LogReader
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.rpc import RpcFailed

ADA, BOB = 20001, 20002
ABOUT = Subject("edge", ClusterRef(tenant="acme", cluster="c1"), "log")


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[LogReader]:
    folders = FolderRequests(tmp_path)
    logs = LogReader(tmp_path, folders.opened_as)
    yield logs
    logs.close()
    folders.close()


def request(uid: int, **fields: object) -> ReadLog:
    return ReadLog.model_validate({"job_id": "7", "uid": uid, **fields})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    file = tmp_path / "job_7.out"
    file.write_bytes(b"one\n")
    return file


async def test_existing_output_is_returned_immediately(logs: LogReader, output: Path) -> None:
    async with asyncio.timeout(90):
        chunk = await logs.read(ABOUT, request(output.stat().st_uid, wait_seconds=30))
    assert (chunk.offset, chunk.size, chunk.data) == (0, 4, b"one\n")


async def test_arbitrary_bytes_survive_serialization(logs: LogReader, output: Path) -> None:
    content = bytes(range(256)) + base64.b64encode(b"looks like base64")
    output.write_bytes(content)
    chunk = await logs.read(ABOUT, request(output.stat().st_uid))

    sent = Reply(result=chunk).model_dump_json()

    assert base64.b64decode(json.loads(sent)["result"]["data"]) == content
    assert Reply[LogChunk].model_validate_json(sent).result == LogChunk.model_construct(
        offset=0, size=len(content), data=content
    )


async def test_a_reader_at_the_end_waits_until_more_is_written(logs: LogReader, output: Path) -> None:
    reading = asyncio.create_task(logs.read(ABOUT, request(output.stat().st_uid, offset=4, wait_seconds=30)))
    done, _ = await asyncio.wait([reading], timeout=3 * log_reads.POLL_SECONDS)
    assert not done

    with output.open("ab") as file:
        file.write(b"two\n")
    async with asyncio.timeout(90):
        chunk = await reading
    assert (chunk.offset, chunk.size, chunk.data) == (4, 8, b"two\n")


@pytest.mark.parametrize("offset", [4, 5, 10**15])
async def test_the_reply_is_empty_after_the_wait_time(logs: LogReader, output: Path, offset: int) -> None:
    loop = asyncio.get_running_loop()
    asked = loop.time()
    chunk = await logs.read(ABOUT, request(output.stat().st_uid, offset=offset, wait_seconds=0.3))
    assert 0.25 < loop.time() - asked < 20
    assert (chunk.offset, chunk.size, chunk.data) == (offset, 4, b"")


async def test_an_offset_beyond_the_end_of_a_rewritten_file_returns_nothing(logs: LogReader, output: Path) -> None:
    output.write_bytes(b"")
    chunk = await logs.read(ABOUT, request(output.stat().st_uid, offset=4))
    assert (chunk.offset, chunk.size, chunk.data) == (4, 0, b"")


async def test_missing_and_foreign_output_is_not_found(logs: LogReader, output: Path) -> None:
    for asked in (request(output.stat().st_uid + 1), request(output.stat().st_uid, job_id="8")):
        with pytest.raises(RpcFailed) as failed:
            await logs.read(ABOUT, asked)
        assert failed.value.error.kind == "not_found"


async def test_too_many_entries_are_said(logs: LogReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_output, "MAX_ENTRIES", 1)
    for name in ("alice", "bob"):
        (tmp_path / name).mkdir()

    with pytest.raises(RpcFailed) as failed:
        await logs.read(ABOUT, request(tmp_path.stat().st_uid))

    assert failed.value.error.kind == "unavailable"
    assert "too many entries" in failed.value.error.detail


async def test_output_deleted_during_a_wait_is_not_found(logs: LogReader, output: Path) -> None:
    reading = asyncio.create_task(logs.read(ABOUT, request(output.stat().st_uid, offset=4, wait_seconds=30)))
    await asyncio.wait([reading], timeout=log_reads.POLL_SECONDS)

    output.unlink()

    with pytest.raises(RpcFailed) as failed:
        async with asyncio.timeout(90):
            await reading
    assert failed.value.error.kind == "not_found"


AGENT = """
import asyncio, sys
from pathlib import Path
from clusterra_contracts.rpc.edge import ReadLog
from clusterra_edge_agent.folders.folder_requests import FolderRequests
from clusterra_edge_agent.logs.log_reads import LogReader
from clusterra_runtime.nats.rpc import RpcFailed

async def main(shared, *asked):
    logs = LogReader(shared, FolderRequests(shared).opened_as)
    for uid, path in (each.split(":") for each in asked):
        try:
            print((await logs.read(None, ReadLog(job_id="7", uid=int(uid), path=path))).data.decode())
        except RpcFailed as failed:
            print(failed.error.kind)
    logs.close()

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""
RIGHTS = ("setpriv", "--bounding-set=-all,+setgid,+setuid", "--inh-caps=-all")
"""Root that may become another user, and nothing else: the agent of the component `staging` of k8s/edge."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_output_that_is_closed_to_the_agent_is_read_as_its_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for name, uid in (("mine.out", ADA), ("planted.out", BOB)):
        (home / name).write_text("mine")
        (home / name).chmod(0o600)
        os.chown(home / name, uid, uid)
    os.chown(home, ADA, ADA)
    (tmp_path / "open.out").write_text("bob's")
    (tmp_path / "open.out").chmod(0o600)
    os.chown(tmp_path / "open.out", BOB, BOB)
    asked = (f"{ADA}:home/mine.out", f"{BOB}:home/planted.out", f"{BOB}:home/mine.out", f"{BOB}:open.out", "0:open.out")

    agent = subprocess.run(
        [*RIGHTS, sys.executable, "-c", AGENT, tmp_path, *asked, f"{ADA}:open.out"],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert agent.stdout.split("\n")[:-1] == ["mine", "not_found", "not_found", "bob's", "not_found", "not_found"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_user_whose_outputs_hang_leaves_threads_to_others(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where jobs run on the agent's host, a user can stop the process that opens files as them."""
    goes_on, answered, begun = threading.Event(), UserProcesses._answered, list[int]()

    def held_up(processes: UserProcesses, user: LocalUser, request: bytes) -> Any:
        begun.append(user.uid)
        if user.uid == ADA:
            goes_on.wait()
        return answered(processes, user, request)

    def closed(_shared: Path, path: str, uid: int) -> job_output.OutputLocation:
        if path.startswith("home/"):
            raise job_output.ClosedOutput
        return located(tmp_path, path, uid)

    tmp_path.chmod(0o755)
    (tmp_path / "home").mkdir(mode=0o755)
    for uid in (ADA, BOB):
        file = tmp_path / f"home/{uid}.out"
        file.write_text("mine")
        os.chown(file, uid, uid)
    located = job_output.located
    monkeypatch.setattr(UserProcesses, "_answered", held_up)
    monkeypatch.setattr(job_output, "located", closed)
    folders = FolderRequests(tmp_path)
    logs = LogReader(tmp_path, folders.opened_as)
    of_ada = [asyncio.create_task(logs.read(ABOUT, request(ADA, path=f"home/{ADA}.out"))) for _ in range(8)]
    try:
        await until(lambda: len(begun) >= 2, seconds=90, what="all threads that ada may have")
        async with asyncio.timeout(90):
            shared = await logs.read(ABOUT, request(output.stat().st_uid, path=output.name))
            home = await logs.read(ABOUT, request(BOB, path=f"home/{BOB}.out"))
    finally:
        goes_on.set()
        of_ada_read = await asyncio.gather(*of_ada)
        logs.close()
        folders.close()

    assert (shared.data, home.data, of_ada_read[0].data) == (b"one\n", b"mine", b"mine")


async def test_an_unreadable_shared_folder_is_unavailable(tmp_path: Path) -> None:
    folder = tmp_path / "unmounted"
    logs = LogReader(folder, FolderRequests(folder).opened_as)
    with pytest.raises(RpcFailed) as failed:
        await logs.read(ABOUT, request(1000))
    logs.close()
    assert failed.value.error.kind == "unavailable"


async def test_waiting_readers_are_limited_and_all_are_answered_at_shutdown(
    logs: LogReader, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reads, "MAX_WAITING", 3)
    asked = request(output.stat().st_uid, offset=4, wait_seconds=30)
    readers = [asyncio.create_task(logs.read(ABOUT, asked)) for _ in range(5)]
    rejected, waiting = await asyncio.wait(readers, timeout=20, return_when=asyncio.FIRST_COMPLETED)
    while len(rejected) < 2:
        more, waiting = await asyncio.wait(waiting, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert more
        rejected |= more

    kinds = [error.error.kind for reader in rejected if isinstance(error := reader.exception(), RpcFailed)]

    assert kinds == ["unavailable", "unavailable"]
    assert (await logs.read(ABOUT, request(output.stat().st_uid))).data == b"one\n", (
        "readers that do not wait are still served"
    )

    logs.end_waits()
    async with asyncio.timeout(90):
        assert [chunk.data for chunk in await asyncio.gather(*waiting)] == [b""] * 3
