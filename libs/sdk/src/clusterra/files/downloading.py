"""Downloads: ranges of a large file at the same time, resumed after a break, and whole or not at all."""

import hashlib
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from clusterra.errors import FileChanged
from clusterra.exchange import Answer, Direct, Steps, local, now, together
from clusterra.files.etags import plain_md5
from clusterra.files.listing import stat
from clusterra.files.local import Folder, Moved
from clusterra.files.part_file import PartFile
from clusterra.files.place import Place, SignedUrl, sent
from clusterra.models import StoredFile

AT_ONCE = 4
"""Ranges of one file that are read at the same time."""
SIGNED_SECONDS = 300.0
"""How long a URL is used for further ranges. It is valid for longer."""
_KMS = "aws:kms"


@dataclass(slots=True)
class _Reading:
    """One version of a file in the bucket, as it is read."""

    place: Place
    known: StoredFile
    seen: bool = False
    """Whether the bucket has answered."""
    md5: bool = True
    """Whether the ETag may be the MD5 of the content: it is not where the bucket encrypts with keys of KMS."""
    _url: tuple[float, SignedUrl] | None = field(default=None, repr=False)

    def read(self, begin: int, end: int, take: Callable[[bytes, int], None], moved: Moved) -> Steps[None]:
        """Read some bytes, across broken connections. `take` gets each piece with its offset."""
        at = begin

        def taken(piece: bytes) -> None:
            nonlocal at
            take(piece[: end - at], at)
            moved(len(piece[: end - at]))
            at += len(piece[: end - at])

        def receive(answer: Answer) -> Callable[[bytes], None] | None:
            if answer.status != 206:
                return None
            if answer.headers.get("content-range", "") != f"bytes {at}-{end - 1}/{self.known.size}":
                raise FileChanged(f"{self.known.path} was changed while it was copied: copy it again")
            self.seen = True
            self.md5 = self.md5 and not answer.headers.get("x-amz-server-side-encryption", "").startswith(_KMS)
            return taken

        def request(signed: SignedUrl) -> Direct:
            headers = {**signed.headers, "range": f"bytes={at}-{end - 1}", "if-match": self.known.etag}
            return Direct("GET", signed.url, headers, receive=receive)

        used: SignedUrl | None = None

        def signed() -> Steps[SignedUrl]:
            nonlocal used
            used = yield from self._signed(other_than=used)
            return used

        while at < end:
            before, used = at, None
            answer = yield from sent(self.known.path, signed, request, lambda: at)
            if answer.status != 206 or at == before:
                raise FileChanged(f"{self.known.path} was changed while it was copied: copy it again")

    def _signed(self, *, other_than: SignedUrl | None) -> Steps[SignedUrl]:
        """A URL that is used for several ranges. One that has just failed is not used again."""
        at = yield from now()
        kept = self._url
        if kept is None or kept[1] is other_than or at > kept[0] + SIGNED_SECONDS:
            kept = self._url = (at, (yield from self.place.download_url(self.known.path)))
        return kept[1]


def to_file(
    place: Place,
    known: StoredFile,
    target: tuple[Callable[[], AbstractContextManager[Folder]], str],
    *,
    resume: bool = True,
    moved: Moved = lambda _: None,
) -> Steps[None]:
    """Download a version of a file to a name in a folder, in place of a file that has it.

    Raises FileChanged where the bucket has another version meanwhile, OSError, and the errors of `place.sent`.
    """
    opening, name = target
    context = opening()
    folder = yield from local(context.__enter__)
    try:
        part = yield from local(lambda: PartFile(folder, name, known, resume=resume))
        try:
            reading = _Reading(place, known)
            left = deque(number for number in range(part.count) if number not in part.done)
            moved(sum(end - begin for begin, end in map(part.bounds, part.done)))
            yield from together([_ranges(reading, part, left, moved) for _ in range(min(AT_ONCE, len(left)))])
            yield from local(lambda: part.finish(check=reading.seen and reading.md5))
        finally:
            part.close()
    finally:
        context.__exit__(None, None, None)


def _ranges(reading: _Reading, part: PartFile, left: deque[int], moved: Moved) -> Steps[None]:
    while left:
        try:
            number = left.popleft()
        except IndexError:
            return
        begin, end = part.bounds(number)
        yield from reading.read(begin, end, part.write, moved)
        yield from local(partial(part.complete, number))


def to_stream(place: Place, path: str, write: Callable[[bytes], object], moved: Moved = lambda _: None) -> Steps[None]:
    """Write a file to something that takes bytes, in their order. Raises as `to_file` does."""
    known = yield from stat(place, path)
    reading, digest = _Reading(place, known), hashlib.md5(usedforsecurity=False)

    def take(piece: bytes, _: int) -> None:
        digest.update(piece)
        write(piece)

    yield from reading.read(0, known.size, take, moved)
    expected = plain_md5(known.etag) if reading.seen and reading.md5 else None
    if expected not in (None, digest.hexdigest()):
        raise FileChanged(f"{path} does not have the checksum that the bucket tells: copy it again")
