"""Answers reads of the shared folder: pages of folders, and parts of files, as a user may see them."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.identity import from_epoch
from clusterra_contracts.rpc.edge_folders import FileChunk, FolderEntry, FolderPage, ListFolder, ReadFile
from pydantic import ValidationError

from clusterra_edge_agent.folders.failures import failed, failure
from clusterra_edge_agent.folders.user_process import FolderRefused, FolderUnavailable, UserProcesses
from clusterra_edge_agent.folders.user_turns import user_turns

MAX_READS = 64
"""The most requests at once. Further ones wait for their turn."""
THREADS = 4
THREADS_OF_USER = 2
WAITING_OF_USER = 14


class FolderReads:
    """Reads in threads: each read starts a process, and the shared folder may be slow."""

    def __init__(self, processes: UserProcesses) -> None:
        self._processes = processes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="folders")
        self._turns = user_turns(THREADS_OF_USER, WAITING_OF_USER)

    def close(self) -> None:
        """Shuts the threads down."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def folder(self, _subject: Subject, request: ListFolder) -> FolderPage:
        """Return a page of a folder. Raises RpcFailed."""
        return await self._in_thread(self._page, request)

    async def file(self, _subject: Subject, request: ReadFile) -> FileChunk:
        """Return a part of a file. Raises RpcFailed."""
        return await self._in_thread(self._chunk, request)

    def _page(self, request: ListFolder) -> FolderPage:
        told = self._processes.ask(request.user, "list", path=request.path, after=request.after, limit=request.limit)
        entries: list[FolderEntry] = []
        for each in told["entries"]:
            try:
                entries.append(_entry(each))
            except (ValidationError, ValueError, OverflowError):
                continue
        unreadable = told["unreadable"] + len(told["entries"]) - len(entries)
        return FolderPage(entries=tuple(entries), unreadable=unreadable, after=told["after"])

    def _chunk(self, request: ReadFile) -> FileChunk:
        with self._processes.opened_file(request.user, request.path) as (file, modified_ns):
            size = os.fstat(file).st_size
            length = max(0, min(request.limit, size - request.offset))
            data = os.pread(file, length, request.offset) if length else b""
        # Not validated: pydantic would take the bytes for base64.
        return FileChunk.model_construct(offset=request.offset, size=size, modified_ns=modified_ns, data=data)

    async def _in_thread[Q: (ListFolder, ReadFile), A](self, work: Callable[[Q], A], request: Q) -> A:
        try:
            async with self._turns.turn(request.user.uid):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work, request)
        except (FolderRefused, FolderUnavailable) as error:
            raise failure(error) from None
        except OSError as error:
            detail = f"the shared folder cannot be read ({error.strerror})"
            raise failed("unavailable", detail, "try again later") from error


def _entry(told: dict[str, Any]) -> FolderEntry:
    at = from_epoch(told["at"])
    return FolderEntry(name=told["name"], kind=told["kind"], size=told["size"], modified_at=at)
