"""A wait ends when the job has ended, says "unknown" to nobody's "failed", and keeps to the caller's time."""

import json
from collections.abc import Iterator

import pytest
from clusterra.errors import NotFound, WaitTimeout
from clusterra.exchange import Answer, Failure, Request
from clusterra.http.sse import ServerSentEvent
from clusterra.operations.api import Api
from clusterra.operations.waiting import Awaited, change_in, completed, wait
from hypothesis import given
from hypothesis import strategies as st
from played_steps import EVENTS, JSON, Player, problem

JOB = Awaited(
    Api("https://clusterra.example", "main"), "7", "/v1/clusters/main/jobs/7", "/v1/clusters/main/events/stream"
)
OPENED = Answer(200, EVENTS)
PING = b": ping\n\n"
AWAY = Failure("refused", sent=False)


def record(state: str, **fields: object) -> Answer:
    told = {"job_id": "7", "name": "j", "user": "ada", "uid": 1, "state": state, "partition": "main", "new_field": [1]}
    told["submitted_at"] = "2026-11-26T00:00:00Z"
    return Answer(200, JSON, json.dumps(told | fields).encode())


def event(kind: str, job_id: str = "7") -> bytes:
    return b"id: 1\ndata: " + json.dumps({"data": {"kind": kind, "job_id": job_id}}).encode() + b"\n\n"


def pinging(*first: bytes) -> Iterator[bytes | Failure]:
    yield from first
    while True:
        yield PING


def test_an_event_tells_the_end() -> None:
    states = iter(["RUNNING"])
    player = Player(
        lambda _: record(next(states, "COMPLETED")), lambda _: (OPENED, pinging(PING, event("job.completed")))
    )

    assert player.run(wait(JOB, None)).state == "COMPLETED"

    assert len(player.sent) == 2
    assert player.pauses == []


def test_an_event_that_comes_before_the_record_is_read_again() -> None:
    states = iter(["RUNNING", "RUNNING", "RUNNING"])
    player = Player(
        lambda _: record(next(states, "COMPLETED")), lambda _: (OPENED, pinging(PING, event("job.completed")))
    )

    assert player.run(wait(JOB, None)).state == "COMPLETED"

    assert sum(player.pauses) <= 2


def test_without_an_event_the_job_is_read_at_growing_intervals() -> None:
    player = Player(stream=lambda _: (OPENED, pinging()))
    player.serve = lambda _: record("COMPLETED" if player.now > 4600 else "RUNNING")

    player.run(wait(JOB, None))

    assert len(player.sent) < 90


def test_a_gateway_that_is_away_is_waited_for() -> None:
    player = Player(lambda _: AWAY)

    def stream(_: Request) -> tuple[Answer | Failure, Iterator[bytes | Failure]]:
        if not player.opened[1:]:
            return OPENED, iter([PING])
        player.serve = (lambda _: record("FAILED", exit_code=3)) if player.now > 5000 else (lambda _: AWAY)
        return (OPENED, pinging()) if player.now > 5000 else (AWAY, iter(()))

    player.stream = stream

    assert player.run(wait(JOB, None)).exit_code == 3


@given(timeout=st.floats(0, 300), away=st.booleans())
def test_the_time_of_the_caller_is_kept(timeout: float, away: bool) -> None:
    player = Player(lambda _: AWAY if away else record("RUNNING"), lambda _: (OPENED, pinging()))
    began = player.now

    with pytest.raises(WaitTimeout, match="goes on"):
        player.run(wait(JOB, timeout))

    assert player.now - began <= timeout + 2


def test_a_token_without_events_reads_only() -> None:
    player = Player(stream=lambda _: (problem(403, "forbidden"), iter(())))
    player.serve = lambda _: record("CANCELLED" if player.now > 1300 else "PENDING")

    assert player.run(wait(JOB, None)).state == "CANCELLED"


def test_an_unknown_job_is_not_waited_for() -> None:
    player = Player(lambda _: problem(404, "not-found"), lambda _: (OPENED, pinging()))

    with pytest.raises(NotFound):
        player.run(wait(JOB, None))


@pytest.mark.parametrize("state", ["PENDING", "SUSPENDED", "COMPLETING", "A_STATE_OF_TOMORROW"])
def test_only_a_known_end_is_an_end(state: str) -> None:
    player = Player(lambda _: record(state), lambda _: (OPENED, pinging()))

    with pytest.raises(WaitTimeout):
        player.run(wait(JOB, 100))


@given(order=st.permutations([str(number) for number in range(1, 6)]), lost=st.sets(st.integers(0, 4)))
def test_many_jobs_end_by_one_stream(order: list[str], lost: set[int]) -> None:
    done: set[str] = set()

    def chunks() -> Iterator[bytes | Failure]:
        yield PING
        for place, job_id in enumerate(order):
            done.add(job_id)
            if place not in lost:
                yield event("job.completed", job_id)
        yield from pinging()

    def serve(request: Request) -> Answer:
        job_id = request.path.rpartition("/")[2]
        return record("COMPLETED" if job_id in done else "RUNNING", job_id=job_id)

    jobs = [Awaited(JOB.api, each, f"/v1/clusters/main/jobs/{each}", JOB.events_path) for each in sorted(order)]
    player = Player(serve, lambda _: (OPENED, chunks()))

    ended = [(job_id, found.job_id) for job_id, found in player.iterate(completed(jobs, None))]

    assert sorted(ended) == [(each, each) for each in sorted(order)]
    assert len(player.opened) == 1


def test_jobs_that_have_not_ended_in_time_are_counted() -> None:
    jobs = [Awaited(JOB.api, each, f"/v1/clusters/main/jobs/{each}", JOB.events_path) for each in ("1", "2")]

    def serve(request: Request) -> Answer:
        return record("COMPLETED" if request.path.endswith("/1") else "RUNNING")

    ended = Player(serve, lambda _: (OPENED, pinging())).iterate(completed(jobs, 60))

    assert next(ended)[0] == "1"
    with pytest.raises(WaitTimeout, match="1 of 2 jobs"):
        next(ended)


def test_what_events_tell_of_a_job() -> None:
    def told(data: object) -> str:
        return change_in(ServerSentEvent(json.dumps(data), "message", "1"), "7")

    assert told({"data": {"kind": "job.failed", "job_id": "7"}}) == "end"
    assert told({"data": {"kind": "job.running", "job_id": "7"}}) == "change"
    assert told({"data": {"kind": "job.failed", "job_id": "7_1"}}) == "change"
    assert told({"data": {"kind": "job.failed", "job_id": "77"}}) == "nothing"
    assert told({"data": []}) == "nothing"
    assert told(None) == "nothing"
    assert change_in(ServerSentEvent("{}", "reset", "9"), "7") == "change"


def test_a_wait_that_begins_while_the_gateway_is_away_goes_on() -> None:
    player = Player(stream=lambda _: (AWAY, iter(())))
    player.serve = lambda _: record("COMPLETED") if player.now > 5000 else AWAY

    assert player.run(wait(JOB, None)).state == "COMPLETED"
