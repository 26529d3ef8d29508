"""Carries out the steps of operations over HTTP, for the sync client and for the async one.

A redirect is never followed: the token is for the gateway alone. Bodies have a bound.
"""

import asyncio
import json
import platform
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, assert_never

import httpx2

from clusterra.credentials import Credentials
from clusterra.errors import AnswerTooLong
from clusterra.exchange import (
    MAX_BODY_BYTES,
    Answer,
    Emit,
    Failure,
    Now,
    Open,
    Pause,
    Read,
    Reply,
    Request,
    Step,
    Steps,
    Stream,
)

CONNECT_SECONDS = 10.0
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_UNREAD: Mapping[str, str] = {"accept": "application/json, application/problem+json, */*;q=0.1"}


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
        """The arguments of an HTTP client."""
        return {
            "headers": {"user-agent": user_agent()},
            "timeout": self._timeouts(self.timeout_seconds),
            "follow_redirects": False,
        }

    def arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of one request."""
        headers = {**_UNREAD, **request.headers}
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

    def renewed(self, answer: Answer | Failure, used: str | None) -> bool:
        """Whether the answer refuses the token that was used, and there is another one to send the request with."""
        refused = isinstance(answer, Answer) and answer.status == 401
        return refused and self.credentials.renewed(used) is not None

    @staticmethod
    def _timeouts(seconds: float) -> Any:
        return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def failure_of(error: Exception) -> Failure:
    """What an error of the HTTP client means."""
    text = str(error) or "no more is known"
    return Failure(f"{type(error).__name__}: {text}", sent=not isinstance(error, _NOT_SENT))


def _answer(response: httpx2.Response, body: bytes = b"") -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body)


class _Body:
    """Keeps the pieces of a body up to its bound."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._data = bytearray()

    def add(self, piece: bytes) -> None:
        self._data += piece
        if len(self._data) > MAX_BODY_BYTES:
            raise AnswerTooLong(
                f"the answer to {self._request.method} {self._request.path} is longer than {MAX_BODY_BYTES} bytes: "
                "read a part of it, such as the last lines of an output, or follow it"
            )

    @property
    def data(self) -> bytes:
        return bytes(self._data)


class SyncTransport:
    """Carries out steps, and waits for each. Several threads may use one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._http = httpx2.Client(**endpoint.options)

    def run[T](self, steps: Steps[T]) -> T:
        """The result of an operation. Raises what the operation raises."""
        with _SyncReading(self) as reading:
            reply: Reply = None
            try:
                while True:
                    reply = reading.do(steps.send(reply))
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                steps.close()

    def iterate[T](self, stream: Stream[T]) -> Iterator[T]:
        """The results of an operation, one after the other. Raises what the operation raises."""
        with _SyncReading(self) as reading:
            reply: Reply = None
            try:
                while True:
                    step = stream.send(reply)
                    if isinstance(step, Emit):
                        reply = None
                        yield step.value
                    else:
                        reply = reading.do(step)
            except StopIteration:
                return
            finally:
                stream.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, request: Request) -> Answer | Failure:
        """Send a request, and once more where somebody has signed in meanwhile."""
        used = self._endpoint.credentials.token()
        reply = self._sent(request)
        return self._sent(request) if self._endpoint.renewed(reply, used) else reply

    def _sent(self, request: Request) -> Answer | Failure:
        with ExitStack() as closing:
            return self._opened(request, closing, whole=True)[0]

    def open(self, request: Request, closing: ExitStack) -> tuple[Answer | Failure, Iterator[bytes]]:
        """Begin to read a stream, which ends with `closing`. Answers that are no stream are read whole."""
        used = self._endpoint.credentials.token()
        answer, pieces = self._opened(request, closing)
        return self._opened(request, closing) if self._endpoint.renewed(answer, used) else (answer, pieces)

    def _opened(
        self, request: Request, closing: ExitStack, *, whole: bool = False
    ) -> tuple[Answer | Failure, Iterator[bytes]]:
        """The answer to a request, and the pieces of a body that is not read yet: that of 200, unless `whole`."""
        closing.close()
        try:
            response = closing.enter_context(self._http.stream(**self._endpoint.arguments(request)))
            if response.status_code == 200 and not whole:
                return _answer(response), response.iter_bytes()
            body = _Body(request)
            for piece in response.iter_bytes():
                body.add(piece)
            return _answer(response, body.data), iter(())
        except httpx2.HTTPError as error:
            return failure_of(error), iter(())


class _SyncReading:
    """The steps of one operation, with the stream that it reads."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport
        self._closing = ExitStack()
        self._chunks: Iterator[bytes] = iter(())

    def __enter__(self) -> "_SyncReading":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def do(self, step: Step) -> Reply:
        match step:
            case Request():
                return self._transport.send(step)
            case Pause():
                time.sleep(step.seconds)
                return None
            case Now():
                return time.monotonic()
            case Open():
                answer, self._chunks = self._transport.open(step.request, self._closing)
                return answer
            case Read():
                try:
                    return next(self._chunks, b"")
                except httpx2.HTTPError as error:
                    return failure_of(error)
            case _:
                assert_never(step)


