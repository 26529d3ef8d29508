"""What session files say, and to which servers the agent connects: real files, real TCP, real NATS."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_streams import ReadSession, SessionJob
from clusterra_edge_agent.sessions.session_streams import SessionStreams
from clusterra_edge_agent.substrate.port import SessionServer, Substrate
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.byte_stream.opener import ByteStream
from clusterra_runtime.nats.rpc import RpcFailed

REF = ClusterRef(tenant="acme", cluster="main")
OWNER, ANOTHER = 20001, 20002
SESSION = SessionJob(job_id="42", uid=OWNER, worker="general-small-x7k2p")
ABOUT = Subject("edge", REF, "session")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of several users need root")


class Workers:
    """A substrate that lets every server of the owner be reached; `test_session_host` has the real check."""

    def __init__(self) -> None:
        self.asked: list[SessionServer] = []
        self.host: str | None = "127.0.0.1"

    async def session_host(self, _worker: str, server: SessionServer) -> str | None:
        self.asked.append(server)
        return self.host


def streams(shared: Path, workers: Workers) -> SessionStreams:
    substrate: Any = workers
    return SessionStreams(shared, substrate)


def tell(shared: Path, content: str, *, uid: int = OWNER) -> None:
    file = shared / "job_42.session"
    file.write_text(content)
    os.chown(file, uid, uid)


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    """A server that greets and ends; yields its port."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    running = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with running:
        yield running.sockets[0].getsockname()[1]


async def refused(sessions: SessionStreams) -> RpcFailed:
    with pytest.raises(RpcFailed) as failed:
        await sessions.read(ABOUT, ReadSession(session=SESSION))
    return failed.value


async def test_a_session_that_has_told_its_port_is_ready(tmp_path: Path) -> None:
    workers = Workers()
    async with server() as port:
        tell(tmp_path, f'{{"port": {port}, "strip_prefix": true}}')

        ready = await streams(tmp_path, workers).read(ABOUT, ReadSession(session=SESSION))

    assert (ready.strip_prefix, ready.streams) == (True, 0)
    assert workers.asked == [SessionServer("42", OWNER, port)]


async def test_a_session_may_ask_for_its_token_in_a_cookie(tmp_path: Path) -> None:
    async with server() as port:
        tell(tmp_path, f'{{"port": {port}, "token_cookie": "code-server-session-42"}}')

        ready = await streams(tmp_path, Workers()).read(ABOUT, ReadSession(session=SESSION))

    assert ready.token_cookie == "code-server-session-42"


async def test_a_forged_session_file_counts_for_nothing(tmp_path: Path) -> None:
    workers = Workers()
    async with server() as port:
        tell(tmp_path, f'{{"port": {port}}}', uid=ANOTHER)

        failed = await refused(streams(tmp_path, workers))

    assert failed.error.kind == "not_found"
    assert workers.asked == []


async def test_a_link_to_a_session_file_counts_for_nothing(tmp_path: Path) -> None:
    tell(tmp_path, '{"port": 8888}')
    (tmp_path / "job_42.session").rename(tmp_path / "elsewhere")
    (tmp_path / "job_42.session").symlink_to("elsewhere")

    assert (await refused(streams(tmp_path, Workers()))).error.kind == "not_found"


async def test_an_empty_session_file_is_not_written_yet(tmp_path: Path) -> None:
    tell(tmp_path, "")

    failed = await refused(streams(tmp_path, Workers()))

    assert failed.error.kind == "not_found"
    assert failed.error.detail == "the job has not written job_42.session yet"


@pytest.mark.parametrize(
    "content",
    ["[]", "{}", '{"port": 22}', '{"port": "secret"}', '{"port": 8888, "token_cookie": "a; secret=b"}', "x" * 2000],
)
async def test_a_session_file_that_is_none_names_what_is_wrong(tmp_path: Path, content: str) -> None:
    tell(tmp_path, content)

    failed = await refused(streams(tmp_path, Workers()))

    assert failed.error.kind == "not_found"
    assert "job_42.session" in failed.error.detail
    assert "secret" not in failed.error.detail


async def test_a_server_that_the_substrate_does_not_allow_is_not_connected_to(tmp_path: Path) -> None:
    workers = Workers()
    workers.host = None
    async with server() as port:
        tell(tmp_path, f'{{"port": {port}}}')

        failed = await refused(streams(tmp_path, workers))

    assert f"port {port}" in failed.error.detail


async def test_a_port_where_nobody_listens_is_not_ready(tmp_path: Path) -> None:
    async with server() as port:
        pass
    tell(tmp_path, f'{{"port": {port}}}')

    assert (await refused(streams(tmp_path, Workers()))).error.kind == "not_found"


async def test_a_server_that_changes_hands_while_it_is_connected_to_is_left(tmp_path: Path) -> None:
    class Changing(Workers):
        async def session_host(self, worker: str, server: SessionServer) -> str | None:
            host = await super().session_host(worker, server)
            return host if len(self.asked) == 1 else None

    async with server() as port:
        tell(tmp_path, f'{{"port": {port}}}')

        with pytest.raises(RpcFailed, match="no server of the job's owner"):
            await streams(tmp_path, Changing()).connect(SESSION)


def idle_for(sessions: SessionStreams, seconds: float) -> Callable[[], Awaitable[bool]]:
    async def is_idle() -> bool:
        idle_seconds = (await sessions.read(ABOUT, ReadSession(session=SESSION))).idle_seconds
        return idle_seconds is not None and idle_seconds >= seconds

    return is_idle


@pytest.mark.parametrize("probe", [False, True])
async def test_bytes_over_the_bus_count_as_use_and_a_probe_does_not(tmp_path: Path, probe: bool) -> None:
    async with nats_server(tmp_path / "nats") as nats, server() as port:
        tell(tmp_path, f'{{"port": {port}}}')
        gateway = await bus.connect(nats.settings(), "gateway")
        agent = await bus.connect(nats.settings(), "edge-agent")
        sessions = streams(tmp_path, Workers())
        end = await sessions.serve(agent, REF)
        await until(idle_for(sessions, 0.2), seconds=10, what="some time without use")

        async with await ByteStream.open(gateway, REF, SESSION, probe=probe) as stream:
            got = await stream.read()
        ready = await sessions.read(ABOUT, ReadSession(session=SESSION))

        await end()
        await bus.close(agent)
        await bus.close(gateway)
    assert got == b"hello"
    assert ready.idle_seconds is not None
    assert (ready.idle_seconds >= 0.2) == probe


def test_the_stand_in_has_the_signature_of_the_port() -> None:
    assert Substrate.session_host.__annotations__["return"] == Workers.session_host.__annotations__["return"]
