"""The output of a job: as it is now, or followed while it is written. It is text of its writer, and never markup."""

import json
from dataclasses import dataclass
from typing import Literal

from clusterra.errors import ApiError, NotClusterra, media_type
from clusterra.exchange import (
    TRYING_SECONDS,
    Answer,
    Emit,
    Failure,
    Request,
    Steps,
    Stream,
    next_of,
    now,
    opened,
    read,
)
from clusterra.http.retrying import Attempts, failed, is_transient, reason_of
from clusterra.http.sse import ServerSentEvent
from clusterra.http.streams import resumed
from clusterra.operations.api import Api, Value, query

type OutputStream = Literal["stdout", "stderr"]
MAX_TAIL_LINES = 10_000
"""The gateway returns the last lines of an output up to this number, and at most their last MiB."""


@dataclass(frozen=True, slots=True)
class OutputText:
    """The next piece of a followed output. `offset` is the number of the output's bytes up to its end."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """The output was emptied, because the job runs again: what follows is its output from the start."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job has ended, and its whole output was emitted."""

    state: str


type Piece = OutputText | Restarted | Ended


def whole(api: Api, path: str, *, stream: OutputStream, tail: int | None) -> Steps[str]:
    """What the job at a path has written so far, or its last `tail` lines. Bytes that are not UTF-8 become U+FFFD.

    Raises AnswerTooLong for more than MAX_BODY_BYTES: follow it, or read its tail.
    """
    asked = query({"stream": stream, "tail": tail})
    answer = yield from api.ask(Request("GET", f"{path}/output", asked))
    if media_type(answer) != "text/plain":
        raise NotClusterra(api.url, answer.status, answer.body)
    return answer.body.decode(errors="replace")


def streamed(api: Api, path: str, *, stream: OutputStream, tail: int | None) -> Stream[bytes]:
    """What the job at a path has written so far, byte for byte and piece by piece, however long it is.

    It goes on where it was when a connection breaks. What is written meanwhile may be missing. The last `tail` lines
    are bounded, and read at once.
    """
    if tail is not None:
        answer = yield from api.ask(Request("GET", f"{path}/output", query({"stream": stream, "tail": tail})))
        if media_type(answer) != "text/plain":
            raise NotClusterra(api.url, answer.status, answer.body)
        yield Emit(answer.body)
        return
    at, attempts = 0, Attempts((yield from now()))
    while True:
        asked = query({"stream": stream, "after": at or None})
        reply = yield from opened(Request("GET", f"{path}/output", asked))
        before = at
        if isinstance(reply, Answer) and reply.status == 200:
            if media_type(reply) != "text/plain":
                raise NotClusterra(api.url, reply.status, b"")
            while not isinstance(chunk := (yield from read()), Failure) and chunk:
                at += len(chunk)
                yield Emit(chunk)
            if not isinstance(chunk, Failure):
                return
            reply = chunk
        if at > before:
            attempts.progressed()
        error = failed(api.url, reply)
        if isinstance(error, ApiError) and error.status == 416 and at:
            return  # the job runs again, and its output has become shorter
        if not (is_transient(error) and (yield from attempts.failed(reason_of(reply), TRYING_SECONDS))):
            raise error


def followed(api: Api, path: str, *, stream: OutputStream, tail: int | None) -> Stream[Piece]:
    """The output of the job at a path as it is written, from its start or its last `tail` lines on, until its end.

    It goes on behind what it has emitted when a connection breaks or the gateway starts again: no byte is left out or
    repeated.
    """
    begin: dict[str, Value] = {} if tail is None else (yield from _begin(api, path, stream, tail))
    asked = query({"stream": stream, **begin})
    events = resumed(Request("GET", f"{path}/output/stream", asked), api.url)
    while (emitted := (yield from next_of(events))) is not None:
        if isinstance(emitted.value, ServerSentEvent):
            yield Emit(_piece(emitted.value))


def _begin(api: Api, path: str, stream: OutputStream, tail: int) -> Steps[dict[str, Value]]:
    """Where the last lines begin. It is an offset where there are none yet.

    `tail` alone would be counted anew where a connection breaks before its first event, and leave out what was written
    between.
    """
    request = Request("GET", f"{path}/output", query({"stream": stream}), headers={"range": "bytes=0-0"})
    try:
        total = (yield from api.ask(request)).headers.get("content-range", "").rpartition("/")[2]
    except ApiError as error:
        if error.status not in (404, 416):
            raise
        total = "0"  # the job has not started, or has written nothing
    size = int(total) if total.isascii() and total.isdecimal() else None
    return {"tail": tail} if size is None or (tail and size) else {"after": size}


def _piece(event: ServerSentEvent) -> Piece:
    match event.event:
        case "end":
            return Ended(_state(event.data))
        case "reset":
            return Restarted()
    return OutputText(event.data, int(event.id) if event.id and event.id.isdecimal() else 0)


def _state(data: str) -> str:
    try:
        return str(json.loads(data)["state"])
    except (ValueError, TypeError, KeyError):
        return ""
