"""Cross-site request forgery: a browser sends our cookie with other sites' requests, so those are told apart."""

from collections.abc import Mapping

from clusterra_gateway.http.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def refuse_cross_site(method: str, headers: Mapping[str, str], own_origin: str) -> None:
    """Raise Forbidden when a browser made this changing request for another site.

    Every browser sends `Origin`, and on trustworthy origins `Sec-Fetch-Site`, with such requests. A request that
    carries neither was made by a program, which has no foreign cookies to abuse (the rule of Go's
    `http.CrossOriginProtection`). Requests with a bearer token need no check: browsers never add one by themselves.
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
