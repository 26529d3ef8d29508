"""Cuts a body into the records of its list as it arrives, so that nobody holds all of it: 60,000 jobs are 500 MB.

The body is cut where a record seems to begin. A piece that is no JSON was cut at a wrong place: the next one belongs to
it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from clusterra_proxy.slurmrestd.reading.json_content import content_of

HEAD_BYTES = 4 * 1024 * 1024
"""The list must begin within so many bytes."""
RECORD_BYTES = 64 * 1024 * 1024
"""Maximum size of a record."""
_BETWEEN = b", \t\r\n"
_DECODER = json.JSONDecoder()


def opening_of(body: bytes, listed: str) -> tuple[int, int, bytes] | None:
    """Return where a list begins, where its first record begins, and how each record begins; None without records."""
    found = re.search(rb'"%s"\s*:\s*(\[)\s*(\{\s*"[A-Za-z_]+"\s*:)' % re.escape(listed.encode()), body)
    return None if found is None else (found.start(1), found.start(2), found.group(2))


def end_of(record: bytes) -> int:
    """Return where the JSON value ends with which these bytes begin. Raises ValueError."""
    try:
        # One character for each byte, so that the end is counted in bytes.
        return _DECODER.raw_decode(record.decode("latin-1"))[1]
    except RecursionError as error:
        raise ValueError("a record is nested too deeply") from error


class RecordStream:
    """Takes the chunks of a body with a list named `listed`, and gives the content of its records one by one."""

    def __init__(self, listed: str) -> None:
        self._listed = listed
        self._buffer = b""
        self._head: bytes | None = None
        self._opening = b""

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Take the next bytes, and yield the records that are complete with them. Raises ValueError."""
        self._buffer += chunk
        if self._head is None:
            found = opening_of(self._buffer, self._listed) if len(self._buffer) <= HEAD_BYTES + len(chunk) else None
            if found is None:
                return
            begin, first, self._opening = found
            self._head, self._buffer = self._buffer[:begin], self._buffer[first:]
        begin, end = 0, self._next(0)
        while end >= 0:
            try:
                # A record that begins in another way is in the piece of the one before.
                yield from content_of(b"[" + self._buffer[begin:end].rstrip(_BETWEEN) + b"]")
            except ValueError:
                if end - begin > RECORD_BYTES:
                    raise
            else:
                begin = end
            end = self._next(end)
        self._buffer = self._buffer[begin:]
        if len(self._buffer) > RECORD_BYTES + len(chunk):
            raise ValueError("a record of the list does not end")

    def finish(self) -> tuple[list[Any], bytes]:
        """Return the last records, and the body with an empty list. Raises ValueError for a body that has ended early.

        A body in which no list of records was found is returned whole.
        """
        if self._head is None:
            return [], self._buffer
        left = b"[" + self._buffer
        length = end_of(left)
        return content_of(left[:length]), self._head + b"[]" + left[length:]

    def _next(self, after: int) -> int:
        return self._buffer.find(self._opening, after + 1)
