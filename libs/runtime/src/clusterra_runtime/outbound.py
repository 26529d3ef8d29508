"""Addresses that no service calls, whoever gives them: link-local networks, and metadata services.

This prevents server-side request forgery (SSRF). A metadata service hands out the credentials of the machine to whoever
reaches it. So such an address is refused where it is given, and again by each connection, because a name may lead to
another address by then.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

Network = IPv4Network | IPv6Network
type Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host name. Raises OSError."""

CLOSED: tuple[Network, ...] = (
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),  # AWS
    IPv6Network("fd20:ce::254/128"),  # Google Cloud
    IPv4Network("100.100.100.200/32"),  # Alibaba Cloud
    IPv4Network("168.63.129.16/32"),  # Azure
)
RESOLVE_SECONDS = 5.0
_NAT64 = IPv6Network("64:ff9b::/96")

AllowedNetworks = Annotated[tuple[Network, ...], Field(max_length=50)]


class AddressRefused(OSError):
    """An address is closed. The text names it."""


async def resolve(host: str) -> Sequence[str]:
    """Returns the addresses of a host as the system resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in found]


@dataclass(frozen=True)
class Outbound:
    """Which addresses may be called: all but the closed ones, and of these the networks that a setting allows."""

    allowed: tuple[Network, ...] = ()
    closed: tuple[Network, ...] = CLOSED
    resolver: Resolver = resolve

    def check(self, address: str) -> None:
        """Raises AddressRefused for an IP address that may not be called."""
        for form in _forms(ip_address(address.partition("%")[0])):
            if any(form in network for network in self.closed) and not any(form in each for each in self.allowed):
                raise AddressRefused(
                    f"the address {address} is link-local or that of a metadata service, which hands out credentials"
                )

    async def check_url(self, url: str) -> None:
        """Raises AddressRefused where one of the addresses of a URL's host is closed.

        A host that cannot be resolved here is let through: the service that connects to it checks it then.
        """
        host = urlsplit(url).hostname or ""
        found: Sequence[str] = ()
        with suppress(OSError, UnicodeError):  # a timeout is an OSError
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await self.resolver(host)
        for address in found:
            self.check(address)

    def socket_of(self, info: tuple[Any, ...]) -> socket.socket:
        """Makes the socket for one result of getaddrinfo (aiohttp's `socket_factory`). Raises AddressRefused."""
        family, kind, protocol, _, address = info
        self.check(str(address[0]))
        return socket.socket(family, kind, protocol)


DEFAULT_OUTBOUND = Outbound()
"""Refuses every closed address, and allows all others."""


def _forms(address: IPv4Address | IPv6Address) -> Sequence[IPv4Address | IPv6Address]:
    """The address, and the IPv4 address to which one of IPv6 leads."""
    if isinstance(address, IPv4Address):
        return (address,)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and (address in _NAT64 or address.packed[:12] == bytes(12)):
        inner = IPv4Address(address.packed[12:])
    return (address,) if inner is None else (address, inner)
