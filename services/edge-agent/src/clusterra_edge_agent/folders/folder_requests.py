"""Serves the requests of this room: reads of folders and files, and staging."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_folders import ListFolder, ReadFile
from clusterra_contracts.rpc.edge_staging import Stage
from clusterra_runtime.nats import rpc
from clusterra_runtime.nats.client import Client

from clusterra_edge_agent.folders.folder_reads import MAX_READS, FolderReads
from clusterra_edge_agent.folders.output_files import OutputFiles
from clusterra_edge_agent.folders.staging_runs import MAX_REQUESTS, StagingRuns
from clusterra_edge_agent.folders.user_process import UserProcesses


class FolderRequests:
    """What is served of one shared folder."""

    def __init__(self, shared_dir: Path) -> None:
        processes = UserProcesses(shared_dir)
        self._reads, self._staging, self._outputs = (
            FolderReads(processes),
            StagingRuns(processes),
            OutputFiles(processes),
        )

    def opened_as(self, uid: int, path: str) -> AbstractAsyncContextManager[int]:
        """Opens an output with the rights of a uid alone. See `OutputFiles.opened`."""
        return self._outputs.opened(uid, path)

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
        self._outputs.close()
