"""A gateway as clients call it over HTTP: the arguments of requests, and what answers and errors mean.

A redirect is never followed: the token is for the gateway alone. Bodies have a bound.
"""

import json
import logging
import platform
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx2

from clusterra.credentials import Credentials
from clusterra.errors import AnswerTooLong
from clusterra.exchange import MAX_BODY_BYTES, Answer, Direct, Failure, Request, Retrying

type OnRetry = Callable[[Retrying], object]
"""Called before each pause between two attempts, so that people can be asked for patience. It must not wait."""

CONNECT_SECONDS = 10.0
DIRECT_BODY_BYTES = 64 * 1024
"""How much of the body of another server's answer is kept."""
DIRECT_CHUNK_BYTES = 1024 * 1024
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_ACCEPTED: Mapping[str, str] = {"accept": "application/json, application/problem+json, */*;q=0.1"}


def ignore(_retrying: Retrying) -> None:
    """What a client does by default before it sends a request again: nothing."""


def user_agent() -> str:
    """What the gateway's logs call this program."""
    try:
        own = version("clusterra-sdk")
    except PackageNotFoundError:
        own = "unknown"
    return f"clusterra-sdk/{own} python/{platform.python_version()}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The gateway as a client calls it."""

    url: str
    credentials: Credentials
    timeout_seconds: float

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the HTTP client for the gateway."""
        options = self.direct_options
        if self.url.startswith("http:"):
            # Without TLS no authority is needed, and reading all of them takes 20 ms. This context trusts nobody.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return options

    @property
    def direct_options(self) -> dict[str, Any]:
        """The arguments of the HTTP client for other servers. It has none of the gateway's cookies."""
        return {
            "headers": {"user-agent": user_agent()},
            "timeout": self._timeouts(self.timeout_seconds),
            "follow_redirects": False,
        }

    def arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of one request."""
        headers = {**_ACCEPTED, **request.headers}
        token = self.credentials.token()
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if request.idempotency_key is not None:
            headers["idempotency-key"] = request.idempotency_key
        content: dict[str, Any] = {}
        if isinstance(request.body, bytes):
            content = {"content": request.body}
        elif request.body is not None:
            content = {"content": json.dumps(request.body, allow_nan=False).encode()}
            headers.setdefault("content-type", "application/json")
        seconds = self.timeout_seconds if request.answer_seconds is None else request.answer_seconds
        return {
            "method": request.method,
            "url": self.url + request.path,
            "params": {name: each if isinstance(each, str) else ",".join(each) for name, each in request.query.items()},
            "headers": headers,
            "timeout": self._timeouts(seconds),
            **content,
        }

    def direct_arguments(self, request: Direct) -> dict[str, Any]:
        """The arguments of a request to another server, without its content. It has no token."""
        return {
            "method": request.method,
            "url": request.url,
            "headers": {"accept-encoding": "identity", **request.headers},
            "timeout": self._timeouts(self.timeout_seconds),
        }

    def renewed(self, answer: Answer | Failure, used: str | None) -> bool:
        """Whether the answer refuses the token that was used, and there is another one to send the request with."""
        refused = isinstance(answer, Answer) and answer.status == 401
        return refused and self.credentials.renewed(used) is not None

    @staticmethod
    def _timeouts(seconds: float) -> Any:
        return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def failure_of(error: Exception) -> Failure:
    """What an error of the HTTP client means."""
    # What cannot be sent is named in the text of such an error, and may be the token.
    text = "the request cannot be sent" if isinstance(error, httpx2.LocalProtocolError) else str(error)
    text = text or "no more is known"
    return Failure(f"{type(error).__name__}: {text}", sent=not isinstance(error, _NOT_SENT))


DIRECT_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, UnicodeEncodeError)
"""What the HTTP client raises for a request to another server; the last two, for an address that is none."""


def direct_failure_of(error: Exception) -> Failure:
    """The same for a request to another server, whose text may have the address."""
    return Failure(type(error).__name__, sent=not isinstance(error, _NOT_SENT))


class _WithoutSignatures(logging.Filter):
    """Removes the queries of presigned URLs from the log of the HTTP client: they are secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                each.copy_with(query=None) if isinstance(each, httpx2.URL) and b"ignature=" in each.query else each
                for each in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_WithoutSignatures())


def answer_of(response: httpx2.Response, body: bytes = b"") -> Answer:
    """An answer with what was read of its body."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body)


class Body:
    """Keeps the pieces of a body up to its bound."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._data = bytearray()

    def add(self, piece: bytes) -> None:
        """Keep another piece. Raises AnswerTooLong."""
        self._data += piece
        if len(self._data) > MAX_BODY_BYTES:
            raise AnswerTooLong(
                f"the answer to {self._request.method} {self._request.path} is longer than {MAX_BODY_BYTES} bytes: "
                "read a part of it, such as the last lines of an output, or follow it"
            )

    @property
    def data(self) -> bytes:
        """All pieces."""
        return bytes(self._data)
