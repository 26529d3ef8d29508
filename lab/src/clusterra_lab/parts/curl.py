"""Handing a browser session over to curl."""

from aiohttp.abc import AbstractCookieJar


def cookie_file(jar: AbstractCookieJar, host: str) -> str:
    """The cookies of a session with `host`, in the format of curl's `--cookie FILE` (that of Netscape)."""
    lines = ["# Netscape HTTP Cookie File"]
    for cookie in jar:
        secure = "TRUE" if cookie["secure"] else "FALSE"
        # An expiry of 0 is a cookie of the session; the server knows when it ends.
        lines.append("\t".join((host, "FALSE", cookie["path"] or "/", secure, "0", cookie.key, cookie.value)))
    return "\n".join(lines) + "\n"
