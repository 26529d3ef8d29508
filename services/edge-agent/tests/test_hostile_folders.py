"""Folders whose names and files mean harm: what the edge tells of them, over real NATS. It needs root."""

import asyncio
import hashlib
import os
import random
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_folders import FolderPage, ListFolder, LocalUser
from clusterra_contracts.rpc.edge_staging import FindFiles, Stage, Staged
from clusterra_edge_agent.folders.folder_requests import FolderRequests
from clusterra_edge_agent.folders.user_process import FolderRefused, UserProcesses
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.nats.bus import Client

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

REF = ClusterRef(tenant="acme", cluster="main")
ADA, BOB = LocalUser(uid=20001, gid=20001), LocalUser(uid=20002, gid=20002)
CONTROL = [chr(code) for code in range(1, 32)]
"""Each takes six bytes in JSON."""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    tmp_path.chmod(0o777)
    return tmp_path


@pytest.fixture
async def client(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of a bus on which the folder is served."""
    async with nats_server(tmp_path_factory.mktemp("nats")) as nats:
        client = await bus.connect(nats.settings(), "edge-agent")
        requests = FolderRequests(shared)
        end = await requests.serve(client, REF)
        yield client
        await end()
        requests.end_works()
        requests.close()
        await bus.close(client)


def odd_name(number: int) -> str:
    """A name of 255 characters that no compression makes much smaller."""
    chosen = random.Random(number)
    return f"{number:04}" + "".join(chosen.choices(CONTROL, k=251))


async def found(client: Client, after: str = "") -> Staged:
    work = FindFiles(folder="", patterns=("**",), after=after)
    digest = hashlib.sha256(after.encode()).hexdigest()[:32]
    request = Stage(id=digest, user=ADA, work=work, wait_seconds=20)
    return await rpc.call(client, subjects.edge(REF, "stage"), request, Staged, timeout_seconds=60)


@pytest.mark.parametrize("depth", [3, 20])
async def test_outputs_with_the_longest_and_oddest_paths_are_found_in_pages(
    client: Client, shared: Path, depth: int
) -> None:
    folder = os.open(shared, os.O_RDONLY)
    for level in range(depth):
        name = odd_name(level)
        os.mkdir(name, dir_fd=folder)
        folder = os.open(name, os.O_RDONLY, dir_fd=folder)
    for number in range(250):
        os.close(os.open(odd_name(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    seen: list[str] = []
    after: str | None = ""

    while after is not None:
        page = await found(client, after)
        seen += [*(file.path for file in page.found), *(problem.path for problem in page.problems)]
        after = page.after

    assert len(set(seen)) == len(seen) == 250


def planted(folder: Path, *, size: int = 5) -> None:
    """What bob puts where he expects the temporary file of ada's download."""
    plant = folder / ".clusterra-mark.part"
    plant.write_text("x" * size)
    plant.chmod(0o666)
    os.chown(plant, BOB.uid, BOB.gid)


def test_a_download_does_not_go_on_behind_what_another_user_has_written(shared: Path) -> None:
    planted(shared)
    processes = UserProcesses(shared)

    with processes.opened(ADA, "create", folder="", path="a.txt", temporary=".clusterra-mark.part") as (told, (file,)):
        owner = os.fstat(file).st_uid

    assert (told["size"], owner) == (0, ADA.uid)


def test_where_it_cannot_be_removed_nothing_is_downloaded(shared: Path) -> None:
    shared.chmod(0o1777)
    planted(shared)
    processes = UserProcesses(shared)

    with (
        pytest.raises(FolderRefused),
        processes.opened(ADA, "create", folder="", path="a.txt", temporary=".clusterra-mark.part"),
    ):
        pass

    assert (shared / ".clusterra-mark.part").read_text() == "xxxxx"


async def test_a_user_whose_files_hang_leaves_threads_to_others(
    client: Client, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "a.txt").touch()
    goes_on, answered, begun = threading.Event(), UserProcesses._answered, list[LocalUser]()

    def held_up(processes: UserProcesses, user: LocalUser, request: bytes) -> Any:
        begun.append(user)
        if user == ADA:
            goes_on.wait()
        return answered(processes, user, request)

    async def read(user: LocalUser) -> None:
        await rpc.call(client, subjects.edge(REF, "folder"), ListFolder(user=user), FolderPage, timeout_seconds=60)

    async def staged(user: LocalUser, number: int) -> None:
        work = FindFiles(folder="", patterns=("*.txt",))
        request = Stage(id=f"{user.uid:016}{number:016}", user=user, work=work, wait_seconds=20)
        told = await rpc.call(client, subjects.edge(REF, "stage"), request, Staged, timeout_seconds=60)
        assert told.state == "done"

    monkeypatch.setattr(UserProcesses, "_answered", held_up)
    of_ada = [asyncio.create_task(each) for number in range(8) for each in (read(ADA), staged(ADA, number))]
    try:
        await until(lambda: len(begun) >= 4, seconds=90, what="all threads that ada may have")
        async with asyncio.timeout(90):
            await read(BOB)
            await staged(BOB, 0)
    finally:
        goes_on.set()
        await asyncio.gather(*of_ada)
