"""Sends one event to the URL of a webhook, once, within bounds.

A user chose the URL. So the request follows no redirect and goes through no proxy, and each connection is made only to
an allowed IP address (`user_url`), whatever a resolver said before. The body of the answer is read up to
`MAX_ANSWER_BYTES`, and only its size is kept: no log and no answer of ours repeats it, nor the URL.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS, Attempt
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.outbound import AddressRefused, Network
from clusterra_runtime.user_url import Scheme, UrlRefused, UserUrl, outbound_of, user_url
from prometheus_client import Counter
from yarl import URL

from clusterra_events.webhooks.bounded_answer import BoundedAnswer
from clusterra_events.webhooks.resolving import OwnThreads
from clusterra_events.webhooks.signature import SecretUnusable, message_id, signed_headers

MAX_ANSWER_BYTES = 16 * 1024
CONNECTIONS = 96
"""The most connections at a time. Deliveries and tests together need fewer, so that none waits for another."""
CONTENT_TYPE = "application/cloudevents+json"
USER_AGENT = "Clusterra-Webhooks/1"

ATTEMPTS = Counter("clusterra_webhook_attempts_total", "Events sent to webhooks, by outcome", ("outcome",))


class StandardSender:
    """Sends signed events. One for all webhooks of a process; use it as a context."""

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

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once. Whatever goes wrong is in the attempt."""
        began = time.monotonic()
        body = event.model_dump_json().encode()
        status, size, problem = await self._outcome(webhook, message_id(ref, event.id), body)
        delivered = status is not None and 200 <= status < 300
        ATTEMPTS.labels("delivered" if delivered else "refused" if status is not None else "unanswered").inc()
        return Attempt(
            delivered=delivered,
            status=status,
            answer_bytes=size,
            seconds=round(time.monotonic() - began, 3),
            problem=problem,
        )

    async def _outcome(self, webhook: Webhook, message: str, body: bytes) -> tuple[int | None, int, str]:
        """The status and the size of the answer, or what is wrong."""
        try:
            url = user_url(webhook.url, plain_http="http" in self._sessions)
            headers = {"Content-Type": CONTENT_TYPE, **signed_headers(message, now(), body, webhook.secrets)}
        except (UrlRefused, SecretUnusable) as refused:
            return None, 0, str(refused)
        try:
            return await self._post(self._sessions[url.scheme], url, headers, body)
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return None, 0, problem_of(error, self._seconds)

    async def _post(
        self, session: aiohttp.ClientSession, url: UserUrl, headers: Mapping[str, str], body: bytes
    ) -> tuple[int | None, int, str]:
        address = URL(url.text, encoded=True)
        async with session.post(address, data=body, headers=headers, allow_redirects=False) as response:
            if not 100 <= response.status <= 999:
                return None, 0, "the answer is not HTTP"
            size = 0
            try:
                while size < MAX_ANSWER_BYTES and (part := await response.content.read(MAX_ANSWER_BYTES - size)):
                    size += len(part)
            except (aiohttp.ClientError, OSError):
                pass  # The status alone decides.
            if not response.content.at_eof():
                response.close()
            return response.status, size, ""


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
