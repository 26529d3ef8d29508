"""HTTP with one slurmrestd: a bounded pool of connections, typed answers, typed errors."""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

import aiohttp
import orjson
from clusterra_runtime.metrics import LATENCY_BUCKETS_SECONDS
from prometheus_client import Histogram

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.bodies import parse
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.error_codes import error_from_answer
from clusterra_proxy.slurmrestd.errors import Unavailable, Unreachable

type Method = Literal["GET", "POST", "DELETE"]

CONNECTIONS = 16
"""slurmrestd takes 124 by default; more than a few at once only make each other wait."""
READ_SECONDS = 8.0
"""A read of something small. slurmrestd itself gives a controller that is away 10 s or more."""
LIST_SECONDS = 60.0
WRITE_SECONDS = 25.0
"""Longer than slurmrestd's own patience: giving up earlier would leave unknown whether it was done."""
RETRY_PAUSES_SECONDS = (0.0, 0.2)
RETRY_WITHIN_SECONDS = 1.0
"""A connection that broke is worth another try, an answer that did not come in time is not."""

_IDENTITY_HEADER = "X-SLURM-USER-TOKEN"
_NOT_MODIFIED = 304

SECONDS = Histogram(
    "clusterra_slurmrestd_seconds",
    "From sending a request to slurmrestd to its whole answer",
    ("method", "status"),
    buckets=LATENCY_BUCKETS_SECONDS,
)


class Slurmrestd:
    """A client of one slurmrestd. Every call carries its caller's token and no other credential.

    Reads are tried again when the connection breaks; what changes something is never sent twice.
    """

    def __init__(self, url: str, *, traces: Sequence[aiohttp.TraceConfig] = ()) -> None:
        self._http = aiohttp.ClientSession(
            url.rstrip("/") + "/",
            connector=SlurmrestdConnector(limit=CONNECTIONS),
            headers={"Accept": "application/json"},
            # A user's proxy settings or .netrc must not see or change these requests.
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
        self, path: str, token: str, model: type[A], *, entity: str, query: dict[str, str] | None = None
    ) -> A:
        """Read something small. Raises the errors of `slurm_errors.failure`, Unreachable when there is no answer."""
        answer = await self._get(path, token, model, entity, query, READ_SECONDS)
        return self._given(answer, path)

    async def read_list[A: Answer](
        self, path: str, token: str, model: type[A], *, entity: str, query: dict[str, str] | None = None
    ) -> A | None:
        """Read something that may be large; None when it is as it was at the `update_time` of the query."""
        return await self._get(path, token, model, entity, query, LIST_SECONDS)

    async def write[A: Answer](
        self, method: Method, path: str, token: str, model: type[A], *, entity: str, body: object = None
    ) -> A:
        """Change something, once. After Unreachable it may or may not have been done."""
        answer = await self._send(method, path, token, model, entity, body=body, seconds=WRITE_SECONDS)
        return self._given(answer, path)

    @staticmethod
    def _given[A: Answer](answer: A | None, path: str) -> A:
        if answer is None:
            raise Unavailable(f"slurmrestd says {path} is as it was, though it was not asked that")
        return answer

    async def _get[A: Answer](
        self, path: str, token: str, model: type[A], entity: str, query: dict[str, str] | None, seconds: float
    ) -> A | None:
        began = time.monotonic()
        for pause in RETRY_PAUSES_SECONDS:
            try:
                return await self._send("GET", path, token, model, entity, query=query, seconds=seconds)
            except Unreachable:
                if time.monotonic() - began > RETRY_WITHIN_SECONDS:
                    raise
            await asyncio.sleep(pause)
        return await self._send("GET", path, token, model, entity, query=query, seconds=seconds)

    async def _send[A: Answer](
        self,
        method: Method,
        path: str,
        token: str,
        model: type[A],
        entity: str,
        *,
        seconds: float,
        query: dict[str, str] | None = None,
        body: object = None,
    ) -> A | None:
        headers = {_IDENTITY_HEADER: token}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = orjson.dumps(body)
        began = time.perf_counter()
        status = 0
        try:
            async with self._http.request(
                method,
                path.lstrip("/"),
                params=query,
                data=content,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=2.0),
            ) as answer:
                status, text = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            # aiohttp's errors hold the request with its headers, and so the token.
            raise Unreachable(
                f"slurmrestd does not answer ({type(error).__name__})",
                hint="check the cluster's slurmrestd; try again in a moment",
            ) from None
        finally:
            SECONDS.labels(method, str(status or "unreachable")).observe(time.perf_counter() - began)
        if status == _NOT_MODIFIED:
            return None
        parsed = await parse(model, text, status, entity=entity)
        if status != 200 or parsed.errors:
            raise error_from_answer(status, parsed.errors, entity=entity)
        return parsed
