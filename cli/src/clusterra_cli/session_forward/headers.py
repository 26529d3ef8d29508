"""Rewrites the headers of forwarded requests and answers: hop-by-hop, cookies, Origin, Referer."""

from collections.abc import Iterable
from dataclasses import dataclass

from clusterra_cli.session_forward.admission import COOKIE, Headers, cookie_pairs, values

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_REPLACED = _HOP_BY_HOP | {b"host", b"cookie", b"origin", b"referer", b"expect"}
PAGE_COOKIES = ("clusterra_page_", "__Host-clusterra_page_")
"""The gateway's own cookies: the browser here never gets one, and none that it sends is forwarded."""
_PAGE_COOKIE_BYTES = tuple(each.encode() for each in PAGE_COOKIES)
REFERRER = b"referrer-policy"


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the session is on the gateway, and the cookie that lets its user in."""

    origin: str
    """Such as `https://sessions.example.net`."""
    page: str
    """The path of the session, without a slash at its end."""
    cookie: str
    """`name=value`."""

    @property
    def host(self) -> str:
        """The host with its port, as a request names it."""
        return self.origin.partition("://")[2]


def is_web_socket(method: bytes, headers: Headers) -> bool:
    """Whether a request asks for a WebSocket."""
    return method == b"GET" and [each.lower() for each in values(headers, b"upgrade")] == [b"websocket"]


def to_session(headers: Headers, local: str, upstream: Upstream, *, upgrade: bool) -> list[tuple[bytes, bytes]]:
    """The headers of a request as the gateway gets them. `local` is the origin in the browser here.

    The length of a body, or that it comes in chunks, stays.
    """
    named = _named_by_connection(headers)
    kept = [(name, value) for name, value in headers if name not in _REPLACED and name not in named]
    if values(headers, b"transfer-encoding"):
        kept = [(name, value) for name, value in kept if name != b"content-length"]
        kept.append((b"transfer-encoding", b"chunked"))
    ours = (COOKIE + b"=", *_PAGE_COOKIE_BYTES)
    cookies = [each for each in cookie_pairs(headers) if not each.startswith(ours)]
    kept.append((b"cookie", b"; ".join([*cookies, upstream.cookie.encode()])))
    there = upstream.origin.encode()
    kept += [(b"origin", there) for _ in values(headers, b"origin")[:1]]
    for referer in values(headers, b"referer")[:1]:
        if referer.startswith(local.encode() + b"/"):
            kept.append((b"referer", there + referer[len(local) :]))
    if upgrade:
        kept += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    return [(b"host", upstream.host.encode()), *kept]


def to_browser(headers: Headers, local: str, upstream: Upstream, *, upgrade: bool = False) -> list[tuple[bytes, bytes]]:
    """The headers of an answer as the browser here gets them."""
    named = _named_by_connection(headers)
    kept: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name in named or name in _HOP_BY_HOP or name == b"strict-transport-security":
            continue
        if name == b"set-cookie":
            kept += [(name, cookie) for cookie in _own_cookie(value)]
        elif name == b"location" and _is_below(value, upstream.origin.encode()):
            kept.append((name, local.encode() + value[len(upstream.origin) :]))
        else:
            kept.append((name, value))
    if not values(kept, REFERRER):
        kept.append((REFERRER, b"same-origin"))
    return [*kept, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")] if upgrade else kept


def _is_below(address: bytes, origin: bytes) -> bool:
    return address == origin or address.startswith((origin + b"/", origin + b"?"))


def _own_cookie(line: bytes) -> Iterable[bytes]:
    """A cookie of the session for this host alone; nothing for one of the gateway's, or of ours."""
    parts = [each.strip() for each in line.split(b";")]
    name = parts[0].partition(b"=")[0].strip()
    if name == COOKIE or name.startswith(_PAGE_COOKIE_BYTES):
        return ()
    return (b"; ".join(each for each in parts if each.partition(b"=")[0].strip().lower() != b"domain"),)


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    lines = values(headers, b"connection")
    return frozenset(each.strip().lower() for line in lines for each in line.split(b",")) - {b""}
