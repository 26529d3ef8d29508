"""Waits on this machine for the browser that comes back from a sign-in.

It listens on 127.0.0.1 alone, and takes one request that has the state of this sign-in. All others, such as that for
an icon or those of other programs, learn that there is nothing.
"""

import time
from collections.abc import Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import MappingProxyType
from typing import override
from urllib.parse import parse_qsl, urlsplit

PATH = "/"
MAX_PARAMETERS = 20
_ONE_REQUEST_SECONDS = 5.0
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 36em; margin: 3em auto">
<h1>{title}</h1><p>{text}</p></body></html>
"""


class Listener:
    """A server for one answer. Use it in a `with` block: the port is taken from its begin to its end."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._answer: Mapping[str, str] | None = None
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self._server.timeout = 0.25

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to come back."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{PATH}"

    def answer(self, seconds: float) -> Mapping[str, str] | None:
        """The parameters that the browser brings; None when it has not come in this time."""
        ends = time.monotonic() + seconds
        while self._answer is None and time.monotonic() < ends:
            self._server.handle_request()
        return self._answer

    def _take(self, target: str) -> bool:
        """Whether a request's target is the answer of this sign-in."""
        parts = urlsplit(target)
        try:
            given = dict(parse_qsl(parts.query, strict_parsing=True, max_num_fields=MAX_PARAMETERS))
        except ValueError:
            return False
        if parts.path != PATH or given.get("state") != self._state or not given.keys() & {"code", "error"}:
            return False
        self._answer = MappingProxyType(given)
        return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            timeout = _ONE_REQUEST_SECONDS

            def do_GET(self) -> None:
                if not take(self.path):
                    self._send(404, "Nothing here", "This address waits for a sign-in, and this is none of it.")
                else:
                    self._send(200, "Back to the terminal", "You can close this page.")

            def _send(self, status: int, title: str, text: str) -> None:
                body = _PAGE.format(title=escape(title), text=escape(text)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, *_: object) -> None:
                """Nothing is logged: the address has the code."""

        return Handler
