"""Carries out the steps of operations over HTTP, on the event loop."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import assert_never

import httpx2

from clusterra.errors import ClusterraError
from clusterra.exchange import (
    Answer,
    Direct,
    Emit,
    Failure,
    Local,
    Now,
    Open,
    Pause,
    Read,
    Reply,
    Request,
    Step,
    Steps,
    Stream,
    Together,
)
from clusterra.http.endpoint import (
    DIRECT_BODY_BYTES,
    DIRECT_CHUNK_BYTES,
    DIRECT_ERRORS,
    Body,
    Endpoint,
    OnRetry,
    answer_of,
    direct_failure_of,
    failure_of,
    ignore,
)
from clusterra.http.waits import Waits


class AsyncTransport:
    """Carries out steps on the event loop."""

    def __init__(self, endpoint: Endpoint, on_retry: OnRetry = ignore) -> None:
        """`on_retry` is called before each pause between two attempts."""
        self._endpoint = endpoint
        self.on_retry = on_retry
        self._http = httpx2.AsyncClient(**endpoint.options)
        self._direct: httpx2.AsyncClient | None = None
        self.waits = Waits()

    async def run[T](self, steps: Steps[T]) -> T:
        """The result of an operation. Raises what the operation raises."""
        async with _AsyncReading(self) as reading:
            try:
                step = steps.send(None)
                while True:
                    try:
                        reply = await reading.do(step)
                    except (ClusterraError, OSError) as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(reply)
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
        if self._direct is not None:
            await self._direct.aclose()

    async def together(self, operations: Sequence[Steps[None]]) -> None:
        """Carry out operations at the same time. Raises the first error, once all have ended."""
        running = [asyncio.create_task(self.run(each)) for each in operations]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def direct(self, request: Direct) -> Answer | Failure:
        """Send a request to another server. Raises what takes or makes its content raises."""
        content = None if request.content is None else _read_in_thread(request.content())
        if self._direct is None:
            self._direct = httpx2.AsyncClient(**self._endpoint.direct_options)
        try:
            async with self._direct.stream(**self._endpoint.direct_arguments(request), content=content) as response:
                answer = answer_of(response)
                take = request.receive(answer)
                body = bytearray()
                async for piece in response.aiter_raw(DIRECT_CHUNK_BYTES):
                    if take is not None:
                        await _in_thread(partial(take, piece))
                    elif len(body) < DIRECT_BODY_BYTES:
                        body += piece[:DIRECT_BODY_BYTES]
                    else:
                        break
                return replace(answer, body=bytes(body))
        except DIRECT_ERRORS as error:
            return direct_failure_of(error)

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
                return answer_of(response), response.aiter_bytes()
            body = Body(request)
            async for piece in response.aiter_bytes():
                body.add(piece)
            return answer_of(response, body.data), _nothing()
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
                if step.retrying is not None:
                    self._transport.on_retry(step.retrying)
                await asyncio.sleep(step.seconds)
                return None
            case Direct():
                return await self._transport.direct(step)
            case Local():
                await _in_thread(step.function)
                return None
            case Together():
                await self._transport.together(step.operations)
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


async def _read_in_thread(content: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await _in_thread(partial(next, content, None))) is not None:
        yield piece


async def _in_thread[T](function: Callable[[], T]) -> T:
    """What a function returns that works with files. A cancel waits for its end: it closes the files afterwards."""
    working = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((working,))
        working.exception()  # nobody else asks for it
        raise
