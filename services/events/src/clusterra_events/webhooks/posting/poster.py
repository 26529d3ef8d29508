"""Posts one request to a URL that a user chose, within bounds.

The request follows no redirect and goes through no proxy, and each connection is made only to an allowed IP address
(`user_url`), whatever a resolver said before. The body of the answer is read up to `MAX_ANSWER_BYTES`; no log and no
answer of ours repeats it, nor the URL.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS
from clusterra_runtime.outbound import AddressRefused, Network
from clusterra_runtime.user_url import Scheme, UrlRefused, UserUrl, outbound_of, user_url
from yarl import URL

from clusterra_events.webhooks.posting.bounded_answer import BoundedAnswer
from clusterra_events.webhooks.posting.resolving import OwnThreads

MAX_ANSWER_BYTES = 16 * 1024
CONNECTIONS = 96
"""The most connections at a time. Deliveries and tests together need fewer, so that none waits for another."""
USER_AGENT = "Clusterra-Webhooks/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, or why there is none."""

    status: int | None = None
    """None without an answer."""
    body: bytes = field(default=b"", repr=False)
    """As far as it was read."""
    retry_after: str = ""
    """The header of this name, as it was sent."""
    problem: str = ""
    """Why there is no answer, in words of ours."""


class Poster:
    """Posts requests. One for all webhooks of a process; use it as a context."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        *,
        resolver: AbstractResolver | None = None,
        seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """`allowed`: networks that are not public and may be called all the same, also by plain HTTP."""
        self._allowed = tuple(allowed)
        self._resolver = resolver or OwnThreads(CONNECTIONS)
        self._seconds = seconds
        self._sessions: dict[Scheme, aiohttp.ClientSession] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self._resolver.close)
        # By scheme, because plain HTTP may only go to allowed networks.
        schemes: tuple[Scheme, ...] = ("https", "http") if self._allowed else ("https",)
        for scheme in schemes:
            self._sessions[scheme] = await self._stack.enter_async_context(self._session(scheme))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def _session(self, scheme: Scheme) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS,
            socket_factory=outbound_of(scheme, self._allowed).socket_of,
            resolver=self._resolver,
        )
        # aiohttp has no option for it.
        protocol: type[ResponseHandler] = BoundedAnswer
        connector._factory = partial(protocol, loop=asyncio.get_running_loop())
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._seconds),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            auto_decompress=False,
            trust_env=False,
        )

    async def post(self, text: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Post a body to a URL. It never raises: whatever goes wrong is in the answer."""
        try:
            url = user_url(text, plain_http="http" in self._sessions)
        except UrlRefused as refused:
            return Answer(problem=str(refused))
        try:
            return await self._post(self._sessions[url.scheme], url, headers, body)
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return Answer(problem=problem_of(error, self._seconds))

    async def _post(
        self, session: aiohttp.ClientSession, url: UserUrl, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        address = URL(url.text, encoded=True)
        async with session.post(address, data=body, headers=headers, allow_redirects=False) as response:
            if not 100 <= response.status <= 999:
                return Answer(problem="the answer is not HTTP")
            read = bytearray()
            try:
                while len(read) < MAX_ANSWER_BYTES and (
                    part := await response.content.read(MAX_ANSWER_BYTES - len(read))
                ):
                    read += part
            except (aiohttp.ClientError, OSError):
                pass  # The status alone decides.
            if not response.content.at_eof():
                response.close()
            return Answer(response.status, bytes(read), response.headers.get("Retry-After", ""))


def problem_of(error: Exception, seconds: float) -> str:
    """Why there is no answer, in words of ours: the error's own text may hold the URL or what the receiver sent."""
    match error:
        case TimeoutError():
            return f"no answer within {seconds:g} s"
        case aiohttp.ClientConnectorCertificateError():
            return "the certificate of the receiver is not valid"
        case aiohttp.ClientConnectorDNSError():
            return "the host has no address"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, AddressRefused):
            return str(error.os_error)
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "no TLS connection to the receiver"
        case aiohttp.ClientConnectorError():
            return "no connection to the receiver"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return "the connection ended before the answer"
        case _:
            return "the answer is not HTTP"
