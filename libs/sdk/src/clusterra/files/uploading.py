"""Uploads: small files at once, large ones in parts that go on after a break. The bucket takes the right bytes only.

Each request states the SHA-256 of what it sends, and the bucket refuses other bytes. Before a file is made of parts,
the bucket's list of them is compared with the checksums of here: another program that uploads to the same path at the
same time cannot mix in parts of its own.
"""

import base64
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from clusterra.errors import FileChanged, NotFound, OutcomeUnknown, Refused
from clusterra.exchange import Direct, Request, Steps, local, together
from clusterra.files.listing import stat
from clusterra.files.local import Moved, Source
from clusterra.files.place import Place, SignedUrl, sent
from clusterra.models import BegunUpload, CompletedUpload, UploadedPart, UploadedParts, Uploads
from clusterra.operations.api import query, segment

AT_ONCE = 4
"""Parts of one file that are sent at the same time."""
PART_BYTES = 64 * 1024 * 1024
"""Larger files are sent in parts."""
MIN_PART_BYTES = 5 * 1024 * 1024
MAX_PARTS = 10_000
MAX_TRIED_UPLOADS = 4
"""Of the unfinished uploads to one path, so many are looked at."""
COMPLETE_SECONDS = 75.0
"""The bucket takes its time to make a large file of its parts."""


@dataclass(slots=True)
class _Upload:
    """An upload in parts, and what the bucket has of it."""

    id: str
    part_bytes: int
    there: dict[int, UploadedPart] = field(default_factory=dict)
    expected: dict[int, str] = field(default_factory=dict)
    """The SHA-256 of each part here, in base64."""


def upload(
    place: Place, path: str, source: Source, *, part_bytes: int | None = None, moved: Moved = lambda _: None
) -> Steps[None]:
    """Upload a source as the file at `path`, in place of the one before.

    Raises FileChanged for a source that is written meanwhile, OSError, and the errors of `place.sent`.
    """
    if source.size <= (part_bytes or PART_BYTES):
        digest = yield from local(lambda: source.digest(0, source.size))
        sha256 = base64.b64encode(digest).decode()
        yield from _put(path, source, (0, source.size), lambda: place.upload_url(path, source.size, sha256), moved)
    else:
        yield from _in_parts(place, path, source, part_bytes, moved)
    if source.changed():
        raise FileChanged(f"the source of {path} was changed while it was copied: copy it again")


def _put(
    path: str, source: Source, part: tuple[int, int], signed: Callable[[], Steps[SignedUrl]], moved: Moved
) -> Steps[None]:
    """Send some bytes of a source. What was sent in vain is taken back from the progress."""
    offset, size = part
    counted = 0

    def content() -> Iterator[bytes]:
        nonlocal counted
        moved(-counted)
        counted = 0
        for piece in source.chunks(offset, size):
            yield piece
            counted += len(piece)
            moved(len(piece))
        if counted < size:
            raise FileChanged(f"the source of {path} became shorter while it was copied")

    def request(url: SignedUrl) -> Direct:
        headers = {"content-length": str(size), **{name.lower(): value for name, value in url.headers.items()}}
        return Direct("PUT", url.url, headers, content)

    yield from sent(path, signed, request)


def _in_parts(place: Place, path: str, source: Source, part_bytes: int | None, moved: Moved) -> Steps[None]:
    upload = (yield from _found(place, path, source.size, part_bytes)) or (
        yield from _begun(place, path, source.size, part_bytes)
    )
    left = deque(range(1, -(-source.size // upload.part_bytes) + 1))
    count = len(left)
    yield from together([_parts(place, path, source, upload, left, moved) for _ in range(min(AT_ONCE, count))])
    there = yield from _listed(place, path, upload.id)
    if there.keys() != upload.expected.keys() or any(
        part.sha256 not in (None, upload.expected[number]) for number, part in there.items()
    ):
        raise FileChanged(f"another program uploads to {path} at the same time: copy it again")
    yield from _completed(place, path, source.size, upload.id, count)


def _parts(place: Place, path: str, source: Source, upload: _Upload, left: deque[int], moved: Moved) -> Steps[None]:
    while left:
        try:
            number = left.popleft()
        except IndexError:
            return
        offset = (number - 1) * upload.part_bytes
        size = min(upload.part_bytes, source.size - offset)
        digest = yield from local(partial(source.digest, offset, size))
        sha256 = upload.expected[number] = base64.b64encode(digest).decode()
        known = upload.there.get(number)
        if known is not None and (known.size, known.sha256) == (size, sha256):
            moved(size)
            continue
        part = {"number": number, "size": size, "sha256": sha256}
        yield from _put(path, source, (offset, size), partial(place.part_url, upload.id, path, part), moved)


def _begun(place: Place, path: str, size: int, part_bytes: int | None) -> Steps[_Upload]:
    request = Request("POST", place.on("/uploads"), body={"path": path, "size": size})
    begun = yield from place.api.read(BegunUpload, request)
    wanted = begun.part_size if part_bytes is None else max(part_bytes, MIN_PART_BYTES)
    # At least so large that MAX_PARTS are enough.
    return _Upload(begun.upload_id, max(wanted, -(-size // MAX_PARTS)))


def _found(place: Place, path: str, size: int, part_bytes: int | None) -> Steps[_Upload | None]:
    """An unfinished upload to this path that was cut as this file would be; None where there is none.

    Its parts may be those of another version of the file: their checksums tell.
    """
    found = yield from place.api.read(Uploads, Request("GET", place.on("/uploads"), query({"path": path})))
    of_path = sorted((each for each in found.uploads if each.path == path), key=lambda each: each.begun_at)
    for each in of_path[-MAX_TRIED_UPLOADS:][::-1]:
        try:
            there = yield from _listed(place, path, each.upload_id)
        except NotFound:
            continue
        cut = max((part.size for part in there.values()), default=0)
        whole, last = divmod(size, cut) if cut >= MIN_PART_BYTES else (0, 0)
        sizes = dict.fromkeys(range(1, whole + 1), cut) | ({whole + 1: last} if last else {})
        if (
            there
            and part_bytes in (None, cut)
            and all(sizes.get(number) == part.size for number, part in there.items())
        ):
            return _Upload(each.upload_id, cut, there)
    return None


def _listed(place: Place, path: str, upload: str) -> Steps[dict[int, UploadedPart]]:
    found: dict[int, UploadedPart] = {}
    after: int | None = 0
    while after is not None and len(found) <= MAX_PARTS:
        request = Request("GET", place.on(f"/uploads/{segment(upload)}/parts"), query({"path": path, "after": after}))
        page = yield from place.api.read(UploadedParts, request)
        found |= {part.number: part for part in page.parts}
        after = page.next_after
    return found


def _completed(place: Place, path: str, size: int, upload: str, count: int) -> Steps[None]:
    """Make the file. A gateway that ended in between may have made it already."""
    body = {"path": path, "size": size}
    request = Request(
        "POST", place.on(f"/uploads/{segment(upload)}/complete"), body=body, answer_seconds=COMPLETE_SECONDS
    )
    try:
        yield from place.api.read(CompletedUpload, request)
    except (NotFound, OutcomeUnknown, Refused):
        known = yield from stat(place, path)
        if known.size != size or not known.etag.strip('"').endswith(f"-{count}"):
            raise
