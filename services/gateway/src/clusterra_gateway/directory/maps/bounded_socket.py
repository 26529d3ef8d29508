"""The connection to a directory, which is a tenant's own server: it gets little time and sends little in all.

ldap3 waits for each part of an answer anew, and collects a message of whatever length the server says. So a server that
sends a byte now and then would keep its thread for ever, and one that sends a long message would fill the memory.
"""

import socket
import time
from typing import Any

MAX_BYTES = 32 * 1024 * 1024
"""The most bytes of all answers. The entries of 20,000 users have 10 MB."""
_PIECE_BYTES = 256 * 1024
_LONG_FORM = 0x80


class BoundedSocket:
    """Stands for the socket of an ldap3 connection. Each `recv` returns a whole message of LDAP; b"" at the end.

    `until`: when all must be over, as `time.monotonic` says. `recv` and `sendall` raise TimeoutError after it, and
    `recv` OSError beyond `MAX_BYTES`.
    """

    def __init__(self, inner: socket.socket, until: float, answer_seconds: float) -> None:
        self.inner = inner
        self._until = until
        self._answer_seconds = answer_seconds
        self._left = MAX_BYTES

    def __getattr__(self, name: str) -> Any:
        """All else is that of the socket."""
        return getattr(self.inner, name)

    def sendall(self, data: bytes) -> None:
        """Send a request."""
        self._wait_no_longer()
        self.inner.sendall(data)

    def recv(self, _size: int) -> bytes:
        """Return a message; the beginning of one where the server ends the connection."""
        message = bytearray()
        while (missing := self._missing(message)) > 0:
            self._wait_no_longer()
            received = self.inner.recv(min(missing, _PIECE_BYTES))
            if not received:
                break
            message += received
            self._left -= len(received)
        return bytes(message)

    def _missing(self, message: bytearray) -> int:
        """How many bytes of a message are known to be missing."""
        if len(message) < 2:
            return 2 - len(message)
        length, head = message[1], 2
        if length & _LONG_FORM:
            head += length & ~_LONG_FORM
            if len(message) < head:
                return head - len(message)
            length = int.from_bytes(message[2:head])
        missing = head + length - len(message)
        if missing > self._left:
            raise OSError(f"it sends more than {MAX_BYTES} bytes: choose a narrower filter")
        return missing

    def _wait_no_longer(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        self.inner.settimeout(min(left, self._answer_seconds))
