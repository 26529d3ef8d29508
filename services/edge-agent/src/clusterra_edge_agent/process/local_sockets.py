"""Lists the local sockets of this network namespace with their paths and owners (sock_diag(7)).

/proc/net/unix does not tell owners, and prints a path as its author wrote it: also with line breaks.
"""

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SOCK_DIAG = 4
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2
_REQUEST_DUMP = 0x301
_ALL_STATES = 0xFFFFFFFF
_SHOW_NAME_AND_UID = 0x41
_NAME, _UID = 0, 7
_REQUEST = struct.Struct("=IHHIIBBHIIIII")
_HEADER, _ATTRIBUTE, _NUMBER = struct.Struct("=IH"), struct.Struct("=HH"), struct.Struct("=I")
_HEADER_BYTES, _SOCKET_BYTES = 16, 16
_INODE_AT = 4
_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LocalSocket:
    """A local socket that has a name."""

    inode: int
    path: bytes
    uid: int
    """Who has made it."""

    @property
    def may_be_slurms(self) -> bool:
        """Whether slurmd or a part of it may have made it: no process of a user."""
        return self.uid in (0, os.geteuid())


def local_sockets(named: bytes) -> list[LocalSocket]:
    """Returns the local sockets whose names contain `named`. Raises OSError where this kernel does not tell them.

    Others are hardly looked at: users may have any number of sockets.
    """
    asked = (socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_NAME_AND_UID, 0, 0)
    found: list[LocalSocket] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_SECONDS)
        kernel.send(_REQUEST.pack(_REQUEST.size, _BY_FAMILY, _REQUEST_DUMP, 1, 0, *asked))
        while True:
            for kind, body in _parts(kernel.recv(1 << 18), _HEADER, _HEADER_BYTES):
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError("the kernel does not list local sockets")
                if named not in body:
                    continue
                attributes = dict(_parts(body[_SOCKET_BYTES:], _ATTRIBUTE, _ATTRIBUTE.size))
                if _NAME not in attributes:
                    continue
                if _UID not in attributes:
                    raise OSError("the kernel does not tell whose local sockets are")
                (inode,), (uid,) = _NUMBER.unpack_from(body, _INODE_AT), _NUMBER.unpack_from(attributes[_UID])
                found.append(LocalSocket(inode, attributes[_NAME].removesuffix(b"\0"), uid))


def _parts(data: bytes, header: struct.Struct, header_bytes: int) -> Iterator[tuple[int, bytes]]:
    """The kinds and the bodies of netlink's messages, or of the attributes of one. Both are aligned to four bytes."""
    while len(data) >= header_bytes:
        length, kind = header.unpack_from(data)
        yield kind, data[header_bytes:length]
        data = data[max((length + 3) & ~3, header_bytes) :]
