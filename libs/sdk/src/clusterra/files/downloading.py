"""Downloads: ranges of a large file at the same time, resumed after a break, and whole or not at all."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from clusterra.errors import BucketRefused, FileChanged
from clusterra.exchange import Answer, Direct, Steps, each_of, local, now
from clusterra.files.bucket_files import BucketFiles, PresignedUrl, send_to_bucket
from clusterra.files.etags import plain_md5
from clusterra.files.listing import MAX_SIZE, is_opaque, stat
from clusterra.files.local import Folder, Transferred
from clusterra.files.part_file import PartFile
from clusterra.models import StoredFile

AT_ONCE = 4
"""Ranges of one file that are read at the same time."""
SIGNED_SECONDS = 300.0
"""How long a URL is used for further ranges. It is valid for longer."""


@dataclass(slots=True)
class _Reading:
    """One version of a file in the bucket, as it is read."""

    bucket: BucketFiles
    known: StoredFile
    md5: bool = True
    """Whether the ETag may be the MD5 of the content: it is not where the bucket encrypts with keys of KMS."""
    _url: tuple[float, PresignedUrl] | None = field(default=None, repr=False)

    def read(self, begin: int, end: int, take: Callable[[bytes, int], None], transferred: Transferred) -> Steps[None]:
        """Read some bytes, across broken connections. `take` gets each piece with its offset."""
        at = begin

        def taken(piece: bytes) -> None:
            nonlocal at
            if len(piece) > end - at:
                raise BucketRefused(206, "more bytes than were asked for")
            take(piece, at)
            transferred(len(piece))
            at += len(piece)

        def receive(answer: Answer) -> Callable[[bytes], None] | None:
            if answer.status != 206:
                return None
            if answer.headers.get("content-range", "") != f"bytes {at}-{end - 1}/{self.known.size}":
                raise FileChanged(f"{self.known.path} was changed while it was copied: copy it again")
            self.md5 = self.md5 and not is_opaque(answer)
            return taken

        def request(signed: PresignedUrl) -> Direct:
            headers = {**signed.headers, "range": f"bytes={at}-{end - 1}", "if-match": self.known.etag}
            return Direct("GET", signed.url, headers, receive=receive)

        used: PresignedUrl | None = None

        def signed() -> Steps[PresignedUrl]:
            nonlocal used
            used = yield from self._signed(other_than=used)
            return used

        while at < end:
            before, used = at, None
            answer = yield from send_to_bucket(self.known.path, signed, request, lambda: at)
            if answer.status != 206 or at == before:
                raise FileChanged(f"{self.known.path} was changed while it was copied: copy it again")

    def _signed(self, *, other_than: PresignedUrl | None) -> Steps[PresignedUrl]:
        """A URL that is used for several ranges. One that has just failed is not used again."""
        at = yield from now()
        kept = self._url
        if kept is None or kept[1] is other_than or at > kept[0] + SIGNED_SECONDS:
            kept = self._url = (at, (yield from self.bucket.download_url(self.known.path)))
        return kept[1]


@dataclass(frozen=True, slots=True)
class DownloadTarget:
    """A name in a folder, which is opened when the download begins."""

    open_folder: Callable[[], AbstractContextManager[Folder]]
    name: str


def to_file(
    bucket: BucketFiles,
    known: StoredFile,
    target: DownloadTarget,
    *,
    resume: bool = True,
    transferred: Transferred = lambda _: None,
) -> Steps[None]:
    """Download a version of a file to a target, in place of a file that has its name.

    Raises FileChanged where the bucket has another version meanwhile, OSError, and the errors of `send_to_bucket`.
    """
    _require_possible(known)
    context = target.open_folder()
    folder = yield from local(context.__enter__)
    try:
        part = yield from local(lambda: PartFile(folder, target.name, known, resume=resume))
        try:
            reading = _Reading(bucket, known)
            left = [number for number in range(part.count) if number not in part.done]
            transferred(sum(end - begin for begin, end in map(part.bounds, part.done)))

            def read_range(number: int) -> Steps[None]:
                begin, end = part.bounds(number)
                yield from reading.read(begin, end, part.write, transferred)
                yield from local(partial(part.complete, number))

            yield from each_of(left, AT_ONCE, read_range)
            if not left and known.size:
                # Whether the ETag is a checksum stands in an answer alone.
                yield from reading.read(0, 1, lambda _, __: None, lambda _: None)
            yield from local(lambda: part.finish(check=reading.md5 and known.size > 0))
        finally:
            part.close()
    finally:
        context.__exit__(None, None, None)


def _require_possible(known: StoredFile) -> None:
    if not 0 <= known.size <= MAX_SIZE:
        raise BucketRefused(200, "a size that no file has")


def to_stream(
    bucket: BucketFiles, path: str, write: Callable[[bytes], object], transferred: Transferred = lambda _: None
) -> Steps[None]:
    """Write a file to something that takes bytes, in their order. Raises as `to_file` does."""
    known = yield from stat(bucket, path)
    reading, digest = _Reading(bucket, known), hashlib.md5(usedforsecurity=False)

    def take(piece: bytes, _: int) -> None:
        digest.update(piece)
        write(piece)

    yield from reading.read(0, known.size, take, transferred)
    expected = plain_md5(known.etag) if reading.md5 and known.size else None
    if expected not in (None, digest.hexdigest()):
        raise FileChanged(f"{path} does not have the checksum that the bucket reports: copy it again")
