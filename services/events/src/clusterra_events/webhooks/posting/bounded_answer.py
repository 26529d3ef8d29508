"""Bounds what a receiver may send for one request, before and after the head of its answer.

aiohttp parses all that arrives, and only a body waits until it is read. An endless row of answers such as `100
Continue`, which are none yet, would take all the time of the event loop, and so would chunks without data.
"""

import asyncio
from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD

MAX_HEAD_BYTES = 32 * 1024
"""Until the body begins, with the provisional answers before."""
MAX_BYTES = 1024 * 1024
"""In all. The sender has closed the connection long before, where it reads a body."""


class BoundedAnswer(ResponseHandler):
    """The protocol of a connection. It ends where an answer is longer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._taken = 0

    def set_response_params(self, **params: Any) -> None:
        """Begin to read the answer to a further request."""
        self._taken = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, as far as it is within the bounds."""
        room = max(MAX_HEAD_BYTES - self._taken, 0)
        self._taken += len(data)
        if room or not data:
            super().data_received(data[:room])
        rest = data[room:]
        if not rest or self.transport is None or self.transport.is_closing():
            return
        has_body = self._payload is not None and self._payload is not EMPTY_PAYLOAD
        if has_body and self._taken <= MAX_BYTES:
            super().data_received(rest)
            return
        self.set_exception(HttpProcessingError(message="the answer is too long"))
        self.transport.abort()
