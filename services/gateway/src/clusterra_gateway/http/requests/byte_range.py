"""One range of bytes, as a client asks for it in the header Range (RFC 9110, section 14)."""

import re
from dataclasses import dataclass

from aiohttp import web

from clusterra_gateway.http.requests.errors import InvalidRequest, RangeNotSatisfiable
from clusterra_gateway.http.requests.parameters import Parameter

RANGE = Parameter(
    "Range",
    "header",
    # Whatever it is, it is ignored beside `after` and `tail`, and in another unit.
    "^.*$",
    "One range of bytes: `bytes=0-99`, `bytes=100-`, or `bytes=-100` for the last 100.",
)
_SYNTAX = re.compile("bytes=([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range that was not yet compared with the size of the content. At least one of the two is given."""

    first: int | None
    last: int | None
    """The last byte, included; without `first`, the number of bytes at the end."""

    def within(self, size: int) -> tuple[int, int]:
        """The half-open range of bytes, of a content of `size` bytes. Raises RangeNotSatisfiable."""
        if self.first is None:
            begin, end = size - min(size, self.last or 0), size
        else:
            begin, end = self.first, size if self.last is None else min(size, self.last + 1)
        if begin >= end:
            raise RangeNotSatisfiable(
                f"the range has no byte of what there is: it has {size} bytes",
                size=size,
                hint="ask for a range before its end",
            )
        return begin, end


def byte_range(request: web.Request) -> ByteRange | None:
    """The wanted range; None for all, also where the unit is not bytes. Raises InvalidRequest."""
    given = request.headers.get(RANGE.name)
    if given is None or not given.lower().startswith("bytes="):
        return None
    first, _, last = given[len("bytes=") :].partition("-")
    if _SYNTAX.fullmatch(given):
        return ByteRange(int(first) if first else None, int(last) if last else None)
    raise InvalidRequest(
        "Range is not one range of bytes", hint="ask for one range, such as `bytes=0-99` or `bytes=-100`"
    )
