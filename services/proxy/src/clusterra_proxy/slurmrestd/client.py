"""HTTP client of one slurmrestd: a bounded connection pool, typed answers, typed errors."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Literal, Self

import aiohttp
import orjson
from clusterra_contracts.rpc.deadlines import READ_SECONDS, WRITE_SECONDS
from clusterra_runtime import tracing
from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, AddressRefused, Outbound
from clusterra_runtime.tracing import Span, SpanKind
from prometheus_client import Histogram

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.bodies import SUBPROCESS_BYTES, BodyParser, parse
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.error_codes import error_from_answer
from clusterra_proxy.slurmrestd.errors import BadAnswer, Invalid, NotSent, Unavailable, Unreachable
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
FIRST_RETRY_SECONDS = 0.02
LONGEST_RETRY_SECONDS = 0.2
RETRY_WITHIN_SECONDS = 1.0
"""A broken connection is worth a retry, a timeout is not: an attempt that fails later than this is not retried."""

_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_IDENTITY_HEADER = "X-SLURM-USER-TOKEN"
_OK = 200
_REDIRECTION = range(300, 400)
_NOT_MODIFIED = 304
_CHUNK_BYTES = 256 * 1024
KNOWN_BYTES = 64 * 1024 * 1024
"""Maximum size of an answer that is compared with known records in memory. The states of 100,000 jobs are 20 MB."""
LIST_BYTES = 2 * 1024 * 1024 * 1024
"""Maximum size of a list that a subprocess takes as it arrives. 60,000 jobs are 500 MB."""

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
    as a job, in error texts. Large answers of one `tenant` do not hold up those of others.
    """

    def __init__(
        self,
        url: str,
        *,
        traces: Sequence[aiohttp.TraceConfig] = (),
        on_unreadable: UnreadableListener | None = None,
        outbound: Outbound = DEFAULT_OUTBOUND,
        tenant: str = "",
    ) -> None:
        self._on_unreadable = on_unreadable
        self._tenant = tenant
        self._http = aiohttp.ClientSession(
            url.rstrip("/") + "/",
            connector=SlurmrestdConnector(limit=CONNECTIONS, outbound=outbound),
            # A compressed answer could be a thousand times as large as what was received.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            auto_decompress=False,
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

    async def add[A: Answer](self, path: str, token: str, model: type[A], *, entity: str, body: object) -> A | None:
        """Add something; None when all of it was there. The request is sent once, as that of `write`."""
        return await self._send(_Request("POST", path, token, model, entity, WRITE_SECONDS, body=body))

    @staticmethod
    def _modified[A: Answer](answer: A | None, path: str) -> A:
        if answer is None:
            raise Unavailable(f"slurmrestd answered 304 (not modified) to {path}, though the request was unconditional")
        return answer

    async def _retry[A: Answer](self, request: _Request[A]) -> A | None:
        backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, growth=10)
        send = partial(self._send, request)
        return await retry(send, backoff, on=Unreachable, attempts=READ_ATTEMPTS, seconds=RETRY_WITHIN_SECONDS)

    async def _send[A: Answer](self, request: _Request[A]) -> A | None:
        path = path_template(request.path)
        attributes = {"http.request.method": request.method, "url.template": path, "server.address": "slurmrestd"}
        with tracing.span(f"{request.method} {path}", SpanKind.CLIENT, attributes) as span:
            return await self._send_once(request, span)

    async def _send_once[A: Answer](self, request: _Request[A], span: Span) -> A | None:
        async with BodyParser(request.model, request.known_lines, tenant=self._tenant) as parser:
            return await self._send_to(request, span, parser)

    async def _send_to[A: Answer](self, request: _Request[A], span: Span, parser: BodyParser[A]) -> A | None:
        headers = {_IDENTITY_HEADER: request.token}
        content = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            content = _encode(request.body)
        began = time.perf_counter()
        status, text, large = 0, b"", False
        try:
            async with self._http.request(
                request.method,
                request.path.lstrip("/"),
                params=request.query,
                data=content,
                headers=headers,
                # The token is for this host alone.
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=request.seconds, sock_connect=2.0),
            ) as answer:
                status = answer.status
                _check_head(answer)
                large = status == _OK and request.known is None and (answer.content_length or 0) >= SUBPROCESS_BYTES
                if large:
                    async for chunk in _chunks(answer, LIST_BYTES):
                        await parser.feed(chunk)
                else:
                    most = KNOWN_BYTES if status == _OK and request.known is not None else SUBPROCESS_BYTES
                    text = b"".join([chunk async for chunk in _chunks(answer, most)])
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefused):
                raise NotSent(
                    f"slurmrestd is not called: {error.os_error}",
                    hint="correct the address of slurmrestd in the cluster's binding",
                ) from None
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
            parsed = await parse(
                request.model, text, status, entity=request.entity, known=request.known, tenant=self._tenant
            )
        if (status != _OK or parsed.errors) and not parsed.carried_out:
            raise error_from_answer(status, parsed.errors, entity=request.entity)
        if parsed.unreadable and self._on_unreadable is not None:
            self._on_unreadable(parsed.KIND, parsed.unreadable)
        return parsed


def _encode(body: object) -> bytes:
    """Return the body as JSON. Raises Invalid, so that the caller knows that nothing was sent."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise Invalid(f"the request cannot be sent to Slurm: {error}") from None


def _check_head(answer: aiohttp.ClientResponse) -> None:
    """Raise Unreachable for a redirection, and BadAnswer for an answer that is not sent as it is."""
    if answer.status in _REDIRECTION and answer.status != _NOT_MODIFIED:
        raise Unreachable(
            f"slurmrestd does not respond: its address redirects to another one ({answer.status})",
            hint="correct the address of slurmrestd in the cluster's binding; redirections are not followed",
        )
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise BadAnswer(
            "slurmrestd's answer is compressed, though the request was for an uncompressed one",
            hint="correct the address of slurmrestd in the cluster's binding, or what is between",
        )


async def _chunks(answer: aiohttp.ClientResponse, most: int) -> AsyncIterator[bytes]:
    """Read a body of at most `most` bytes as it arrives, whatever its length is said to be. Raises BadAnswer."""
    received = 0
    length = None if "Content-Encoding" in answer.headers else answer.content_length
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        received += len(chunk)
        if received > most:
            raise BadAnswer(
                f"slurmrestd's answer is too large: it has more than {most} bytes",
                hint="check that the cluster's slurmrestd URL leads to a slurmrestd",
            )
        yield chunk
        if received == length:
            # aiohttp 3.14 may wait for ever for the end of a body of which it has all: it loses the end when the reader
            # was slow. The connection is not used again.
            return
