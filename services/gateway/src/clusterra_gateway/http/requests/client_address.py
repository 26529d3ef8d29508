"""The address that a request comes from: the client's own, where it is a trusted proxy that passes the request on.

Anyone may send `X-Forwarded-For`. So only proxies in the configured networks are believed. Each proxy appends the
address that it was called from, so the right-most address that is no trusted proxy's is the client's. What stands
before it is the client's own word.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import web

FORWARDED_FOR = "X-Forwarded-For"
MAX_HOPS = 20
"""How many addresses of a header are looked at."""

type Network = IPv4Network | IPv6Network


class ClientAddresses:
    """Tells the addresses of clients, behind the proxies in these networks and without any."""

    def __init__(self, trusted_proxies: Sequence[Network]) -> None:
        self._trusted = tuple(trusted_proxies)

    def of(self, request: web.Request) -> str:
        """The client's address. It is the connection's where a header is missing or malformed."""
        return self.client(str(request.remote), request.headers.getall(FORWARDED_FOR, []))

    def network_of(self, request: web.Request) -> str:
        """The network whose requests are counted together: an IPv4 address, or the /64 of an IPv6 address.

        A client has a whole /64 to itself, and would else count as new with each request.
        """
        text = self.of(request)
        address = _address(text)
        return str(ip_network((address, 64), strict=False)) if isinstance(address, IPv6Address) else text

    def client(self, connection: str, forwarded_for: Sequence[str]) -> str:
        """The client's address by the connection's and the values of all `X-Forwarded-For` headers, in their order."""
        peer = _address(connection)
        if peer is None or not self._is_trusted(peer):
            return connection
        for hop in ",".join(forwarded_for).split(",")[: -MAX_HOPS - 1 : -1]:
            address = _address(hop.strip())
            if address is None:
                return connection
            if not self._is_trusted(address):
                return str(address)
        return connection

    def _is_trusted(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._trusted)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None  # it means something on one machine alone
        # A socket for both families shows an IPv4 address so.
        return address.ipv4_mapped or address
    return address
