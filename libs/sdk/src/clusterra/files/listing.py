"""Lists of folders, what is known of one file, deletes, copies and renames."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from clusterra.errors import BucketRefused, ClusterraError, FileChanged, NotFound, Refused, UnsafeName
from clusterra.exchange import Direct, Request, Steps, Stream, next_of
from clusterra.files.place import Place, SignedUrl, sent
from clusterra.models import DeletedFiles, FilePage, MovedFile, NotDeleted, StoredFile
from clusterra.operations.api import query
from clusterra.operations.pages import paged

MAX_LISTED = 1000
MAX_DELETED = 1000


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """A folder in a list. A bucket knows folders only by the files in them."""

    path: str


type Entry = StoredFile | StoredFolder


def listed(place: Place, folder: str, *, recursive: bool = False, limit: int | None = None) -> Stream[Entry]:
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

    yield from paged(place.api, Request("GET", place.on(), asked), FilePage, items, limit)


def files_below(place: Place, folder: str) -> Stream[StoredFile]:
    """All files below a folder."""

    def items(page: FilePage) -> tuple[Sequence[StoredFile], str | None]:
        return page.files, page.next_cursor

    asked = query({"path": folder, "recursive": True, "limit": MAX_LISTED})
    yield from paged(place.api, Request("GET", place.on(), asked), FilePage, items, None)


def all_below(place: Place, folder: str) -> Steps[list[StoredFile]]:
    """The same as a list."""
    stream, found = files_below(place, folder), list[StoredFile]()
    while (emitted := (yield from next_of(stream))) is not None:
        found.append(emitted.value)
    return found


def stat(place: Place, path: str) -> Steps[StoredFile]:
    """What is known of one file. Raises NotFound, BucketRefused, Unreachable."""

    def first_byte(signed: SignedUrl) -> Direct:
        return Direct("GET", signed.url, {**signed.headers, "range": "bytes=0-0"})

    answer = yield from sent(path, lambda: place.download_url(path), first_byte)
    if answer.status == 416:  # it is empty, and has no first byte
        answer = yield from sent(
            path, lambda: place.download_url(path), lambda signed: Direct("GET", signed.url, signed.headers)
        )
    length = answer.headers.get("content-length", "")
    told = answer.headers.get("content-range", "").rpartition("/")[2] if answer.status == 206 else length
    etag = answer.headers.get("etag", "")
    if not (told.isascii() and told.isdecimal() and etag):
        raise BucketRefused(answer.status, "no size or no ETag")
    return StoredFile(
        path=path, size=int(told), modified_at=_moment(answer.headers.get("last-modified", "")), etag=etag
    )


def _moment(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def delete(place: Place, path: str) -> Steps[None]:
    """Delete one file. Raises NotFound."""
    yield from place.api.carried_out(Request("DELETE", place.on(), query({"path": path})))


def delete_many(place: Place, paths: Sequence[str]) -> Steps[tuple[NotDeleted, ...]]:
    """Delete any number of files; what does not exist counts as deleted. Returns those that were not deleted."""
    failed: list[NotDeleted] = []
    for begin in range(0, len(paths), MAX_DELETED):
        body = {"paths": list(paths[begin : begin + MAX_DELETED])}
        request = Request("POST", place.on("/delete"), body=body, repeatable=True)
        failed += (yield from place.api.read(DeletedFiles, request)).failed
    return tuple(failed)


def moved(place: Place, action: str, source: str, destination: str, *, overwrite: bool) -> Steps[MovedFile]:
    """Copy or rename a file within the bucket, once. Raises Refused where the destination exists."""
    body = {"source": source, "destination": destination, "overwrite": overwrite}
    request = Request("POST", place.on(f"/{action}"), body=body, answer_seconds=75.0)
    return (yield from place.api.read(MovedFile, request))


def is_known(error: ClusterraError) -> bool:
    """Whether an error concerns one file alone, so that others can still be copied."""
    return isinstance(error, BucketRefused | FileChanged | NotFound | Refused | UnsafeName)
