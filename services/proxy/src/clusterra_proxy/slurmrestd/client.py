"""HTTP client of one slurmrestd: a bounded connection pool, typed answers, typed errors."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

import aiohttp
import orjson
import stamina
from clusterra_contracts.rpc.budgets import READ_SECONDS, WRITE_SECONDS
from clusterra_runtime import tracing
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.tracing import Span, SpanKind
from prometheus_client import Histogram

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.bodies import SUBPROCESS_BYTES, BodyParser, parse
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.error_codes import error_from_answer
from clusterra_proxy.slurmrestd.errors import NotSent, Unavailable, Unreachable
from clusterra_proxy.slurmrestd.known_records import KnownRecords
from clusterra_proxy.slurmrestd.reading.repair import Unreadable
from clusterra_proxy.slurmrestd.versions import path_template

type Method = Literal["GET", "POST", "DELETE"]
type UnreadableListener = Callable[[str, Sequence[Unreadable]], None]
"""Is told the records of an answer of which something could not be read, and what they are, such as `job`."""

CONNECTIONS = 16
"""slurmrestd accepts 124 connections by default, but more than a few concurrent requests only delay each other."""
LIST_SECONDS = 180.0
"""Timeout of a list, without its parsing. slurmrestd needs 0.8 ms and more for each job: 48 s for 60,000."""
READ_ATTEMPTS = 3
FIRST_RETRY_SECONDS = (0.01, 0.03)
"""The shortest and the longest pause before the first retry."""
RETRY_WITHIN_SECONDS = 1.0
"""A broken connection is worth a retry, a timeout is not: an attempt that fails later than this is not retried."""

_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_IDENTITY_HEADER = "X-SLURM-USER-TOKEN"
_OK = 200
_NOT_MODIFIED = 304
_CHUNK_BYTES = 256 * 1024

SECONDS = Histogram(
    "clusterra_slurmrestd_seconds",
    "From sending a request to slurmrestd to receiving its whole answer",
    ("method", "status"),
    buckets=LATENCY_BUCKETS_SECONDS,
)


@dataclass(frozen=True)
class _Request[A: Answer]:
    """A request to slurmrestd, with the model of its answer."""

    method: Method
    path: str
    token: str = field(repr=False)
    model: type[A]
    entity: str
    """What is requested, such as a job, as error texts name it."""
    seconds: float
    query: dict[str, str] | None = None
    body: object = None
    known: KnownRecords[A] | None = None
    known_lines: KnownRecords[A] | None = None


class Slurmrestd:
    """A client of one slurmrestd. Every call carries its caller's token and no other credential.

    Reads are retried when the connection breaks. Writes are sent only once. `entity` names what is requested, such
    as a job, in error texts.
    """

    def __init__(
        self,
        url: str,
        *,
        traces: Sequence[aiohttp.TraceConfig] = (),
        on_unreadable: UnreadableListener | None = None,
    ) -> None:
        self._on_unreadable = on_unreadable
        self._http = aiohttp.ClientSession(
            url.rstrip("/") + "/",
            connector=SlurmrestdConnector(limit=CONNECTIONS),
            headers={"Accept": "application/json"},
            # A user's proxy settings or .netrc must not observe or change these requests.
            trust_env=False,
            trace_configs=list(traces),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def read[A: Answer](
        self,
        path: str,
        token: str,
        model: type[A],
        *,
        entity: str,
        query: dict[str, str] | None = None,
        known: KnownRecords[A] | None = None,
    ) -> A:
        """Read an answer that Slurm gives fast. `known` is that of `read_list`.

        Raises the errors of `error_codes`, and Unreachable without an answer.
        """
        request = _Request("GET", path, token, model, entity, READ_SECONDS, query=query, known=known)
        return self._modified(await self._retry(request), path)

    async def read_list[A: Answer](
        self,
        path: str,
        token: str,
        model: type[A],
        *,
        entity: str,
        query: dict[str, str] | None = None,
        known: KnownRecords[A] | None = None,
        known_lines: KnownRecords[A] | None = None,
    ) -> A | None:
        """Read a possibly large answer; None when nothing has changed since the `update_time` of the query.

        With `known`, which belongs to this list alone, only the records that have changed are parsed. It holds their
        bytes as slurmrestd wrote them. `known_lines` holds less of each, and is used for an answer that is so large
        that a subprocess parses it. Raises the errors of `error_codes`, and Unreachable without an answer.
        """
        request = _Request(
            "GET", path, token, model, entity, LIST_SECONDS, query=query, known=known, known_lines=known_lines
        )
        return await self._retry(request)

    async def write[A: Answer](
        self, method: Method, path: str, token: str, model: type[A], *, entity: str, body: object = None
    ) -> A:
        """Change something. The request is sent once: after Unreachable its outcome is unknown."""
        request = _Request(method, path, token, model, entity, WRITE_SECONDS, body=body)
        return self._modified(await self._send(request), path)

    @staticmethod
    def _modified[A: Answer](answer: A | None, path: str) -> A:
        if answer is None:
            raise Unavailable(f"slurmrestd answered 304 (not modified) to {path}, though the request was unconditional")
        return answer

    async def _retry[A: Answer](self, request: _Request[A]) -> A | None:
        began = time.monotonic()
        try:
            # Without the machinery of retries, which takes as much CPU as the rest of a small request.
            return await self._send(request)
        except Unreachable:
            if time.monotonic() - began > RETRY_WITHIN_SECONDS:
                raise
        await asyncio.sleep(random.uniform(*FIRST_RETRY_SECONDS))  # noqa: S311
        async for attempt in stamina.retry_context(
            on=Unreachable,
            attempts=READ_ATTEMPTS - 1,
            timeout=RETRY_WITHIN_SECONDS,
            wait_initial=0.01,
            wait_max=0.2,
            wait_jitter=0.02,
            wait_exp_base=20,
        ):
            with attempt:
                return await self._send(request)
        raise AssertionError("unreachable: the last attempt raises")

    async def _send[A: Answer](self, request: _Request[A]) -> A | None:
        path = path_template(request.path)
        attributes = {"http.request.method": request.method, "url.template": path, "server.address": "slurmrestd"}
        with tracing.span(f"{request.method} {path}", SpanKind.CLIENT, attributes) as span:
            return await self._send_once(request, span)

    async def _send_once[A: Answer](self, request: _Request[A], span: Span) -> A | None:
        async with BodyParser(request.model, request.known_lines) as parser:
            return await self._send_to(request, span, parser)

    async def _send_to[A: Answer](self, request: _Request[A], span: Span, parser: BodyParser[A]) -> A | None:
        headers = {_IDENTITY_HEADER: request.token}
        content = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            content = orjson.dumps(request.body)
        began = time.perf_counter()
        status, text, large = 0, b"", False
        try:
            async with self._http.request(
                request.method,
                request.path.lstrip("/"),
                params=request.query,
                data=content,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=request.seconds, sock_connect=2.0),
            ) as answer:
                status = answer.status
                large = status == _OK and request.known is None and (answer.content_length or 0) >= SUBPROCESS_BYTES
                if large:
                    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                        await parser.feed(chunk)
                else:
                    text = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            # aiohttp's errors hold the request with its headers, and so the token: do not chain them.
            kind = NotSent if isinstance(error, _NOT_CONNECTED) else Unreachable
            raise kind(
                f"slurmrestd does not respond ({type(error).__name__})",
                hint="check the cluster's slurmrestd, or try again in a moment",
            ) from None
        finally:
            SECONDS.labels(request.method, str(status or "unreachable")).observe(time.perf_counter() - began)
        span.set_attribute("http.response.status_code", status)
        if status == _NOT_MODIFIED:
            return None
        if large:
            parsed = await parser.finish_or_explain(request.entity)
        else:
            parsed = await parse(request.model, text, status, entity=request.entity, known=request.known)
        if status != 200 or parsed.errors:
            raise error_from_answer(status, parsed.errors, entity=request.entity)
        if parsed.unreadable and self._on_unreadable is not None:
            self._on_unreadable(parsed.KIND, parsed.unreadable)
        return parsed
