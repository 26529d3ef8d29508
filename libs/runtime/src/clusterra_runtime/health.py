"""`/livez`, `/readyz` and `/metrics`, served by a separate thread, because a stuck event loop cannot answer."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread

import orjson

from clusterra_runtime.metrics import READY, exposition
from clusterra_runtime.settings import ServiceSettings

TURN_SECONDS = 0.5
POLL_SECONDS = 0.1
"""How often the thread checks whether it must stop; the process waits for it."""
READY_SECONDS = 2.0
_JSON = "application/json"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # HTTPServer would look up its own name in the DNS here, which can be slow.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "health", self.server_address[1]


class HealthServer:
    """Answers probes and scrapes for one event loop.

    `failing` returns the readiness conditions that are not met; it runs on the event loop.
    """

    def __init__(self, settings: ServiceSettings, failing: Callable[[], list[str]]) -> None:
        self._stuck_seconds = settings.stuck_seconds
        self._failing = failing
        self._loop = asyncio.get_running_loop()
        self._turned = time.monotonic()
        self._beat: asyncio.TimerHandle | None = None
        self._server = _Server((settings.health_host, settings.health_port), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name="health", daemon=True)

    @property
    def address(self) -> str:
        """`host:port`, with the actual port."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> None:
        """Start serving."""
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; returns once the port is free."""
        if self._beat is not None:
            self._beat.cancel()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _turn(self) -> None:
        self._turned = time.monotonic()
        READY.set(not self._failing())
        self._beat = self._loop.call_later(TURN_SECONDS, self._turn)

    def live(self) -> tuple[HTTPStatus, dict[str, object]]:
        """Returns whether the event loop runs."""
        turn = time.monotonic() - self._turned
        alive = turn <= self._stuck_seconds
        return _status(alive), {"live": alive, "turn_seconds": round(turn, 3)}

    def ready(self) -> tuple[HTTPStatus, dict[str, object]]:
        """Returns whether all conditions are met, and the names of those that are not."""
        answer: Future[list[str]] = Future()

        try:
            self._loop.call_soon_threadsafe(lambda: answer.set_result(self._failing()))
            failing = answer.result(READY_SECONDS)
        except (TimeoutError, RuntimeError):
            failing = ["event loop"]
        return _status(not failing), {"ready": not failing, "failing": failing}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        health = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0

            def do_GET(self) -> None:
                match self.path.partition("?")[0]:
                    case "/livez":
                        status, body = health.live()
                        self._answer(status, orjson.dumps(body), _JSON)
                    case "/readyz":
                        status, body = health.ready()
                        self._answer(status, orjson.dumps(body), _JSON)
                    case "/metrics":
                        self._answer(HTTPStatus.OK, *exposition())
                    case _:
                        self._answer(HTTPStatus.NOT_FOUND, b"/livez, /readyz or /metrics", "text/plain")

            def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
                """Log nothing: probes are too frequent."""

        return Handler


def _status(passed: bool) -> HTTPStatus:
    return HTTPStatus.OK if passed else HTTPStatus.SERVICE_UNAVAILABLE
