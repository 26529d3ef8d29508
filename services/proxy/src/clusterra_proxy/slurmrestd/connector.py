"""TCP connections to slurmrestd, which tolerate its malformed error answers.

Up to 26.05 at least, slurmrestd sends an error with `Connection: Close` and then a second answer in plain text.
aiohttp rejects the whole exchange, and with it Slurm's error number. So everything after the first answer is dropped
before aiohttp parses it.
"""

import asyncio
import functools
import re
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound

_END_OF_HEAD = b"\r\n\r\n"
_HEAD_BYTES = 64 * 1024
"""Maximum size of an answer's head. slurmrestd's have some 200 bytes."""
_LENGTH = re.compile(rb"\r\nContent-Length: *(\d{1,18})\r\n", re.IGNORECASE)


class _Connection(ResponseHandler):
    """Passes one answer per request to aiohttp. slurmrestd gives every body a Content-Length."""

    _head = b""
    _left: int | None = None

    def set_response_params(self, **options: Any) -> None:
        self._head, self._left = b"", None
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        if self._left is None:
            self._head += data
            end = self._head.find(_END_OF_HEAD)
            if (len(self._head) if end < 0 else end) > _HEAD_BYTES:
                self._head, self._left = b"", 0
                self.close()
                return
            if end < 0:
                return
            data, self._head = self._head, b""
            head = data[: end + len(_END_OF_HEAD)]
            length = _LENGTH.search(head)
            self._left = len(head) + (int(length.group(1)) if length else 0)
        answer = data[: self._left]
        self._left -= len(answer)
        if answer:
            super().data_received(answer)


class SlurmrestdConnector(aiohttp.TCPConnector):
    """A bounded pool of connections that accept only the first answer to each request."""

    def __init__(self, *, limit: int, outbound: Outbound = DEFAULT_OUTBOUND) -> None:
        super().__init__(limit=limit, keepalive_timeout=60.0, socket_factory=outbound.socket_of)
        handler: type[ResponseHandler] = _Connection
        self._factory = functools.partial(handler, loop=asyncio.get_running_loop())
