"""The connection to a directory, which is a tenant's own server: it gets little time and sends little in all.

ldap3 waits for each part of an answer anew, and collects a message of whatever length the server says. So a server that
sends a byte now and then would keep its thread for ever, and one that sends a long message would fill the memory. Many
empty messages or values would fill it, too: two bytes of them become a hundred in memory, and an entry thousands.
"""

import socket
import time
from typing import Any

MAX_BYTES = 32 * 1024 * 1024
"""The most bytes of all answers. The entries of 20,000 users have 10 MB."""
MAX_MESSAGES = 50_000
"""The most messages: 20,000 users and as many groups, with what ends their pages."""
MAX_ELEMENTS = 1_500_000
"""The most values of BER. 20,000 users have half of this, when each has some addresses and is in some groups."""
_PIECE_BYTES = 256 * 1024
_LONG_FORM = 0x80
_LENGTH_BYTES = 4
"""The most bytes of a length."""
_APPLICATION = 0x40
_CONTEXT = 0x80
_PRIMITIVE = frozenset({0x01, 0x02, 0x04, 0x0A})
"""The universal types whose content is no further values: booleans, integers, strings, enumerations."""
_OCTETS = frozenset({0x07, 0x0A, 0x0B})
"""The context-specific types that ldap3 reads as plain bytes: SASL credentials, and the name and the value of an
extended response, such as that of StartTLS."""


class BoundedSocket:
    """Stands for the socket of an ldap3 connection. Each `recv` returns a whole message of LDAP; b"" at the end.

    `until`: when all must be over, as `time.monotonic` says. `recv` and `sendall` raise TimeoutError after it, and
    `recv` OSError beyond `MAX_BYTES`, `MAX_MESSAGES` and `MAX_ELEMENTS`, and for what is no BER.
    """

    def __init__(self, inner: socket.socket, until: float, answer_seconds: float) -> None:
        self.inner = inner
        self._until = until
        self._answer_seconds = answer_seconds
        self._left = MAX_BYTES
        self._messages_left = MAX_MESSAGES
        self._elements_left = MAX_ELEMENTS

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
        self._messages_left -= bool(message)
        self._elements_left -= _elements(message, self._elements_left) if missing == 0 else 0
        if self._messages_left < 0 or self._elements_left < 0:
            raise OSError("it sends too many values: choose a narrower filter")
        return bytes(message)

    def _missing(self, message: bytearray) -> int:
        """How many bytes of a message are known to be missing."""
        if len(message) < 2:
            return 2 - len(message)
        head = _head_bytes(message, 0)
        if len(message) < head:
            return head - len(message)
        missing = _end(message, 0) - len(message)
        if missing > self._left:
            raise OSError(f"it sends more than {MAX_BYTES} bytes: choose a narrower filter")
        return missing

    def _wait_no_longer(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        self.inner.settimeout(min(left, self._answer_seconds))


def _elements(message: bytearray, most: int) -> int:
    """How many values a message has, those with further values included; more than `most` counts as one more.

    Raises OSError where a value ends after the one that it is in.
    """
    at, count, ends = 0, 0, [len(message)]
    while at < len(message) and count <= most:
        end = _end(message, at) if at + 2 <= len(message) else len(message) + 1
        if end > ends[-1]:
            raise OSError("it does not speak LDAP")
        count += 1
        tag = message[at]
        if _is_primitive(tag):
            at = end
        else:
            ends.append(end)
            at += _head_bytes(message, at)
        while len(ends) > 1 and at == ends[-1]:
            ends.pop()
    return count


def _is_primitive(tag: int) -> bool:
    number = tag & 0x1F
    return number in _PRIMITIVE if tag < _APPLICATION else tag >= _CONTEXT and number in _OCTETS


def _head_bytes(message: bytearray, at: int) -> int:
    """How many bytes the type and the length of a value have. Raises OSError, also for one of unknown length."""
    length = message[at + 1]
    if length < _LONG_FORM:
        return 2
    if not _LONG_FORM < length <= _LONG_FORM + _LENGTH_BYTES:
        raise OSError("it does not speak LDAP")
    return 2 + length - _LONG_FORM


def _end(message: bytearray, at: int) -> int:
    """Where a value ends."""
    head = _head_bytes(message, at)
    return at + head + (message[at + 1] if head == 2 else int.from_bytes(message[at + 2 : at + head]))
