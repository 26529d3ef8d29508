"""Uploads: small files at once, large ones as multipart uploads, which resume. The bucket takes the right bytes only.

Each request states the SHA-256 of what it sends, and the bucket refuses other bytes. Before a file is made of parts,
the bucket's list of them is compared with the checksums of the source, and the gateway makes it of exactly these parts:
another program that uploads to the same path at the same time cannot mix in parts of its own.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from clusterra.errors import FileChanged, NotFound, OutcomeUnknown, Refused
from clusterra.exchange import Answer, Direct, Request, Steps, each_of, local
from clusterra.files.bucket_files import BucketFiles, PresignedUrl, send_to_bucket
from clusterra.files.etags import agrees
from clusterra.files.listing import stat, stat_with_encryption
from clusterra.files.local import Source, Transferred
from clusterra.models import BegunUpload, CompletedUpload, UploadedPart, UploadedParts, Uploads
from clusterra.operations.api import query, segment

AT_ONCE = 4
"""Parts of one file that are sent at the same time."""
PART_BYTES = 64 * 1024 * 1024
"""Larger files are sent in parts."""
MIN_PART_BYTES = 5 * 1024 * 1024
MAX_PARTS = 10_000
MAX_TRIED_UPLOADS = 4
"""The most unfinished uploads to one path that are looked at."""
COMPLETE_SECONDS = 75.0
"""The bucket takes its time to make a large file of its parts."""


@dataclass(slots=True)
class _Upload:
    """A multipart upload, and what the bucket has of it."""

    id: str
    part_bytes: int
    bucket_parts: dict[int, UploadedPart] = field(default_factory=dict)
    sha256: dict[int, str] = field(default_factory=dict)
    """The SHA-256 of each part of the source, in base64."""
    etags: dict[int, str] = field(default_factory=dict)
    """The ETag of each part that was sent."""

    def is_own(self, part: UploadedPart) -> bool:
        """Whether the bucket has the part of this source, and not one that another program has sent."""
        if part.sha256 is not None:
            return part.sha256 == self.sha256.get(part.number)
        return part.number in self.etags and part.etag.strip('"') == self.etags[part.number].strip('"')


def cut_bytes(part_bytes: int, size: int) -> int:
    """The size of the parts of a file: what is wanted, within S3's bounds."""
    return max(part_bytes, MIN_PART_BYTES, -(-size // MAX_PARTS))


def upload(
    bucket: BucketFiles,
    path: str,
    source: Source,
    *,
    part_bytes: int | None = None,
    transferred: Transferred = lambda _: None,
) -> Steps[None]:
    """Upload a source as the file at `path`, in place of the one before.

    Raises FileChanged for a source that is written meanwhile, OSError, and the errors of `send_to_bucket`.
    """
    if part_bytes is not None:
        part_bytes = cut_bytes(part_bytes, source.size)
    if source.size <= (part_bytes or PART_BYTES):
        digest = yield from local(lambda: source.digest(0, source.size))
        sha256 = base64.b64encode(digest).decode()
        yield from _put(
            path, source, (0, source.size), lambda: bucket.upload_url(path, source.size, sha256), transferred
        )
    else:
        yield from _in_parts(bucket, path, source, part_bytes, transferred)
    if source.changed():
        raise FileChanged(f"the source of {path} was changed while it was copied: copy it again")


def _put(
    path: str,
    source: Source,
    part: tuple[int, int],
    signed: Callable[[], Steps[PresignedUrl]],
    transferred: Transferred,
) -> Steps[Answer]:
    """The answer to some bytes of a source. What was sent in vain is taken back from the progress."""
    offset, size = part
    counted = 0

    def content() -> Iterator[bytes]:
        nonlocal counted
        transferred(-counted)
        counted = 0
        for piece in source.chunks(offset, size):
            yield piece
            counted += len(piece)
            transferred(len(piece))
        if counted < size:
            raise FileChanged(f"the source of {path} became shorter while it was copied")

    def request(url: PresignedUrl) -> Direct:
        headers = {"content-length": str(size), **{name.lower(): value for name, value in url.headers.items()}}
        return Direct("PUT", url.url, headers, content)

    return (yield from send_to_bucket(path, signed, request))


def _in_parts(
    bucket: BucketFiles, path: str, source: Source, part_bytes: int | None, transferred: Transferred
) -> Steps[None]:
    replaced = yield from _etag(bucket, path)
    upload = (yield from _find_unfinished(bucket, path, source.size, part_bytes)) or (
        yield from _begin_upload(bucket, path, source.size, part_bytes)
    )

    def send_part(number: int) -> Steps[None]:
        offset = (number - 1) * upload.part_bytes
        size = min(upload.part_bytes, source.size - offset)
        digest = yield from local(partial(source.digest, offset, size))
        sha256 = upload.sha256[number] = base64.b64encode(digest).decode()
        known = upload.bucket_parts.get(number)
        if known is not None and (known.size, known.sha256) == (size, sha256):
            transferred(size)
            return
        part = {"number": number, "size": size, "sha256": sha256}
        answer = yield from _put(
            path, source, (offset, size), partial(bucket.part_url, upload.id, path, part), transferred
        )
        upload.etags[number] = answer.headers.get("etag", "")

    yield from each_of(range(1, -(-source.size // upload.part_bytes) + 1), AT_ONCE, send_part)
    bucket_parts = yield from _list_parts(bucket, path, upload.id)
    if bucket_parts.keys() != upload.sha256.keys() or not all(map(upload.is_own, bucket_parts.values())):
        raise _another_program(path)
    yield from _complete_upload(bucket, path, source, upload, replaced)


def _another_program(path: str) -> FileChanged:
    return FileChanged(f"another program uploads to {path} at the same time: copy it again")


def _etag(bucket: BucketFiles, path: str) -> Steps[str | None]:
    try:
        return (yield from stat(bucket, path)).etag
    except NotFound:
        return None


def _begin_upload(bucket: BucketFiles, path: str, size: int, part_bytes: int | None) -> Steps[_Upload]:
    request = Request("POST", bucket.on("/uploads"), body={"path": path, "size": size})
    begun = yield from bucket.api.read(BegunUpload, request)
    return _Upload(begun.upload_id, cut_bytes(begun.part_size if part_bytes is None else part_bytes, size))


def _find_unfinished(bucket: BucketFiles, path: str, size: int, part_bytes: int | None) -> Steps[_Upload | None]:
    """An unfinished upload to this path that was cut as this file would be; None where there is none.

    Its parts may be those of another version of the file: their checksums decide.
    """
    found = yield from bucket.api.read(Uploads, Request("GET", bucket.on("/uploads"), query({"path": path})))
    of_path = sorted((each for each in found.uploads if each.path == path), key=lambda each: each.begun_at)
    for each in of_path[-MAX_TRIED_UPLOADS:][::-1]:
        try:
            bucket_parts = yield from _list_parts(bucket, path, each.upload_id)
        except NotFound:
            continue
        cut = max((part.size for part in bucket_parts.values()), default=0)
        whole, last = divmod(size, cut) if cut >= MIN_PART_BYTES else (0, 0)
        sizes = dict.fromkeys(range(1, whole + 1), cut) | ({whole + 1: last} if last else {})
        if (
            bucket_parts
            and part_bytes in (None, cut)
            and all(sizes.get(number) == part.size for number, part in bucket_parts.items())
        ):
            return _Upload(each.upload_id, cut, bucket_parts)
    return None


def _list_parts(bucket: BucketFiles, path: str, upload: str) -> Steps[dict[int, UploadedPart]]:
    found: dict[int, UploadedPart] = {}
    after: int | None = 0
    while after is not None and len(found) <= MAX_PARTS:
        request = Request("GET", bucket.on(f"/uploads/{segment(upload)}/parts"), query({"path": path, "after": after}))
        page = yield from bucket.api.read(UploadedParts, request)
        found |= {part.number: part for part in page.parts}
        after = page.next_after
    return found


def _complete_upload(
    bucket: BucketFiles, path: str, source: Source, upload: _Upload, replaced: str | None
) -> Steps[None]:
    """Make the file of exactly these parts. A gateway that ended in between may have made it already."""
    parts = [{"number": number, "sha256": sha256} for number, sha256 in sorted(upload.sha256.items())]
    body = {"path": path, "size": source.size, "parts": parts}
    request = Request(
        "POST", bucket.on(f"/uploads/{segment(upload.id)}/complete"), body=body, answer_seconds=COMPLETE_SECONDS
    )
    try:
        yield from bucket.api.read(CompletedUpload, request)
    except (NotFound, OutcomeUnknown, Refused) as error:
        if not (yield from _is_complete(bucket, path, source, upload, replaced)):
            if error.status == 409:
                raise _another_program(path) from error
            raise


def _is_complete(bucket: BucketFiles, path: str, source: Source, upload: _Upload, replaced: str | None) -> Steps[bool]:
    """Whether the bucket has the file in spite of an error. `replaced` is the ETag of the one before."""
    try:
        known, opaque = yield from stat_with_encryption(bucket, path)
    except NotFound:
        return False
    if known.size != source.size:
        return False
    if opaque:
        return known.etag != replaced and known.etag.strip('"').endswith(f"-{len(upload.sha256)}")
    return (yield from local(lambda: agrees(known.etag, source, (upload.part_bytes,)))) is True
