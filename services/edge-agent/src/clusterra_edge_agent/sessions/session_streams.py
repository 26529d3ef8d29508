"""Answers for sessions: whether one can be reached, and connections to its server."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_streams import ReadSession, SessionJob, SessionReady
from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.byte_stream.acceptor import DEFAULT_LIMITS, Acceptor, Limits
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_edge_agent.sessions import session_file
from clusterra_edge_agent.sessions.session_file import NoSessionFile, SessionFile
from clusterra_edge_agent.substrate.port import SessionServer, Substrate, SubstrateUnavailable

PROBE_SECONDS = 2.0


class SessionStreams:
    """Connects to the servers of sessions that run on this edge's workers, and to nothing else.

    A request names a job, its owner and a worker. The port is the one that the owner's file names, and the server must
    be the owner's; nobody can name another host or port.
    """

    def __init__(self, shared_dir: Path, substrate: Substrate, limits: Limits = DEFAULT_LIMITS) -> None:
        self._shared_dir = shared_dir
        self._substrate = substrate
        self._acceptor = Acceptor(self.connect, limits)

    async def serve(self, client: Client, ref: ClusterRef) -> Callable[[], Awaitable[None]]:
        """Answer the requests about a cluster's sessions. Returns a function that stops that and ends all streams."""
        reads = await rpc.serve(client, subjects.edge(ref, "session"), ReadSession, self.read)
        end_streams = await self._acceptor.serve(client, ref)

        async def end() -> None:
            await reads.unsubscribe()
            await end_streams()

        return end

    async def run(self) -> None:
        """Ends streams that are idle or left behind, until cancelled."""
        await self._acceptor.run()

    def close(self) -> None:
        """End all streams."""
        self._acceptor.close()

    async def read(self, _subject: Subject, request: ReadSession) -> SessionReady:
        """Returns how a session is used once its server takes connections.

        Raises RpcFailed: `not_found` before that, `unavailable` when the folder or the workers cannot be read.
        """
        told, host = await self._located(request.session)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _, writer = await asyncio.open_connection(host, told.port)
        except (OSError, TimeoutError):
            raise _failed("not_found", "the session's server does not take connections yet") from None
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        streams, idle_seconds = self._acceptor.use_of(request.session.job_id)
        return SessionReady(
            strip_prefix=told.strip_prefix,
            token_cookie=told.token_cookie,
            streams=streams,
            idle_seconds=idle_seconds,
        )

    async def connect(self, session: SessionJob) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to a session's server. Raises RpcFailed, OSError."""
        told, host = await self._located(session)
        reader, writer = await asyncio.open_connection(host, told.port)
        # Once more: the server may have ended between the check and the connection, and another user's accepted it.
        try:
            again, same_host = await self._located(session, writer.get_extra_info("sockname")[1])
        except RpcFailed:
            writer.transport.abort()
            raise
        if (again.port, same_host) != (told.port, host):
            writer.transport.abort()
            raise _failed("not_found", "the session's server has just changed")
        return reader, writer

    async def _located(self, session: SessionJob, client_port: int | None = None) -> tuple[SessionFile, str]:
        """What a session has told, and the host of its server. Raises RpcFailed.

        `client_port`: our port of a connection to the server, which the session's owner must have accepted, too.
        """
        try:
            told = await asyncio.to_thread(session_file.read, self._shared_dir, session.job_id, session.uid)
            server = SessionServer(session.job_id, session.uid, told.port, client_port)
            host = await self._substrate.session_host(session.worker, server)
        except NoSessionFile as error:
            raise _failed("not_found", str(error)) from None
        except OSError as error:
            raise _failed("unavailable", f"the shared folder cannot be read ({error.strerror})") from error
        except SubstrateUnavailable as error:
            raise _failed("unavailable", str(error)) from error
        if host is None:
            raise _failed("not_found", f"no server of the job's owner listens on port {told.port} of its worker")
        return told, host


def _failed(kind: ErrorKind, detail: str) -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail, effect="none"))
