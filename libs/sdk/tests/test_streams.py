"""A stream goes on where it was: nothing is left out, nothing comes twice, wherever the connection breaks."""

import json
from collections.abc import Iterator

import pytest
from clusterra.errors import Forbidden, NotFound, Unreachable
from clusterra.exchange import Answer, Failure, Request
from clusterra.http.streams import LAST_EVENT_ID, Connection, resumed
from clusterra.operations.api import Api
from clusterra.operations.events import StreamedEvent, streamed
from clusterra.operations.outputs import Ended, OutputText, Restarted, followed
from clusterra.operations.outputs import streamed as streamed_output
from hypothesis import given
from hypothesis import strategies as st
from played_steps import EVENTS, Player, problem

URL = "https://clusterra.example"
API = Api(URL, "main")
PATH = "/v1/clusters/main/jobs/7"
OPENED = Answer(200, EVENTS)

broken = st.sampled_from(
    [Failure("broke"), b"", Failure("refused", sent=False), problem(503, "unavailable"), problem(429)]
)


class OutputServer:
    """Serves an output that is cut at some places: each break ends a connection after some bytes of the stream."""

    def __init__(self, output: str, breaks: list[tuple[int, Answer | Failure | bytes]]) -> None:
        self.output = output.encode()
        self.breaks = breaks

    def __call__(self, request: Request) -> tuple[Answer | Failure, Iterator[bytes | Failure]]:
        begin = int(request.headers.get(LAST_EVENT_ID, "0"))
        data = b"retry: 1000\n\n" + b"".join(self._events(begin))
        if not self.breaks:
            return OPENED, iter([data[:5], data[5:]])
        after, how = self.breaks.pop(0)
        if isinstance(how, Answer):
            return how, iter(())
        return OPENED, iter([each for each in (data[: after % len(data)], how) if each != b""])

    def _events(self, begin: int) -> Iterator[bytes]:
        for place in range(begin, len(self.output), 4):
            part = self.output[place : place + 4].decode()
            lines = "".join(f"data: {line}\n" for line in part.split("\n"))
            yield f"id: {min(place + 4, len(self.output))}\n{lines}\n".encode()
        yield f'event: end\nid: {len(self.output)}\ndata: {{"state": "COMPLETED"}}\n\n'.encode()


@given(
    output=st.text(st.sampled_from("ab\n\f \x1b<"), max_size=60),
    breaks=st.lists(st.tuples(st.integers(0, 600), broken), max_size=6),
)
def test_an_output_is_told_once_wherever_the_connection_breaks(
    output: str, breaks: list[tuple[int, Answer | Failure | bytes]]
) -> None:
    player = Player(stream=OutputServer(output, breaks))

    *pieces, end = player.iterate(followed(API, PATH, stream="stdout", tail=None))

    assert end == Ended("COMPLETED")
    texts = [piece for piece in pieces if isinstance(piece, OutputText)]
    assert "".join(piece.text for piece in texts) == output
    assert [piece.offset for piece in texts] == sorted({piece.offset for piece in texts})


def size_of(size: int) -> Answer:
    """What the gateway answers to a range of one byte."""
    return Answer(206, {"content-type": "text/plain", "content-range": f"bytes 0-0/{size}"}, b"x")


@pytest.mark.parametrize(
    ("tail", "size", "begin"),
    [
        (0, size_of(70), {"after": "70"}),
        (5, size_of(70), {"tail": "5"}),
        (5, problem(416, "range-not-satisfiable"), {"after": "0"}),
        (5, problem(404, "not-found"), {"after": "0"}),
        (0, problem(404, "not-found"), {"after": "0"}),
    ],
)
def test_last_lines_are_counted_once(tail: int, size: Answer, begin: dict[str, str]) -> None:
    replies = iter([(OPENED, iter([b"retry: 1\n\n"])), (OPENED, iter([b"event: end\ndata: {}\n\n"]))])
    player = Player(lambda _: size, lambda _: next(replies))

    list(player.iterate(followed(API, PATH, stream="stdout", tail=tail)))

    assert [each.query for each in player.opened] == [{"stream": "stdout", **begin}] * 2


