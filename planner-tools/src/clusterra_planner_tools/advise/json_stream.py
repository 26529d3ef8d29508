"""Cuts a huge JSON document into the records of its list, so that nobody holds all of it.

A document is cut where a record seems to begin: at the bytes with which the first one begins. A piece that ends too
early was cut at a wrong place and is joined with the next one. A piece that is no JSON is one bad record; reading goes
on with the next.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from clusterra_planner_tools.advise.left_out import LeftOut, NotReadable

HEAD_BYTES = 4 * 1024 * 1024
"""The list must begin within these bytes."""
RECORD_BYTES = 16 * 1024 * 1024
"""A record that is longer is a bad one."""
CHUNK_BYTES = 1024 * 1024
REPARSED_BYTES = 128 * 1024 * 1024
"""How many bytes are parsed in vain before less is tried: a damaged document must not take for ever."""
_JOINED = 256
"""The most pieces that become one record."""
_JOINED_LATER = 16
"""The same, once REPARSED_BYTES have been parsed in vain."""
_BETWEEN = b", \t\r\n"
_NO_JSON = "not valid JSON"
_TOO_LONG = "a record that does not end"


class EndsEarly(ValueError):
    """A piece may become a record with the bytes after it."""


class RecordCutter[T]:
    """Gives the records of the list named `listed`. `parse` raises EndsEarly and LeftOut."""

    def __init__(self, stream: BinaryIO, listed: str, parse: Callable[[bytes], T]) -> None:
        self._stream = stream
        self._listed = listed
        self._parse = parse
        self._buffer = b""
        self._in_vain = 0

    def __iter__(self) -> Iterator[T | LeftOut]:
        """The records. Raises NotReadable if there is no such list."""
        opening = self._opening()
        if opening is None:
            return
        end = self._find(opening, 1)
        first_end, joined, parsed = end, 0, 0
        while end >= 0:
            try:
                yield self._parse(self._buffer[:end].rstrip(_BETWEEN))
            except EndsEarly:
                joined, parsed = joined + 1, parsed + end
                if joined < self._most_joined and parsed < REPARSED_BYTES and end < RECORD_BYTES:
                    end = self._find(opening, end + 1)
                    continue
                yield LeftOut(_NO_JSON)
                end = self._next_start(first_end, end, parsed)
            except LeftOut as error:
                yield error
                if str(error) == _NO_JSON:
                    end = self._next_start(first_end, end, parsed + end)
            self._buffer = self._buffer[end:]
            end = self._find(opening, 1)
            first_end, joined, parsed = end, 0, 0
        yield from self._last(opening)

    @property
    def _most_joined(self) -> int:
        return _JOINED if self._in_vain < REPARSED_BYTES else _JOINED_LATER

    def _next_start(self, first_end: int, end: int, parsed: int) -> int:
        """Where to go on after pieces up to `end` that are no JSON; they may have hidden where a record begins."""
        self._in_vain += parsed
        return first_end if self._in_vain < REPARSED_BYTES else end

    def _opening(self) -> bytes | None:
        """How each record begins, with the buffer at the first one; None for an empty list."""
        pattern = re.compile(rb'"%s"\s*:\s*\[\s*(\{\s*"[A-Za-z_]{1,64}"\s*:|\])' % re.escape(self._listed.encode()))
        while (found := pattern.search(self._buffer)) is None:
            if len(self._buffer) > HEAD_BYTES or not self._more():
                raise NotReadable(f"a JSON document without a list `{self._listed}`; a good input is `sacct --json`")
        self._buffer = self._buffer[found.start(1) :]
        return None if found[1] == b"]" else found[1]

    def _more(self) -> bool:
        chunk = self._stream.read(CHUNK_BYTES)
        self._buffer += chunk
        return bool(chunk)

    def _find(self, opening: bytes, after: int) -> int:
        """Where a record may begin; -1 at the end of the document, or where a record is too long."""
        while (found := self._buffer.find(opening, after)) < 0:
            after = max(after, len(self._buffer) - len(opening))
            if len(self._buffer) > RECORD_BYTES or not self._more():
                return -1
        return found

    def _last(self, opening: bytes) -> Iterator[T | LeftOut]:
        """The last record, with the end of the document after it."""
        while len(self._buffer) > RECORD_BYTES:
            yield LeftOut(_TOO_LONG)
            self._buffer = self._buffer[-len(opening) :]
            if not self._more():
                return
        try:
            # One character for each byte, so that the end is counted in bytes.
            end = json.JSONDecoder().raw_decode(self._buffer.decode("latin-1"))[1]
            yield self._parse(self._buffer[:end])
        except LeftOut as error:
            yield error
        except (ValueError, RecursionError):
            yield LeftOut("the document ends in the middle of a record")


def broken(message: str) -> EndsEarly | LeftOut:
    """The error for a piece of which pydantic says that it is no JSON."""
    return EndsEarly(message) if "EOF while parsing" in message else LeftOut(_NO_JSON)
