"""The files of a cluster's bucket, for programs with asyncio: `client.files` with `await`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from clusterra.files import listing, transfers, trees
from clusterra.files.bucket_files import BucketFiles
from clusterra.files.listing import Entry
from clusterra.files.progress import SILENT, Progress
from clusterra.files.trees import FolderReport, Options, Sync
from clusterra.http.async_transport import AsyncTransport
from clusterra.models import MovedFile, NotDeleted, StoredFile
from clusterra.operations.api import Api


class AsyncFiles:
    """The files of one cluster. A path is an area and a name, such as `data/run 1/input.csv`.

    Every method raises the errors of `clusterra.errors`: NotFound, FileChanged for a file that is written while it is
    copied, BucketRefused. No file is ever held in memory. Files of this machine are read and written in threads.
    """

    def __init__(self, transport: AsyncTransport, api: Api, cluster: str | None = None) -> None:
        self._transport = transport
        self._bucket = BucketFiles(api, cluster)

    def on(self, cluster: str) -> "AsyncFiles":
        """The files of another cluster of the gateway."""
        return AsyncFiles(self._transport, self._bucket.api, cluster)

    def list(self, folder: str = "", *, recursive: bool = False, limit: int | None = None) -> AsyncGenerator[Entry]:
        """What a folder has: `StoredFolder`s and `StoredFile`s; without a folder, the areas. Pages are read as needed.

        With `recursive`, the files of all folders below it. A folder without files does not exist.
        """
        return self._transport.iterate(listing.listed(self._bucket, folder, recursive=recursive, limit=limit))

    async def stat(self, path: str) -> StoredFile:
        """The size, the time and the ETag of one file."""
        return await self._transport.run(listing.stat(self._bucket, path))

    async def download(
        self, path: str, target: str | Path | BinaryIO, *, resume: bool = True, progress: Progress = SILENT
    ) -> None:
        """Download a file to a path, or write it to an open binary file.

        A path gets the whole file or stays as it was. What an interrupted download has is kept beside it, in a file
        `.clusterra-….part`, and the next download goes on with it unless the file in the bucket has changed.
        """
        await self._transport.run(transfers.download(self._bucket, path, target, resume=resume, progress=progress))

    async def upload(
        self,
        source: str | Path | bytes | BinaryIO,
        path: str,
        *,
        part_bytes: int | None = None,
        progress: Progress = SILENT,
    ) -> None:
        """Upload a file, some bytes, or what an open binary file still has, in place of a file that has the path.

        Files of more than `part_bytes` (64 MiB; 5 MiB at least) are sent in parts. After an interruption the same call
        sends only those that the bucket lacks. An open file is first copied to a temporary one.
        """
        with ExitStack() as closing:
            opened = await asyncio.to_thread(transfers.open_source, source, closing)
            await self._transport.run(transfers.upload(self._bucket, opened, path, part_bytes, progress))

    async def delete(self, path: str) -> None:
        """Delete a file. Raises NotFound."""
        await self._transport.run(listing.delete(self._bucket, path))

    async def delete_many(self, paths: Sequence[str]) -> tuple[NotDeleted, ...]:
        """Delete files, of which any may be missing. Returns those that could not be deleted."""
        return await self._transport.run(listing.delete_many(self._bucket, paths))

    async def copy(self, source: str, destination: str, *, overwrite: bool = False) -> MovedFile:
        """Copy a file within the bucket. Raises Refused where the destination exists, unless `overwrite`."""
        return await self._transport.run(
            listing.copy_or_rename(self._bucket, "copy", source, destination, overwrite=overwrite)
        )

    async def move(self, source: str, destination: str, *, overwrite: bool = False) -> MovedFile:
        """Give a file another path. Raises Refused where the destination exists, unless `overwrite`."""
        return await self._transport.run(
            listing.copy_or_rename(self._bucket, "rename", source, destination, overwrite=overwrite)
        )

    async def download_folder(
        self, folder: str, target: str | Path, *, sync: Sync | None = None, progress: Progress = SILENT
    ) -> FolderReport:
        """Download a folder with all below it; with `sync` only what differs. Nothing is written outside `target`."""
        return await self._transport.run(
            trees.download_folder(self._bucket, folder, Path(target), Options(sync, progress=progress))
        )

    async def upload_folder(
        self,
        source: str | Path,
        folder: str,
        *,
        sync: Sync | None = None,
        part_bytes: int | None = None,
        progress: Progress = SILENT,
    ) -> FolderReport:
        """Upload a folder with all below it; with `sync` only what differs. Links are not followed."""
        options = Options(sync, part_bytes, progress)
        return await self._transport.run(trees.upload_folder(self._bucket, Path(source), folder, options))
