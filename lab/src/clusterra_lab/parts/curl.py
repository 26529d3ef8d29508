"""Exports the cookies of a session for curl."""

from aiohttp.abc import AbstractCookieJar


def cookie_file(jar: AbstractCookieJar, host: str) -> str:
    """The session's cookies for `host`, in the Netscape format that curl's `--cookie FILE` reads."""
    lines = ["# Netscape HTTP Cookie File"]
    for cookie in jar:
        secure = "TRUE" if cookie["secure"] else "FALSE"
        # An expiry of 0 means a session cookie; the server decides when it ends.
        lines.append("\t".join((host, "FALSE", cookie["path"] or "/", secure, "0", cookie.key, cookie.value)))
    return "\n".join(lines) + "\n"
