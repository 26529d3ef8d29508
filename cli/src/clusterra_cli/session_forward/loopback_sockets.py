"""Sockets at one port of both loopback addresses.

Browsers resolve names below `localhost` to ::1 and 127.0.0.1. If the port of one of them were free, another user of the
machine could listen there, and would get the address with its code.
"""

import errno
import socket

_ATTEMPTS = 20
"""For any free port: so often the one of 127.0.0.1 may be taken at ::1."""
_WITHOUT_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def loopback_sockets(port: int) -> list[socket.socket]:
    """Bind a port of 127.0.0.1 and of ::1, or of 127.0.0.1 alone on a machine without IPv6; 0 is any free port.

    Raises OSError where the port is taken at either.
    """
    for attempt in range(_ATTEMPTS):
        first = _bound(socket.AF_INET, "127.0.0.1", port)
        try:
            return [first, _bound(socket.AF_INET6, "::1", first.getsockname()[1])]
        except OSError as error:
            if error.errno in _WITHOUT_IPV6:
                return [first]
            first.close()
            if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        # Two sockets that do not listen yet may share a port.
        made.listen(128)
    except OSError:
        made.close()
        raise
    return made
