"""Which requests are sent again, and when: nothing twice that may do harm, and no longer than the deadline."""

import pytest
from clusterra.errors import (
    ApiError,
    ConfirmationRequired,
    NotClusterra,
    OutcomeUnknown,
    QuotaExceeded,
    Refused,
    SignInNeeded,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from clusterra.exchange import Answer, Failure, Pause, Request, Retrying, Steps
from clusterra.http.retrying import LONGEST_PAUSE_SECONDS, SETTLING_SECONDS, ask, decide, pause_seconds
from hypothesis import given
from hypothesis import strategies as st
from played_steps import JSON, Player, after, problem

URL = "https://clusterra.example"
DONE = Answer(200, JSON, b"{}")
BROKEN = Failure("the connection broke")
REFUSED = Failure("refused", sent=False)
HTML = Answer(502, {"content-type": "text/html"}, b"<h1>Bad\x1b[31m Gateway</h1>")

methods = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
passing = st.sampled_from(
    [BROKEN, REFUSED, HTML, problem(503, "unavailable"), after(2, problem(429, "too-many-requests"))]
)


def player_of(*replies: Answer | Failure) -> Player:
    """A server with these replies; the last one stays."""
    left = list(replies)
    return Player(lambda _: left.pop(0) if len(left) > 1 else left[0])


@given(replies=st.lists(passing, max_size=4))
def test_a_read_is_sent_until_it_is_answered(replies: list[Answer | Failure]) -> None:
    player = player_of(*replies, DONE)

    assert player.run(ask(Request("GET", "/v1/x"), URL)) == DONE

    assert len(player.sent) == len(replies) + 1


@given(replies=st.lists(passing, max_size=4))
def test_a_post_is_sent_again_with_one_key(replies: list[Answer | Failure]) -> None:
    player = player_of(*replies, DONE)

    player.run(ask(Request("POST", "/v1/x", body={}), URL))

    (key,) = {each.idempotency_key for each in player.sent}
    assert key is not None
    assert 8 <= len(key) <= 64


@given(method=st.sampled_from(["PUT", "PATCH", "DELETE"]), reply=st.sampled_from([BROKEN, HTML, problem(503)]))
def test_a_change_without_a_key_is_not_sent_twice(method: str, reply: Answer | Failure) -> None:
    player = player_of(reply, DONE)

    with pytest.raises((Unreachable, NotClusterra, Unavailable)):
        player.run(ask(Request(method, "/v1/x"), URL))  # type: ignore[arg-type]  # drawn from the methods

    assert len(player.sent) == 1


@given(method=methods)
def test_what_was_certainly_not_sent_is_sent_again(method: str) -> None:
    player = player_of(REFUSED, DONE)

    player.run(ask(Request(method, "/v1/x"), URL))  # type: ignore[arg-type]  # drawn from the methods

    assert len(player.sent) == 2


@given(method=methods, reply=passing, deadline=st.floats(0, 100))
def test_it_ends_at_the_deadline(method: str, reply: Answer | Failure, deadline: float) -> None:
    player = player_of(reply)

    with pytest.raises((Unreachable, ApiError, NotClusterra)):
        player.run(ask(Request(method, "/v1/x", deadline_seconds=deadline), URL))  # type: ignore[arg-type]

    assert sum(player.pauses) <= deadline
    assert all(pause > 0 for pause in player.pauses)


def test_a_request_in_flight_is_awaited() -> None:
    waits = [after(2, problem(409, "in-flight")), after(5, problem(504, "outcome-unknown"))]
    player = player_of(*waits, DONE)

    player.run(ask(Request("POST", "/v1/x"), URL))

    assert player.pauses == [2.0, 5.0]


def test_an_outcome_that_nobody_will_know_is_an_error() -> None:
    player = player_of(problem(504, "outcome-unknown"), DONE)

    with pytest.raises(OutcomeUnknown):
        player.run(ask(Request("POST", "/v1/x"), URL))

    assert len(player.sent) == 1


def test_an_outcome_that_does_not_settle_is_an_error_in_the_end() -> None:
    player = player_of(after(5, problem(504, "outcome-unknown")))

    with pytest.raises(OutcomeUnknown):
        player.run(ask(Request("POST", "/v1/x"), URL))

    assert sum(player.pauses) <= SETTLING_SECONDS


def test_retry_after_is_kept_and_one_beyond_the_deadline_is_not_waited_for() -> None:
    player = player_of(after(20, problem(429, "too-many-requests")), DONE)
    player.run(ask(Request("GET", "/v1/x"), URL))
    assert player.pauses == [20.0]

    with pytest.raises(TooManyRequests) as told:
        player_of(after(3600, problem(429, "too-many-requests"))).run(ask(Request("GET", "/v1/x"), URL))
    assert told.value.problem.retry_after_seconds == 3600


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "invalid-request", Refused),
        (401, "unauthenticated", SignInNeeded),
        (403, "quota-exceeded", QuotaExceeded),
        (409, "confirmation-required", ConfirmationRequired),
        (409, "conflict", Refused),
        (422, "key-reused", Refused),
        (418, "", Refused),
        (500, "internal", ApiError),
    ],
)
def test_refusals_are_final(status: int, name: str, kind: type[ApiError]) -> None:
    player = player_of(problem(status, name, hint="do that"), DONE)

    with pytest.raises(kind) as told:
        player.run(ask(Request("POST", "/v1/x"), URL))

    assert len(player.sent) == 1
    assert str(told.value) == "no\ndo that"


def test_a_page_of_a_proxy_says_whose_it_is() -> None:
    with pytest.raises(NotClusterra) as told:
        player_of(HTML).run(ask(Request("GET", "/v1/x"), URL))

    assert URL in str(told.value)
    assert "502" in str(told.value)
    assert "Bad" in str(told.value)
    assert "\x1b" not in str(told.value)


def test_a_redirect_is_no_answer_of_the_gateway() -> None:
    login = Answer(302, {"location": "https://evil.example/"})

    with pytest.raises(NotClusterra):
        player_of(login).run(ask(Request("GET", "/v1/x"), URL))


@given(attempt=st.integers(0, 10_000), chance=st.floats(0, 1))
def test_pauses_grow_to_a_bound(attempt: int, chance: float) -> None:
    assert 0 < pause_seconds(attempt, chance) <= LONGEST_PAUSE_SECONDS
    assert pause_seconds(attempt + 1, chance) >= pause_seconds(attempt, chance)


@given(
    status=st.integers(100, 599),
    body=st.binary(max_size=50),
    kind=st.sampled_from(["application/problem+json", "text/html", ""]),
)
def test_every_answer_is_decided(status: int, body: bytes, kind: str) -> None:
    decide(Request("GET", "/v1/x"), Answer(status, {"content-type": kind, "retry-after": "x"}, body))


@given(replies=st.lists(passing, min_size=1, max_size=6))
def test_each_pause_says_why_and_for_how_long(replies: list[Answer | Failure]) -> None:
    seen: list[Retrying] = []
    steps = ask(Request("GET", "/v1/x"), URL)
    player = player_of(*replies, DONE)

    def watched() -> Steps[Answer]:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer
            if isinstance(step, Pause):
                assert step.retrying is not None
                seen.append(step.retrying)
            reply = yield step

    player.run(watched())

    assert len(seen) == len(replies)
    assert all(each.reason.startswith("the gateway") for each in seen)
    assert all(each.left_seconds is not None and each.pause_seconds <= each.left_seconds for each in seen)
    assert [each.tried_seconds for each in seen] == sorted(each.tried_seconds for each in seen)
