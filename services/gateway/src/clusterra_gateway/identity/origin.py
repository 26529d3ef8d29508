"""Protects against cross-site request forgery: a browser sends our cookie even when another site's page made the
request."""

from collections.abc import Mapping

from clusterra_gateway.http.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def reject_cross_site(method: str, headers: Mapping[str, str], own_origin: str) -> None:
    """Raises Forbidden when a browser made this changing request for another site's page.

    Browsers send `Origin` with every such request, and `Sec-Fetch-Site` on trustworthy origins. A request without
    both comes from a program, which has no cookies of a victim to abuse. This is the rule of Go's
    `http.CrossOriginProtection`. Requests with a bearer token need no check: browsers never add one on their own.
    """
    if method in SAFE_METHODS:
        return
    origin = headers.get("Origin")
    if origin == own_origin:
        return
    site = headers.get("Sec-Fetch-Site")
    if site in ("same-origin", "none") or (site is None and origin is None):
        return
    raise Forbidden(
        "this request was made by a page of another site",
        hint=f"send it from {own_origin}, or with a bearer token instead of the cookie",
    )
