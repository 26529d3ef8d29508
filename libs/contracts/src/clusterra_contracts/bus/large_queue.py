"""How a large queue snapshot is written: one compressed message, which is read a line at a time.

The body is the JSON of a QueueSnapshot, compressed by gzip, with line breaks between its head, its lists, and every
hundred records of a list. So the head is read without the lists. And neither the writer nor a reader keeps the
interpreter from other threads for longer than a line takes: 100,000 jobs in one piece would stop the event loop of
their process for half a second, from a thread too.

A release that does not know the lines reads the same snapshot from the whole body.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from clusterra_contracts.bus.envelope import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    GZIP,
    JSON,
    MAX_DECODED_BYTES,
    SCHEMA,
    InvalidMessage,
    decode,
)
from clusterra_contracts.bus.topology import MAX_PAYLOAD_BYTES
from clusterra_contracts.queue import NodeState, PendingJobs, QueueSnapshot, RunningJob

FORM = "x-queue-form"
"""The header that tells the form of a snapshot; small ones have none."""
LARGE = "large"
RECORDS_PER_LINE = 100
MAX_BODY_BYTES = MAX_PAYLOAD_BYTES - 64 * 1024
"""The servers' limit counts the headers, too."""
MAX_HEAD_BYTES = 256 * 1024
"""The head before compression. It grows only with the traces, which are few. Event loops read heads."""

_PIECE_BYTES = 64 * 1024
_LISTS: Mapping[str, TypeAdapter[Any]] = {
    "pending": TypeAdapter(tuple[PendingJobs, ...]),
    "running": TypeAdapter(tuple[RunningJob, ...]),
    "nodes": TypeAdapter(tuple[NodeState, ...]),
}


class QueueTooLarge(ValueError):
    """A snapshot is larger than a message may be."""


def encode_large(snapshot: QueueSnapshot) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of a large snapshot. Raises QueueTooLarge.

    It takes 0.2 s for 160,000 jobs, and may be called on a thread.
    """
    stream, size, body = zlib.compressobj(1, wbits=31), 0, bytearray()
    for line in _written(snapshot):
        if size == 0 and len(line) > MAX_HEAD_BYTES:
            raise QueueTooLarge(f"the head of the queue has more than {MAX_HEAD_BYTES // 1024} KiB before compression")
        size += len(line)
        body += stream.compress(line)
        if size > MAX_DECODED_BYTES or len(body) > MAX_BODY_BYTES:
            break
    body += stream.flush()
    if size > MAX_DECODED_BYTES:
        raise QueueTooLarge(f"the queue has more than {MAX_DECODED_BYTES // 2**20} MiB before compression")
    if len(body) > MAX_BODY_BYTES:
        raise QueueTooLarge(f"the queue has more than {MAX_BODY_BYTES // 1024} KiB when compressed")
    return bytes(body), {CONTENT_TYPE: JSON, CONTENT_ENCODING: GZIP, SCHEMA: snapshot.schema_name, FORM: LARGE}


def decode_head(body: bytes, headers: Mapping[str, str] | None) -> QueueSnapshot:
    """Parse a small snapshot, or the head of a large one, which takes no longer. Raises InvalidMessage."""
    if not _is_large(headers):
        return decode(QueueSnapshot, body, headers)
    # What follows the head in its last piece is decompressed with it.
    return _head(next(_lines(body, MAX_HEAD_BYTES + _PIECE_BYTES), b""))


def decode_snapshot(body: bytes, headers: Mapping[str, str] | None) -> QueueSnapshot:
    """Parse a whole snapshot. Raises InvalidMessage.

    It takes 0.5 s for 160,000 jobs: call it on a thread for a body of more than some KiB.
    """
    if not _is_large(headers):
        return decode(QueueSnapshot, body, headers)
    lines = _lines(body, MAX_DECODED_BYTES)
    head = _head(next(lines, b""))
    lists: dict[str, list[BaseModel]] = {}
    name = ""
    for line in lines:
        if line.startswith(b',"') and (name := line[2:].partition(b'"')[0].decode(errors="replace")) in _LISTS:
            lists[name] = []
        elif line not in (b"]", b"}"):
            lists.setdefault(name, []).extend(_records(name, line))
    snapshot = head.model_copy(update={"counts": None, **{name: tuple(records) for name, records in lists.items()}})
    if snapshot.list_counts != head.counts:
        raise InvalidMessage("the lists of a large queue have other lengths than its head says")
    return snapshot


def _is_large(headers: Mapping[str, str] | None) -> bool:
    return (headers or {}).get(FORM) == LARGE


def _written(snapshot: QueueSnapshot) -> Iterator[bytes]:
    counted = snapshot.model_copy(update={"counts": snapshot.list_counts})
    head = counted.model_dump_json(exclude=set(_LISTS), exclude_defaults=True).encode()
    yield head[:-1] + b"".join(b',"%s":null' % name.encode() for name in _LISTS if getattr(snapshot, name) is None)
    for name, adapter in _LISTS.items():
        if (records := getattr(snapshot, name)) is None:
            continue
        yield b'\n,"%s":[' % name.encode()
        for begin in range(0, len(records), RECORDS_PER_LINE):
            line = adapter.dump_json(records[begin : begin + RECORDS_PER_LINE], exclude_defaults=True)
            yield (b"\n," if begin else b"\n") + line[1:-1]
        yield b"\n]"
    yield b"\n}"


def _head(line: bytes) -> QueueSnapshot:
    """The head of a snapshot: its lists are None, and it has counts."""
    if len(line) > MAX_HEAD_BYTES:
        raise InvalidMessage(f"the head of a large queue has more than {MAX_HEAD_BYTES} bytes")
    nothing = b"".join(b',"%s":null' % name.encode() for name in _LISTS)
    # Of two equal names the last one counts, and the head has null for the lists that could not be read.
    head = decode(QueueSnapshot, line + nothing + b"}")
    if head.counts is None:
        raise InvalidMessage("the head of a large queue has no counts")
    return head


def _records(name: str, line: bytes) -> list[BaseModel]:
    if name not in _LISTS or not line:
        raise InvalidMessage("a large queue has records in no list, or an empty line")
    try:
        return list(_LISTS[name].validate_json(b"[%s]" % line.removeprefix(b",")))
    except ValidationError as error:
        raise InvalidMessage(f"{name} of a large queue: {error.error_count()} invalid values") from None


def _lines(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """The lines of a compressed body, decompressed as they are asked for. Raises InvalidMessage."""
    begun, size = list[bytes](), 0
    for piece in _decompressed(body):
        size += len(piece)
        if size > max_bytes:
            raise InvalidMessage(f"the compressed body has more than {max_bytes} bytes")
        # Joined once at its end: a line of many pieces would be copied for each of them.
        *ends, begin = piece.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end))
            begun = []
        begun.append(begin)
    yield b"".join(begun)


def _decompressed(body: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    for begin in range(0, len(body), _PIECE_BYTES):
        left, full = body[begin : begin + _PIECE_BYTES], True
        while full and not stream.eof:
            try:
                piece = stream.decompress(left, _PIECE_BYTES)
            except zlib.error as error:
                raise InvalidMessage(f"the body of a large queue is not valid gzip: {error}") from None
            yield piece
            left, full = stream.unconsumed_tail, len(piece) == _PIECE_BYTES
    if not stream.eof:
        raise InvalidMessage("the body of a large queue is truncated")
