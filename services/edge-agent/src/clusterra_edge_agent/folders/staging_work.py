"""Does one piece of staging work: finds, digests, uploads or downloads files as a user. Blocks: call it in a thread."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from clusterra_contracts.rpc.edge_staging import (
    MAX_TEXT,
    DigestFiles,
    FetchFiles,
    FileDownload,
    FileSums,
    FileUpload,
    FindFiles,
    FoundFile,
    LocalFile,
    MakeFolder,
    SendFiles,
    Stage,
    Staged,
    StagingProblem,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from clusterra_edge_agent.folders.transfers import BLOCK_BYTES, TransferFailed, download, upload
from clusterra_edge_agent.folders.user_process import FolderRefused, UserProcesses


class WorkEnded(Exception):
    """Nobody waits for the work any more, or the agent ends."""


class _Described(BaseModel):
    """What `as_user` tells of an opened file, or why it opened none."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    size: int = 0
    modified_ns: int = 0
    detail: str | None = None
    transient: bool = False


class StagingWork:
    """One request's work. `moved_bytes` grows while it runs."""

    def __init__(self, processes: UserProcesses, request: Stage) -> None:
        self._processes = processes
        self._request = request
        self._ended = Event()
        self.moved_bytes = 0

    def end(self) -> None:
        """Ends the work soon, before its time."""
        self._ended.set()

    def run(self) -> Staged:
        """Do the work. Raises FolderUnavailable, FolderRefused for the folder as a whole, and WorkEnded."""
        if self._ended.is_set():
            raise WorkEnded
        match self._request.work:
            case MakeFolder() as work:
                self._processes.ask(self._request.user, "make", folder=work.folder)
                return Staged(state="done")
            case FindFiles() as work:
                return self._found(work)
            case DigestFiles() as work:
                return self._digested(work)
            case SendFiles() as work:
                return self._sent(work)
            case FetchFiles() as work:
                return self._fetched(work)

    def _found(self, work: FindFiles) -> Staged:
        told = self._processes.ask(
            self._request.user,
            "find",
            folder=work.folder,
            patterns=work.patterns,
            after=work.after,
            limit=work.limit,
        )
        found, problems = list[FoundFile](), [_problem(each["path"], each["detail"]) for each in told["problems"]]
        for each in told["found"]:
            try:
                found.append(FoundFile.model_validate(each))
            except ValidationError:
                problems.append(_problem(str(each.get("path")), "its path cannot be told to the bucket"))
        return Staged(state="done", found=tuple(found), after=told["after"], problems=tuple(problems))

    def _digested(self, work: DigestFiles) -> Staged:
        sums: list[FileSums] = []
        problems: list[StagingProblem] = []
        with self._opened(work.folder, work.files, problems) as opened:
            for file, descriptor in opened:
                try:
                    told = [_sha256(descriptor, part.offset, part.length, self._moved) for part in file.parts]
                except (TransferFailed, OSError) as error:
                    problems.append(_failed(file.path, error))
                    continue
                sums.append(FileSums(path=file.path, sha256=tuple(told)))
        return Staged(state="done", moved_bytes=self.moved_bytes, sums=tuple(sums), problems=tuple(problems))

    def _sent(self, work: SendFiles) -> Staged:
        copied: list[str] = []
        problems: list[StagingProblem] = []
        with self._opened(work.folder, work.files, problems) as opened:
            for file, descriptor in opened:
                try:
                    self._send(file, descriptor)
                except (TransferFailed, OSError) as error:
                    problems.append(_failed(file.path, error))
                    continue
                copied.append(file.path)
        return Staged(state="done", moved_bytes=self.moved_bytes, copied=tuple(copied), problems=tuple(problems))

    def _send(self, file: FileUpload, descriptor: int) -> None:
        for part in file.parts:
            upload(descriptor, part.offset, part.length, part.url, part.headers, self._moved)

    def _fetched(self, work: FetchFiles) -> Staged:
        copied: list[str] = []
        problems: list[StagingProblem] = []
        for file in work.files:
            try:
                self._fetch(work.folder, file)
            except FolderRefused as refused:
                problems.append(_problem(file.path, str(refused)))
            except (TransferFailed, OSError) as error:
                problems.append(_failed(file.path, error))
            else:
                copied.append(file.path)
        return Staged(state="done", moved_bytes=self.moved_bytes, copied=tuple(copied), problems=tuple(problems))

    def _fetch(self, folder: str, file: FileDownload) -> None:
        # Of another object, or of another version of it, what an earlier attempt has left is of no use.
        mark = hashlib.sha256(f"{file.etag} {file.size} {file.path}".encode()).hexdigest()[:24]
        names = {"folder": folder, "path": file.path, "temporary": f".clusterra-{mark}.part"}
        with self._processes.opened(self._request.user, "create", **names) as (told, (descriptor,)):
            begin = min(int(told["size"]), file.size)
            if told["size"] > file.size:
                os.ftruncate(descriptor, file.size)
            if begin < file.size:
                download(descriptor, begin, file.size, file.url, file.etag, self._moved)
            os.fsync(descriptor)
        try:
            self._processes.ask(self._request.user, "commit", **names)
        except FolderRefused as refused:
            if refused.reason != "missing":
                raise
            # An agent that lost its leadership meanwhile was as fast, or somebody has removed the file.
            raise TransferFailed("its temporary file is gone", transient=True) from None

    @contextmanager
    def _opened[F: LocalFile](
        self, folder: str, files: tuple[F, ...], problems: list[StagingProblem]
    ) -> Iterator[list[tuple[F, int]]]:
        """The files that could be opened and are as they were found; of the others, the problems."""
        paths = [file.path for file in files]
        with self._processes.opened(self._request.user, "open", folder=folder, paths=paths) as (told, descriptors):
            left = iter(descriptors)
            opened: list[tuple[F, int]] = []
            for file, described in zip(files, map(_Described.model_validate, told["files"]), strict=True):
                if described.detail is not None:
                    problems.append(_problem(file.path, described.detail, transient=described.transient))
                    continue
                descriptor = next(left)
                if (described.size, described.modified_ns) != (file.size, file.modified_ns):
                    problems.append(_problem(file.path, "it has changed since it was found", transient=True))
                    continue
                opened.append((file, descriptor))
            yield opened

    def _moved(self, count: int) -> None:
        if self._ended.is_set():
            raise WorkEnded
        self.moved_bytes += count


def _sha256(file: int, offset: int, length: int, moved: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    while length:
        block = os.pread(file, min(BLOCK_BYTES, length), offset)
        if not block:
            raise TransferFailed("the file became shorter while it was read", transient=False)
        digest.update(block)
        moved(0)
        offset += len(block)
        length -= len(block)
    return base64.b64encode(digest.digest()).decode()


def _failed(path: str, error: TransferFailed | OSError) -> StagingProblem:
    if isinstance(error, TransferFailed):
        problem = _problem(path, error.detail, transient=error.transient)
        return problem.model_copy(update={"outage": error.outage})
    return _problem(path, os.strerror(error.errno or 0), transient=False)


def _problem(path: str, detail: str, *, transient: bool = False) -> StagingProblem:
    return StagingProblem(path=path, detail=detail[:MAX_TEXT], transient=transient)
