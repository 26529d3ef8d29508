"""One file, up or down: what a person names as source or target, and the progress of the copy."""

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO

from clusterra.exchange import Steps
from clusterra.files import downloading, listing, uploading
from clusterra.files.bucket_files import BucketFiles
from clusterra.files.downloading import DownloadTarget
from clusterra.files.local import BytesSource, FileSource, Source, opened_folder
from clusterra.files.progress import Progress

COPIED_BYTES = 1024 * 1024


def download(
    bucket: BucketFiles, path: str, target: str | Path | BinaryIO, *, resume: bool, progress: Progress
) -> Steps[None]:
    """Download a file to a path or an open file."""
    if not isinstance(target, str | Path):
        yield from downloading.to_stream(bucket, path, target.write, progress.transferred)
    else:
        known = yield from listing.stat(bucket, path)
        progress.planned(1, known.size)
        into = Path(target)
        opening = partial(opened_folder, into.parent)
        yield from downloading.to_file(
            bucket, known, DownloadTarget(opening, into.name), resume=resume, transferred=progress.transferred
        )
    progress.finished(path)


def upload(bucket: BucketFiles, source: Source, path: str, part_bytes: int | None, progress: Progress) -> Steps[None]:
    """Upload a source."""
    progress.planned(1, source.size)
    yield from uploading.upload(bucket, path, source, part_bytes=part_bytes, transferred=progress.transferred)
    progress.finished(path)


def open_source(source: str | Path | bytes | BinaryIO, closing: ExitStack) -> Source:
    """The source of an upload. An open file may be a pipe, so its content is first kept on the disk."""
    if isinstance(source, bytes):
        return BytesSource(source)
    if isinstance(source, str | Path):
        opened = FileSource.of(Path(source))
        closing.callback(opened.close)
        return opened
    kept = closing.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - it is closed by `closing`
    while piece := source.read(COPIED_BYTES):
        kept.write(piece)
    return FileSource(kept)
