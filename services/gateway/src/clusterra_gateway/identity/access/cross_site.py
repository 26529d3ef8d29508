"""Rejects the requests that a browser makes for the page of another site."""

from collections.abc import Collection, Mapping

from clusterra_gateway.http.requests.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def reject_cross_site(method: str, headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Raises Forbidden when a browser made this changing request for a page of none of these origins.

    Browsers send `Origin` with every such request, and `Sec-Fetch-Site` on trustworthy origins. A request without
    both comes from a program, which has no cookies of a victim to abuse. This is the rule of Go's
    `http.CrossOriginProtection`. Requests with a bearer token need no check: browsers never add one on their own.
    The GET that opens a WebSocket counts as a change: CORS does not protect what is sent and read there.
    """
    if method in SAFE_METHODS and not _opens_web_socket(headers):
        return
    origin = headers.get("Origin")
    if origin in origins:
        return
    site = headers.get("Sec-Fetch-Site")
    if site in ("same-origin", "none") or (site is None and origin is None):
        return
    raise Forbidden(
        "this request was made by a page of another site",
        hint=f"send it from {' or '.join(sorted(origins))}, or with a bearer token instead of the cookie",
    )


def _opens_web_socket(headers: Mapping[str, str]) -> bool:
    """Whether the request asks for a WebSocket, perhaps among other protocols (RFC 9110, 7.8)."""
    return "websocket" in (each.strip().lower() for each in headers.get("Upgrade", "").split(","))
