"""Who may use the forwarded port: the browser in which the user has opened the printed address, and nobody else.

Every user of the machine can connect to a port of 127.0.0.1, and every web page can make the browser do so. So:

- the address has a random name below `localhost`, which browsers resolve to this machine themselves. Requests for other
  names are refused: a page cannot reach the port under a name of its own (DNS rebinding), and browsers do not send the
  cookie to the servers of others on 127.0.0.1, as they would for that name, because cookies know no ports;
- the address has a code, which works once and gives the browser its cookie;
- a request that another page causes (CSRF) is refused by its `Origin` and `Sec-Fetch-Site`.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hmac import compare_digest

type Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""

COOKIE = b"clusterra_forward"
MAX_TARGET_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer of our own, with a text for the person."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to a path; with a cookie where the browser has shown the code."""

    path: str
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """The request is forwarded to the session."""


type Decision = Rejection | Redirect | Forward


def values(headers: Headers, name: bytes) -> list[bytes]:
    """The values of a header."""
    return [value for each, value in headers if each == name]


def cookie_pairs(headers: Headers) -> list[bytes]:
    """The pairs `name=value` of all cookies of a request."""
    lines = values(headers, b"cookie")
    return [pair for line in lines for each in line.split(b";") if (pair := each.strip())]


@dataclass(slots=True)
class Admission:
    """Decides on requests. `page` is the path of the session, without a slash at its end."""

    page: str
    port: int
    label: str = field(default_factory=lambda: f"clusterra-{secrets.token_hex(8)}")
    _code: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def host(self) -> str:
        """The `Host` of the requests that are served."""
        return f"{self.label}.localhost:{self.port}"

    @property
    def origin(self) -> str:
        """The origin of the page in the user's browser."""
        return f"http://{self.host}"

    @property
    def address(self) -> str:
        """What the user opens in a browser, once."""
        return f"{self.origin}/{self._code}"

    def decide(self, method: bytes, target: bytes, headers: Headers) -> Decision:
        """What to do with a request."""
        if [each.lower() for each in values(headers, b"host")] != [self.host.encode()]:
            return Rejection(421, "This port serves the address that the command has printed, and nothing else.")
        if len(target) > MAX_TARGET_BYTES or not target.startswith(b"/") or not target.isascii():
            return Rejection(400, "This is no address of a session.")
        if method == b"GET" and compare_digest(target, f"/{self._code}".encode()):
            self._code = secrets.token_urlsafe(24)
            cookie = f"{COOKIE.decode()}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
            return Redirect(f"{self.page}/", cookie)
        wanted = COOKIE + b"=" + self._cookie.encode()
        if not any(compare_digest(each, wanted) for each in cookie_pairs(headers)):
            return Rejection(403, "Open the address that the command has printed. It works once, in one browser.")
        # A browser names where a request comes from; a program that has the cookie need not.
        if any(each != self.origin.encode() for each in values(headers, b"origin")):
            return Rejection(403, "Another page has made this request.")
        if any(each not in (b"same-origin", b"none") for each in values(headers, b"sec-fetch-site")):
            return Rejection(403, "Another page has made this request.")
        path = target.partition(b"?")[0]
        if path == b"/":
            return Redirect(f"{self.page}/")
        if path != self.page.encode() and not path.startswith(self.page.encode() + b"/"):
            return Rejection(404, "There is nothing here but the session.")
        return Forward()
