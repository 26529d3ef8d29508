"""Signs in at a session's page, as a browser does: with a ticket of the gateway, for a cookie of the page."""

import threading
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusterra_cli.connection import on_cluster
from clusterra_cli.session_forward.headers import PAGE_COOKIES, Upstream
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.models import Session

SECONDS = 30.0


class PageSignIn:
    """Keeps the cookie of one session's page, and renews it before it ends. Several threads may use one."""

    def __init__(self, client: "Client", job_id: str) -> None:
        self._client = client
        self._path = on_cluster("sessions", job_id)
        self._lock = threading.Lock()
        self._upstream: Upstream | None = None
        self._renewed_at = 0.0

    def session(self) -> "Session":
        """The session as it is now. Raises the errors of the SDK."""
        from clusterra.models import Session

        return self._client.fetch(Session, "GET", self._path)

    def upstream(self) -> Upstream:
        """Where the session is, with a cookie that is valid. Raises the errors of the SDK."""
        with self._lock:
            if self._upstream is None or time.monotonic() >= self._renewed_at:
                self._upstream, seconds = self._enter()
                self._renewed_at = time.monotonic() + seconds / 2
            return self._upstream

    def _enter(self) -> tuple[Upstream, int]:
        """Redeem a ticket. Returns the cookie, and for how many seconds it is valid."""
        import httpx2
        from clusterra.context import is_private
        from clusterra.errors import NotClusterra, Unreachable
        from clusterra.models import EntryTicket

        ticket = self._client.fetch(EntryTicket, "POST", f"{self._path}/ticket")
        address = urlsplit(ticket.url)
        origin = f"{address.scheme}://{address.netloc}"
        if is_private(self._client.url) and not is_private(ticket.url):
            raise WrongUsage(f"the page of the session is at {origin}, which is not HTTPS", "an operator sets it")
        try:
            # Not by the client: its token is for the gateway alone.
            form = {"ticket": ticket.ticket}
            # Directly, as the listener connects.
            answer = httpx2.post(ticket.url, data=form, follow_redirects=False, timeout=SECONDS, trust_env=False)
        except httpx2.HTTPError as error:
            raise Unreachable(origin, str(error) or type(error).__name__) from None
        page = answer.headers.get("location", "").rstrip("/")
        found = _page_cookie(answer.headers.get_list("set-cookie"))
        if answer.status_code != 303 or found is None or not page.startswith("/sessions/"):
            raise NotClusterra(origin, answer.status_code, answer.content[:4096])
        cookie, seconds = found
        return Upstream(origin, page, cookie), seconds


def _page_cookie(lines: list[str]) -> tuple[str, int] | None:
    """The cookie of the page, and for how many seconds it is valid."""
    for line in lines:
        try:
            for name, morsel in SimpleCookie(line).items():
                if name.startswith(PAGE_COOKIES) and morsel["max-age"].isdecimal():
                    return f"{name}={morsel.value}", int(morsel["max-age"])
        except CookieError:
            continue
    return None
