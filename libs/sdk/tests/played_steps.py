"""Plays the steps of an operation on a clock of its own, against a server that is a function."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clusterra.exchange import (
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

JSON: Mapping[str, str] = {"content-type": "application/json"}
PROBLEM: Mapping[str, str] = {"content-type": "application/problem+json"}
EVENTS: Mapping[str, str] = {"content-type": "text/event-stream; charset=utf-8"}


def problem(status: int, name: str = "", **members: Any) -> Answer:
    """A problem of the gateway."""
    kind = f"/v1/problems/{name}" if name else "about:blank"
    return Answer(status, PROBLEM, json.dumps({"type": kind, "status": status, "detail": "no", **members}).encode())


def after(seconds: int, answer: Answer) -> Answer:
    """The answer with a Retry-After."""
    return replace(answer, headers={**answer.headers, "retry-after": str(seconds)})


@dataclass
class Player:
    """Carries out steps. `serve` answers requests; `stream` answers openings with what is then read."""

    serve: Callable[[Request], Answer | Failure] = lambda _: Failure("nobody serves requests")
    stream: Callable[[Request], tuple[Answer | Failure, Iterator[bytes | Failure]]] = lambda _: (
        Failure("nobody serves streams"),
        iter(()),
    )
    now: float = 1000.0
    sent: list[Request] = field(default_factory=list)
    opened: list[Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    _chunks: Iterator[bytes | Failure] = field(default_factory=lambda: iter(()))

    def run[T](self, steps: Steps[T]) -> T:
        """The result of an operation."""
        reply: Reply = None
        while True:
            try:
                reply = self._do(steps.send(reply))
            except StopIteration as stop:
                result: T = stop.value
                return result

    def iterate[T](self, stream: Stream[T]) -> Iterator[T]:
        """The results of an operation."""
        reply: Reply = None
        while True:
            try:
                step = stream.send(reply)
            except StopIteration:
                return
            if isinstance(step, Emit):
                reply = None
                yield step.value
            else:
                reply = self._do(step)

    def _do(self, step: Step) -> Reply:
        match step:
            case Request():
                self.sent.append(step)
                return self.serve(step)
            case Pause():
                self.pauses.append(step.seconds)
                self.now += step.seconds
            case Now():
                self.now += 0.001
                return self.now
            case Open():
                self.opened.append(step.request)
                answer, self._chunks = self.stream(step.request)
                return answer
            case Read():
                self.now += 1.0
                return next(self._chunks, b"")
        return None
