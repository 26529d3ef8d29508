"""Lists of folders, what is known of one file, deletes, copies and renames."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from clusterra.errors import BucketRefused, ClusterraError, FileChanged, NotFound, Refused, UnsafeName
from clusterra.exchange import Answer, Direct, Request, Steps, Stream, next_of
from clusterra.files.bucket_files import BucketFiles, PresignedUrl, send_to_bucket
from clusterra.models import DeletedFiles, FilePage, MovedFile, NotDeleted, StoredFile
from clusterra.operations.api import query
from clusterra.operations.pages import paged

MAX_LISTED = 1000
MAX_DELETED = 1000
MAX_SIZE = 50 * 1024**4
"""S3's largest file, in bytes."""
MAX_SIZE_DIGITS = 20


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """A folder in a list. A bucket knows folders only by the files in them."""

    path: str


type Entry = StoredFile | StoredFolder


def listed(bucket: BucketFiles, folder: str, *, recursive: bool = False, limit: int | None = None) -> Stream[Entry]:
    """What a folder has: its folders and files; with `recursive` the files of all folders below it."""
    asked = query(
        {
            "path": folder,
            "recursive": recursive,
            "limit": MAX_LISTED if limit is None else max(1, min(limit, MAX_LISTED)),
        }
    )

    def items(page: FilePage) -> tuple[Sequence[Entry], str | None]:
        return (*map(StoredFolder, page.folders), *page.files), page.next_cursor

    yield from paged(bucket.api, Request("GET", bucket.on(), asked), FilePage, items, limit)


def all_below(bucket: BucketFiles, folder: str) -> Steps[tuple[list[StoredFile], int]]:
    """All files below a folder, and the number of objects there that the list leaves out."""
    unreadable = 0

    def items(page: FilePage) -> tuple[Sequence[StoredFile], str | None]:
        nonlocal unreadable
        unreadable += page.unreadable
        return page.files, page.next_cursor

    asked = query({"path": folder, "recursive": True, "limit": MAX_LISTED})
    stream = paged(bucket.api, Request("GET", bucket.on(), asked), FilePage, items, None)
    found = list[StoredFile]()
    while (emitted := (yield from next_of(stream))) is not None:
        found.append(emitted.value)
    return found, unreadable


def stat(bucket: BucketFiles, path: str) -> Steps[StoredFile]:
    """What is known of one file. Raises NotFound, BucketRefused, Unreachable."""
    return (yield from stat_with_encryption(bucket, path))[0]


def stat_with_encryption(bucket: BucketFiles, path: str) -> Steps[tuple[StoredFile, bool]]:
    """The same, and whether its ETag says nothing of the content, because a key of KMS encrypts it."""

    def first_byte(signed: PresignedUrl) -> Direct:
        return Direct("GET", signed.url, {**signed.headers, "range": "bytes=0-0"})

    answer = yield from send_to_bucket(path, lambda: bucket.download_url(path), first_byte)
    if answer.status == 416:  # it is empty, and has no first byte
        answer = yield from send_to_bucket(
            path, lambda: bucket.download_url(path), lambda signed: Direct("GET", signed.url, signed.headers)
        )
    length = answer.headers.get("content-length", "")
    size = answer.headers.get("content-range", "").rpartition("/")[2] if answer.status == 206 else length
    etag = answer.headers.get("etag", "")
    if not (size.isascii() and size.isdecimal() and len(size) <= MAX_SIZE_DIGITS and int(size) <= MAX_SIZE and etag):
        raise BucketRefused(answer.status, "no size or no ETag")
    modified = _moment(answer.headers.get("last-modified", ""))
    return StoredFile(path=path, size=int(size), modified_at=modified, etag=etag), is_opaque(answer)


def is_opaque(answer: Answer) -> bool:
    """Whether an answer of the bucket says that a key of KMS encrypts the file: its ETag is then no checksum."""
    return answer.headers.get("x-amz-server-side-encryption", "").startswith("aws:kms")


def _moment(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def delete(bucket: BucketFiles, path: str) -> Steps[None]:
    """Delete one file. Raises NotFound."""
    yield from bucket.api.carried_out(Request("DELETE", bucket.on(), query({"path": path})))


def delete_many(bucket: BucketFiles, paths: Sequence[str]) -> Steps[tuple[NotDeleted, ...]]:
    """Delete any number of files; what does not exist counts as deleted. Returns those that were not deleted.

    An error before the first delete is raised. After a later one, all further files are among those returned.
    """
    failed: list[NotDeleted] = []
    for begin in range(0, len(paths), MAX_DELETED):
        body = {"paths": list(paths[begin : begin + MAX_DELETED])}
        request = Request("POST", bucket.on("/delete"), body=body, repeatable=True)
        try:
            failed += (yield from bucket.api.read(DeletedFiles, request)).failed
        except ClusterraError as error:
            if begin == 0:
                raise
            failed += (NotDeleted(path=path, reason=str(error)) for path in paths[begin:])
            break
    return tuple(failed)


def copy_or_rename(
    bucket: BucketFiles, action: str, source: str, destination: str, *, overwrite: bool
) -> Steps[MovedFile]:
    """Copy or rename a file within the bucket, once. Raises Refused where the destination exists."""
    body = {"source": source, "destination": destination, "overwrite": overwrite}
    request = Request("POST", bucket.on(f"/{action}"), body=body, answer_seconds=75.0)
    return (yield from bucket.api.read(MovedFile, request))


def is_known(error: ClusterraError) -> bool:
    """Whether an error concerns one file alone, so that others can still be copied."""
    return isinstance(error, BucketRefused | FileChanged | NotFound | Refused | UnsafeName)
