"""Carries out the steps of operations over HTTP, and waits for each."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Lock
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

POLL_SECONDS = 0.2
"""How often operations within an operation look whether that one was stopped."""


class Stopped(BaseException):
    """An operation was stopped, because another one that belongs to it has failed."""


class SyncTransport:
    """Carries out steps, and waits for each. Several threads may use one."""

    def __init__(self, endpoint: Endpoint, on_retry: OnRetry = ignore) -> None:
        """`on_retry` is called before each pause between two attempts."""
        self._endpoint = endpoint
        self.on_retry = on_retry
        self._http = httpx2.Client(**endpoint.options)
        self._direct: httpx2.Client | None = None
        self._making_direct = Lock()
        self.waits = Waits()

    def run[T](self, steps: Steps[T], stopping: Event | None = None) -> T:
        """The result of an operation. Raises what the operation raises, and Stopped once `stopping` is set."""
        with _SyncReading(self, stopping) as reading:
            try:
                step = steps.send(None)
                while True:
                    try:
                        reply = reading.do(step)
                    except (ClusterraError, OSError) as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(reply)
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
        if self._direct is not None:
            self._direct.close()

    def together(self, operations: Sequence[Steps[None]], outer: Event | None = None) -> None:
        """Carry out operations at the same time, each in a thread. Raises the first error, once all have ended.

        `outer` stops them, where they belong to an operation that is one of several itself.
        """
        stopping = Event()
        with ThreadPoolExecutor(len(operations), "clusterra-files") as pool:
            running = [pool.submit(self.run, each, stopping) for each in operations]
            left = set(running)
            try:
                while left and (outer is None or not outer.is_set()):
                    ended, left = wait(left, None if outer is None else POLL_SECONDS, FIRST_EXCEPTION)
                    if any(each.exception() is not None for each in ended):
                        break
            finally:  # also at Ctrl-C
                stopping.set()
        _check(outer)
        errors = [error for each in running if (error := each.exception()) is not None]
        for error in errors:
            if not isinstance(error, Stopped):
                raise error

    def direct(self, request: Direct, stopping: Event | None) -> Answer | Failure:
        """Send a request to another server. Raises what takes or makes its content raises, and Stopped."""
        content = None if request.content is None else _stoppable(request.content(), stopping)
        try:
            with self._direct_http.stream(**self._endpoint.direct_arguments(request), content=content) as response:
                answer = answer_of(response)
                take = request.receive(answer)
                body = bytearray()
                for piece in response.iter_raw(DIRECT_CHUNK_BYTES):
                    _check(stopping)
                    if take is not None:
                        take(piece)
                    elif len(body) < DIRECT_BODY_BYTES:
                        body += piece[:DIRECT_BODY_BYTES]
                    else:
                        break
                return replace(answer, body=bytes(body))
        except DIRECT_ERRORS as error:
            return direct_failure_of(error)

    @property
    def _direct_http(self) -> httpx2.Client:
        with self._making_direct:
            if self._direct is None:
                self._direct = httpx2.Client(**self._endpoint.direct_options)
            return self._direct

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
                return answer_of(response), response.iter_bytes()
            body = Body(request)
            for piece in response.iter_bytes():
                body.add(piece)
            return answer_of(response, body.data), iter(())
        except httpx2.HTTPError as error:
            return failure_of(error), iter(())


class _SyncReading:
    """The steps of one operation, with the stream that it reads."""

    def __init__(self, transport: SyncTransport, stopping: Event | None = None) -> None:
        self._transport = transport
        self._stopping = stopping
        self._closing = ExitStack()
        self._chunks: Iterator[bytes] = iter(())

    def __enter__(self) -> "_SyncReading":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def do(self, step: Step) -> Reply:
        _check(self._stopping)
        match step:
            case Request():
                return self._transport.send(step)
            case Pause():
                if step.retrying is not None:
                    self._transport.on_retry(step.retrying)
                time.sleep(step.seconds) if self._stopping is None else self._stopping.wait(step.seconds)
                return None
            case Direct():
                return self._transport.direct(step, self._stopping)
            case Local():
                step.function()
                return None
            case Together():
                self._transport.together(step.operations, self._stopping)
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


def _check(stopping: Event | None) -> None:
    if stopping is not None and stopping.is_set():
        raise Stopped


def _stoppable(content: Iterator[bytes], stopping: Event | None) -> Iterator[bytes]:
    for piece in content:
        _check(stopping)
        yield piece
