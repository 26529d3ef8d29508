"""Carries out the steps of operations over HTTP, and waits for each."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import assert_never

import httpx2

from clusterra.exchange import Answer, Emit, Failure, Now, Open, Pause, Read, Reply, Request, Step, Steps, Stream
from clusterra.http.endpoint import Body, Endpoint, OnRetry, answer_of, failure_of, ignore
from clusterra.http.waits import Waits


class SyncTransport:
    """Carries out steps, and waits for each. Several threads may use one."""

    def __init__(self, endpoint: Endpoint, on_retry: OnRetry = ignore) -> None:
        """`on_retry` is called before each pause between two attempts."""
        self._endpoint = endpoint
        self.on_retry = on_retry
        self._http = httpx2.Client(**endpoint.options)
        self.waits = Waits()

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
                return answer_of(response), response.iter_bytes()
            body = Body(request)
            for piece in response.iter_bytes():
                body.add(piece)
            return answer_of(response, body.data), iter(())
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
                if step.retrying is not None:
                    self._transport.on_retry(step.retrying)
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