def test_events_begin_at_a_position_that_a_broken_connection_does_not_change() -> None:
    fields = {**dict.fromkeys(("id", "source", "type", "subject"), "x"), "time": "2026-11-26T00:00:00Z", "data": {}}
    told = b"id: 42\ndata: " + json.dumps(fields).encode()
    replies = iter([(OPENED, iter([b"retry: 1\n\n"])), (OPENED, iter([told + b"\n\n"]))])
    listed = Answer(200, {"content-type": "application/json", "event-position": "41"}, b"{}")
    player = Player(lambda _: listed, lambda _: next(replies))

    event = next(player.iterate(streamed(API, None, None)))

    assert isinstance(event, StreamedEvent)
    assert event.position == "42"
    assert [each.headers for each in player.opened] == [{LAST_EVENT_ID: "41"}] * 2


def test_a_broken_connection_is_reported_to_who_asks_for_it() -> None:
    fields = {**dict.fromkeys(("id", "source", "type", "subject"), "x"), "time": "2026-11-26T00:00:00Z", "data": {}}
    told = b"id: 42\ndata: " + json.dumps(fields).encode()
    replies = iter([(OPENED, iter([b"retry: 1\n\n"])), (OPENED, iter([told + b"\n\n"]))])
    player = Player(lambda _: problem(404), lambda _: next(replies))

    told_of = player.iterate(streamed(API, None, "41", connections=True))

    assert next(told_of) == Connection()
    broken = next(told_of)
    assert isinstance(broken, Connection)
    assert broken.error
    assert next(told_of) == Connection()
    assert isinstance(next(told_of), StreamedEvent)


def test_a_restarted_output_begins_again() -> None:
    data = b"id: 3\ndata: abc\n\nevent: reset\nid: 0\ndata: {}\n\nid: 1\ndata: x\n\n"
    data += b'event: end\ndata: {"state": "FAILED"}\n\n'
    player = Player(lambda _: size_of(7), lambda _: (OPENED, iter([data])))

    pieces = list(player.iterate(followed(API, PATH, stream="stderr", tail=5)))

    assert pieces == [OutputText("abc", 3), Restarted(), OutputText("x", 1), Ended("FAILED")]
    assert player.opened[0].query == {"stream": "stderr", "tail": "5"}


@pytest.mark.parametrize(
    ("answer", "kind"), [(problem(403, "forbidden"), Forbidden), (problem(404, "not-found"), NotFound)]
)
def test_an_error_that_stays_ends_the_stream(answer: Answer, kind: type[Exception]) -> None:
    replies = iter([(OPENED, iter([b"id: 1\ndata: a\n\n"])), (answer, iter(()))])
    player = Player(stream=lambda _: next(replies))

    with pytest.raises(kind):
        list(player.iterate(resumed(Request("GET", "/v1/x"), URL)))


def test_a_gateway_that_never_answered_is_given_up_and_one_that_did_is_waited_for() -> None:
    never = Player(stream=lambda _: (Failure("refused", sent=False), iter(())))
    with pytest.raises(Unreachable):
        list(never.iterate(resumed(Request("GET", "/v1/x"), URL)))
    assert sum(never.pauses) < 60

    away = Player()

    def stream(_: Request) -> tuple[Answer | Failure, Iterator[bytes | Failure]]:
        if 1 < len(away.opened) < 500:
            return Failure("refused", sent=False), iter(())
        return OPENED, iter([b": ping\n\n" if len(away.opened) == 1 else b"event: end\ndata: {}\n\n"])

    away.stream = stream
    list(away.iterate(resumed(Request("GET", "/v1/x"), URL)))
    assert sum(away.pauses) > 600


@given(
    st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 40), broken.filter(lambda how: how != b"")), max_size=6)
)
def test_an_output_is_read_byte_for_byte_wherever_the_connection_breaks(
    output: bytes, breaks: list[tuple[int, Answer | Failure | bytes]]
) -> None:
    left = list(breaks)

    def serve(request: Request) -> tuple[Answer | Failure, Iterator[bytes | Failure]]:
        rest = output[int(str(request.query.get("after", "0"))) :]
        if not left:
            return Answer(200, {"content-type": "text/plain; charset=utf-8"}), iter([rest[:7], rest[7:]])
        after, how = left.pop(0)
        if isinstance(how, Answer) or not rest[:after]:
            return (how if isinstance(how, Answer) else Failure("refused")), iter(())
        return Answer(200, {"content-type": "text/plain"}), iter([rest[:after], how])

    player = Player(stream=serve)

    pieces = list(player.iterate(streamed_output(API, PATH, stream="stdout", tail=None)))

    assert b"".join(pieces) == output
