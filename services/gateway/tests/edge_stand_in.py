"""Stands in for the edge of a cluster: its jobs' output, and the folders and files of its shared file system."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from answering import rpc_failure
from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge import LogChunk, ReadLog
from clusterra_contracts.rpc.edge_folders import FileChunk, FolderPage, ListFolder, ReadFile
from clusterra_contracts.rpc.reply import ErrorKind
from clusterra_contracts.rpc.slurm import Job
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import serve
from nats.aio.subscription import Subscription


@dataclass
class EdgeStandIn:
    """The test adds output."""

    jobs: dict[str, Job]
    output: dict[tuple[str, str], bytes] = field(default_factory=dict)
    reads: list[ReadLog] = field(default_factory=list)
    listings: list[ListFolder] = field(default_factory=list)
    folder_error: ErrorKind | None = None
    """Answers every look at a folder or a file with this error."""
    shared_file: bytes = b"shared\n"
    """What every file of the shared folder has."""
    file_reads: list[ReadFile] = field(default_factory=list)
    written: asyncio.Event = field(default_factory=asyncio.Event)

    def served(self, client: Client, ref: ClusterRef) -> tuple[Awaitable[Subscription], ...]:
        edge = f"edge.{ref.tenant}.{ref.cluster}"
        return (
            serve(client, f"{edge}.log", ReadLog, self._log),
            serve(client, f"{edge}.folder", ListFolder, self._folder),
            serve(client, f"{edge}.file", ReadFile, self._file),
        )

    def empty_output(self, job_id: str) -> None:
        self.output[job_id, "stdout"] = b""

    def write_output(self, job_id: str, data: bytes, stream: str = "stdout") -> None:
        self.output[job_id, stream] = self.output.get((job_id, stream), b"") + data
        self.written.set()
        self.written = asyncio.Event()

    async def _folder(self, _subject: Subject, request: ListFolder) -> FolderPage:
        self.listings.append(request)
        if self.folder_error is not None:
            raise rpc_failure(self.folder_error, "the edge opened nothing")
        return FolderPage(entries=())

    async def _file(self, _subject: Subject, request: ReadFile) -> FileChunk:
        self.file_reads.append(request)
        if self.folder_error is not None:
            raise rpc_failure(self.folder_error, "the edge opened nothing")
        data = self.shared_file[request.offset : request.offset + request.limit]
        size = len(self.shared_file)
        return FileChunk.model_construct(offset=request.offset, size=size, modified_ns=1, data=data)

    async def _log(self, _subject: Subject, request: ReadLog) -> LogChunk:
        self.reads.append(request)
        place = (request.job_id, request.stream)
        if place not in self.output or self.jobs[request.job_id].uid != request.uid:
            raise rpc_failure("not_found", "no such output")
        if len(self.output[place]) <= request.offset and request.wait_seconds:
            try:
                async with asyncio.timeout(request.wait_seconds):
                    await self.written.wait()
            except TimeoutError:
                pass
        written = self.output[place]
        data = written[request.offset : request.offset + request.limit]
        return LogChunk.model_construct(offset=request.offset, size=len(written), data=data)
