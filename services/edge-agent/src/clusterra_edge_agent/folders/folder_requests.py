"""Serves the requests of this room: reads of folders and files, and staging."""

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_folders import ListFolder, LocalUser, ReadFile
from clusterra_contracts.rpc.edge_staging import Stage
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client
from pydantic import ValidationError

from clusterra_edge_agent.folders.folder_reads import MAX_READS, FolderReads
from clusterra_edge_agent.folders.staging_runs import MAX_REQUESTS, StagingRuns
from clusterra_edge_agent.folders.user_process import FolderRefused, FolderUnavailable, UserProcesses

_NO_GROUP = 65534
"""The group of nobody, as Linux has it. The owner of a file needs none."""


class FolderRequests:
    """What is served of one shared folder."""

    def __init__(self, shared_dir: Path) -> None:
        self._processes = UserProcesses(shared_dir)
        self._reads, self._staging = FolderReads(self._processes), StagingRuns(self._processes)

    @contextmanager
    def opened_as(self, uid: int, path: str) -> Iterator[int]:
        """Opens a file with the rights of a uid alone. Raises FileNotFoundError where it may not, OSError."""
        with ExitStack() as opened:
            try:
                user = LocalUser(uid=uid, gid=_NO_GROUP)
                file, _ = opened.enter_context(self._processes.opened_file(user, path))
            except (FolderRefused, ValidationError) as error:
                raise FileNotFoundError(str(error)) from None
            except FolderUnavailable as error:
                raise OSError(errno.EIO, str(error)) from error
            yield file

    async def serve(self, client: Client, ref: ClusterRef) -> Callable[[], Awaitable[None]]:
        """Serve until the returned function is called."""
        serve = partial(rpc.serve, client)
        served = (
            await serve(subjects.edge(ref, "folder"), ListFolder, self._reads.folder, concurrency=MAX_READS),
            await serve(subjects.edge(ref, "file"), ReadFile, self._reads.file, concurrency=MAX_READS),
            await serve(subjects.edge(ref, "stage"), Stage, self._staging.stage, concurrency=MAX_REQUESTS),
        )

        async def end() -> None:
            for each in served:
                await each.unsubscribe()

        return end

    def end_works(self) -> None:
        """Ends what is being staged. The next agent goes on with it."""
        self._staging.end_works()

    def close(self) -> None:
        """Shuts the threads down."""
        self._reads.close()
        self._staging.close()
