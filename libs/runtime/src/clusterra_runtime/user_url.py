"""URLs that users choose and services call, such as those of webhooks: which are allowed, by text and by address.

The text is checked by one strict rule, so that no two parsers can read it differently: ASCII only, no user and no
password, no fragment, a host that is a name or a canonical IP address. The IP address is checked by each connection
(`outbound_of`), because a name may lead to another address each time.
"""

import re
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, cast

from clusterra_contracts.webhooks import MAX_URL_CHARACTERS

from clusterra_runtime.outbound import NOT_PUBLIC, Network, Outbound, Resolver, resolve

type Scheme = Literal["https", "http"]

OTHER_PORTS = frozenset(
    {
        *(0, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 53, 69, 110, 111, 113, 119, 123, 135, 137, 138, 139),
        *(143, 161, 162, 179, 389, 427, 445, 465, 512, 513, 514, 515, 548, 554, 587, 636, 873, 990, 993, 995, 1433),
        *(1521, 1723, 2049, 2181, 2379, 2380, 3268, 3269, 3306, 3389, 4222, 5060, 5061, 5432, 5672, 5900, 6000, 6379),
        *(6566, 6665, 6666, 6667, 6668, 6669, 6697, 6817, 6818, 6819, 9042, 9092, 11211, 27017),
    }
)
"""Ports of well-known services that do not speak HTTP, and might obey a part of a request all the same."""
HTTPS_ONLY = "the URL must begin with https://"
NOT_A_PUBLIC_ADDRESS = "the address is not a public one"
NOT_FOR_PLAIN_HTTP = "the address may only be called by https"
_EVERYTHING: tuple[Network, ...] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_DEFAULT_PORTS: dict[Scheme, int] = {"https": 443, "http": 80}

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?P<authority>[^/?#]*)"
    r"(?P<rest>(?:/[A-Za-z0-9._~:/@!$&'()*+,;=%\[\]-]*)?(?:\?[A-Za-z0-9._~:/?@!$&'()*+,;=%\[\]-]*)?)"
)
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class UrlRefused(ValueError):
    """A URL may not be called. The text says why, and does not repeat it: it may hold a password."""


@dataclass(frozen=True, slots=True)
class UserUrl:
    """A URL that follows the rules. Where its host leads has not been checked."""

    scheme: Scheme
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    text: str
    """The URL as it is called."""

    def __repr__(self) -> str:
        # Never the path or the query, nor the host: whoever logs this must not log a password.
        return f"UserUrl({self.scheme})"


def user_url(text: str, *, plain_http: bool = False) -> UserUrl:
    """The parts of a URL that a user chose. Raises UrlRefused.

    `plain_http`: whether the installation allows networks that may be called without TLS.
    """
    if len(text) > MAX_URL_CHARACTERS:
        raise UrlRefused(f"the URL has more than {MAX_URL_CHARACTERS} characters")
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise UrlRefused("the URL must be printable ASCII without spaces and backslashes: write others as %XX or xn--")
    if (whole := _URL.fullmatch(text)) is None:
        raise UrlRefused("it is not a URL such as https://hooks.example.com/path, without a fragment (#)")
    scheme = whole["scheme"].lower()
    if scheme not in _DEFAULT_PORTS or (scheme == "http" and not plain_http):
        raise UrlRefused(HTTPS_ONLY)
    if "@" in whole["authority"]:
        raise UrlRefused("the URL must have no user and no password before its host")
    if (authority := _AUTHORITY.fullmatch(whole["authority"])) is None:
        raise UrlRefused("the host of the URL must be a name or an IP address")
    known = cast(Scheme, scheme)
    port = int(authority["port"]) if authority["port"] else _DEFAULT_PORTS[known]
    if port > 65535 or port in OTHER_PORTS:
        raise UrlRefused(f"the port {port} is not one of a web server")
    host = authority["host"].lower()
    place = f"{host}:{authority['port']}" if authority["port"] else host
    rest = whole["rest"] if whole["rest"].startswith("/") else f"/{whole['rest']}"
    return UserUrl(known, _checked_host(host), port, f"{known}://{place}{rest}")


def outbound_of(scheme: Scheme, allowed: tuple[Network, ...], resolver: Resolver = resolve) -> Outbound:
    """Which IP addresses the URLs of a scheme may lead to: public ones by https alone, allowed ones by http, too."""
    public = Outbound(allowed, NOT_PUBLIC, resolver, NOT_A_PUBLIC_ADDRESS)
    return public if scheme == "https" else replace(public, closed=_EVERYTHING, refusal=NOT_FOR_PLAIN_HTTP)


def _checked_host(host: str) -> str:
    """A host without its brackets. Raises UrlRefused for a number that resolvers may take for another IP address."""
    try:
        if host.startswith("["):
            return str(IPv6Address(host[1:-1]))
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            # Resolvers take 2130706433, 0x7f.1 and 0177.0.0.1 for 127.0.0.1.
            return str(IPv4Address(host))
    except AddressValueError:
        raise UrlRefused("an IP address must be written as usual, such as 198.51.100.7 or [2001:db8::7]") from None
    if not _NAME.fullmatch(host):
        raise UrlRefused("the host of the URL must be a name or an IP address")
    return host
