"""Addresses that no service calls, whoever gives them: link-local networks, and metadata services.

This prevents server-side request forgery (SSRF). A metadata service hands out the credentials of the machine to whoever
reaches it. So such an address is refused where it is given, and again by each connection, because a name may lead to
another address by then.

An address that a user chooses may only be a public one (`NOT_PUBLIC`, `user_url`): every other leads into a network to
which the service has access, and the user has not.
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
NOT_PUBLIC: tuple[Network, ...] = (
    *CLOSED,
    IPv4Network("0.0.0.0/8"),  # this network
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),  # shared by the customers of a provider
    IPv4Network("127.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.0.0.0/24"),  # protocols of the IETF
    IPv4Network("192.0.2.0/24"),  # documentation
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("192.168.0.0/16"),
    IPv4Network("198.18.0.0/15"),  # benchmarks
    IPv4Network("198.51.100.0/24"),  # documentation
    IPv4Network("203.0.113.0/24"),  # documentation
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv4Network("240.0.0.0/4"),  # reserved, and broadcast
    # All of IPv6 but 2000::/3: loopback, mapped IPv4, NAT64, unique local, link-local, multicast, and what is to come.
    IPv6Network("::/3"),
    IPv6Network("4000::/2"),
    IPv6Network("8000::/1"),
    IPv6Network("2001::/23"),  # protocols of the IETF, Teredo among them
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4
    IPv6Network("3fff::/20"),  # documentation
)
"""The special-purpose networks of IANA (RFC 6890), besides those that nobody may call."""
RESOLVE_SECONDS = 5.0
LINK_LOCAL = "the address {address} is link-local or that of a metadata service, which hands out credentials"
_NAT64 = IPv6Network("64:ff9b::/96")

AllowedNetworks = Annotated[tuple[Network, ...], Field(max_length=50)]


class AddressRefused(OSError):
    """An address is closed. The text says why."""


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
    refusal: str = LINK_LOCAL
    """What is wrong with a closed `{address}`."""

    def check(self, address: str) -> None:
        """Raises AddressRefused for an IP address that may not be called."""
        for form in _forms(ip_address(address.partition("%")[0])):
            if any(form in network for network in self.closed) and not any(form in each for each in self.allowed):
                raise AddressRefused(self.refusal.format(address=address))

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
    compatible = address.packed[:12] == bytes(12) and not (address.is_loopback or address.is_unspecified)
    if inner is None and (address in _NAT64 or compatible):
        inner = IPv4Address(address.packed[12:])
    return (address,) if inner is None else (address, inner)