class AsyncTransport:
    """Carries out steps on the event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._http = httpx2.AsyncClient(**endpoint.options)

    async def run[T](self, steps: Steps[T]) -> T:
        """The result of an operation. Raises what the operation raises."""
        async with _AsyncReading(self) as reading:
            reply: Reply = None
            try:
                while True:
                    reply = await reading.do(steps.send(reply))
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                steps.close()

    async def iterate[T](self, stream: Stream[T]) -> AsyncGenerator[T]:
        """The results of an operation, one after the other. Raises what the operation raises."""
        async with _AsyncReading(self) as reading:
            reply: Reply = None
            try:
                while True:
                    try:
                        step = stream.send(reply)
                    except StopIteration:
                        return
                    if isinstance(step, Emit):
                        reply = None
                        yield step.value
                    else:
                        reply = await reading.do(step)
            finally:
                stream.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, request: Request) -> Answer | Failure:
        """Send a request, and once more where somebody has signed in meanwhile."""
        used = self._endpoint.credentials.token()
        reply = await self._sent(request)
        return await self._sent(request) if self._endpoint.renewed(reply, used) else reply

    async def _sent(self, request: Request) -> Answer | Failure:
        async with AsyncExitStack() as closing:
            return (await self._opened(request, closing, whole=True))[0]

    async def open(self, request: Request, closing: AsyncExitStack) -> tuple[Answer | Failure, AsyncIterator[bytes]]:
        """Begin to read a stream, which ends with `closing`. Answers that are no stream are read whole."""
        used = self._endpoint.credentials.token()
        answer, pieces = await self._opened(request, closing)
        return await self._opened(request, closing) if self._endpoint.renewed(answer, used) else (answer, pieces)

    async def _opened(
        self, request: Request, closing: AsyncExitStack, *, whole: bool = False
    ) -> tuple[Answer | Failure, AsyncIterator[bytes]]:
        """The answer to a request, and the pieces of a body that is not read yet: that of 200, unless `whole`."""
        await closing.aclose()
        try:
            response = await closing.enter_async_context(self._http.stream(**self._endpoint.arguments(request)))
            if response.status_code == 200 and not whole:
                return _answer(response), response.aiter_bytes()
            body = _Body(request)
            async for piece in response.aiter_bytes():
                body.add(piece)
            return _answer(response, body.data), _nothing()
        except httpx2.HTTPError as error:
            return failure_of(error), _nothing()


class _AsyncReading:
    """The steps of one operation, with the stream that it reads."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._closing = AsyncExitStack()
        self._chunks: AsyncIterator[bytes] = _nothing()

    async def __aenter__(self) -> "_AsyncReading":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def do(self, step: Step) -> Reply:
        match step:
            case Request():
                return await self._transport.send(step)
            case Pause():
                await asyncio.sleep(step.seconds)
                return None
            case Now():
                return time.monotonic()
            case Open():
                answer, self._chunks = await self._transport.open(step.request, self._closing)
                return answer
            case Read():
                try:
                    return await anext(self._chunks, b"")
                except httpx2.HTTPError as error:
                    return failure_of(error)
            case _:
                assert_never(step)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
