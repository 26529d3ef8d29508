"""The pure parts of webhooks: signatures, which events concern which webhook, and what follows an attempt."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from clusterra_contracts.events import AdminFact, Event, Fact, FileFact, JobFact, NodeFact, RunFact, event_of
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.webhooks import Attempt
from clusterra_contracts.webhooks import DeliverFrom, WebhookSecret
from clusterra_events.webhooks.matching import concerns, may_concern
from clusterra_events.webhooks.progress import (
    DISABLE_AFTER,
    FIRST_PAUSE_SECONDS,
    GIVE_UP_AFTER,
    LONGEST_PAUSE_SECONDS,
    Outcome,
    Progress,
    after_failure,
    attempts_of,
    pause_seconds,
    progress_of,
)
from clusterra_events.webhooks.signature import SecretUnusable, message_id, signed_headers
from clusterra_runtime.nats.direct import StreamEnd
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook as Standard
from standardwebhooks.webhooks import WebhookVerificationError

from .webhook_world import new_secret, webhook_at

REF = ClusterRef(tenant="acme", cluster="main")
START = datetime(2026, 11, 1, tzinfo=UTC)
STREAM = StreamEnd(START, 10**6)
URL = "https://hooks.example.com/"


def about(fact: Fact) -> Event:
    return event_of("proxy", REF, fact, version="1", time=START)


JOB = about(
    JobFact(
        kind="job.failed", job_id="7", name="n", user="ada", uid=2000, partition="p", state="FAILED", submitted_at=START
    )
)
RUN = about(RunFact(kind="run.failed", run_id="r1", name="n", user="bob", uid=2001))
NODE = about(NodeFact(kind="node.down", node="n1"))
FILES = about(FileFact(kind="file.deleted", actor="ada", uid=2000, paths=("data/x",)))
ADMIN = about(AdminFact(kind="webhook.changed", actor="ada", subject="wh_1"))
ALL = (JOB, RUN, NODE, FILES, ADMIN)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ALL),
        ({"kinds": ("job.failed",)}, (JOB,)),
        ({"kinds": ("job.completed",)}, ()),
        ({"kinds": ("job.*", "node.down")}, (JOB, NODE)),
        ({"clusters": ("main", "other")}, ALL),
        ({"clusters": ("other",)}, ()),
        ({"users": ("ada",)}, (JOB,)),
        ({"users": ("ada", "bob")}, (JOB, RUN)),
        ({"users": ("bob",), "kinds": ("job.*",)}, ()),
        ({"kinds": ("jo.*",)}, ()),
    ],
)
def test_a_webhook_gets_the_events_that_it_names(changes: dict[str, object], expected: tuple[Event, ...]) -> None:
    webhook = webhook_at(URL, **changes)

    assert tuple(each for each in ALL if concerns(webhook, REF.cluster, each)) == expected
    assert all(may_concern(webhook, REF.cluster, each.kind) for each in expected)


@given(body=st.binary(max_size=200), event_id=st.text(min_size=1, max_size=200))
def test_the_reference_library_verifies_each_secret(body: bytes, event_id: str) -> None:
    at = datetime.now(UTC)
    secrets = (
        WebhookSecret(text=new_secret()),
        WebhookSecret(text=new_secret(), valid_until=at + timedelta(hours=1)),
        WebhookSecret(text=new_secret(), valid_until=at),
    )
    json = b'{"a":"' + base64.b64encode(body) + b'"}'

    headers = signed_headers(message_id(REF, event_id), at, json, secrets)

    for secret in secrets[:2]:
        Standard(secret.text).verify(json, headers)
    with pytest.raises(WebhookVerificationError):
        Standard(secrets[2].text).verify(json, headers)
    with pytest.raises(WebhookVerificationError):
        Standard(secrets[0].text).verify(json + b" ", headers)
    assert headers["webhook-signature"].count("v1,") == 2


def test_the_id_of_a_message_is_that_of_the_event_in_its_cluster() -> None:
    expected = hashlib.sha256(f"acme.main{JOB.id}".encode()).hexdigest()[:32]

    assert message_id(REF, JOB.id) == f"msg_{expected}"
    assert message_id(ClusterRef(tenant="acme", cluster="other"), JOB.id) != message_id(REF, JOB.id)


def test_a_secret_that_is_no_base64_is_not_repeated() -> None:
    secret = WebhookSecret(text="whsec_" + "A" * 33)

    with pytest.raises(SecretUnusable) as raised:
        signed_headers("msg_1", START, b"{}", [secret])

    assert "AAA" not in str(raised.value)
    assert secret.text not in repr(secret)


@given(attempts=st.integers(1, 10**6))
def test_pauses_are_bounded_and_grow(attempts: int) -> None:
    pause = pause_seconds(attempts)

    assert FIRST_PAUSE_SECONDS / 2 <= pause <= LONGEST_PAUSE_SECONDS
    assert pause <= FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 20)
    if attempts > 11:
        assert pause >= LONGEST_PAUSE_SECONDS / 2


ANSWERS = st.lists(st.sampled_from([200, 204, 302, 404, 410, 500, None]), max_size=300)
GAPS = st.sampled_from([0.0, 1.0, 3600.0, 86_400.0])


@given(events=st.integers(1, 20), answers=ANSWERS, gap=GAPS)
def test_whatever_is_answered_events_are_sent_in_order_and_none_is_left_out(
    events: int, answers: list[int | None], gap: float
) -> None:
    """A model of visits: each event is dealt with once, and is sent until it is delivered or given up."""
    progress, at = progress_of(None, DeliverFrom(id="0" * 16, time=START)), START
    sent = list[tuple[int, Outcome]]()
    for status in answers:
        sequence = progress.sequence + 1
        if sequence > events or progress.disabled_reason:
            break
        at = max(at, progress.next_attempt_at or at)
        assert progress.is_due(at, "")
        delivered = status is not None and status < 300
        attempt = Attempt(delivered=delivered, status=status, seconds=0.1)
        progress = Progress.model_validate_json(progress.at(sequence).model_dump_json())
        failing = attempts_of(progress, sequence, at, "")
        outcome: Outcome = "delivered"
        if delivered:
            progress = progress.succeeded(sequence, at, STREAM)
        else:
            before = progress
            progress, outcome = after_failure(progress, failing, attempt, at, pause_seconds(failing.attempts))
            assert progress.sequence == before.sequence
            if outcome == "given up":
                assert at - failing.first_at >= GIVE_UP_AFTER
                progress = progress.skipped(sequence, at, STREAM)
        sent.append((sequence, outcome))
        at += timedelta(seconds=gap)

    assert [sequence for sequence, _ in sent] == sorted(sequence for sequence, _ in sent)
    done = [sequence for sequence, outcome in sent if outcome in ("delivered", "given up")]
    assert done == list(range(1, progress.sequence + 1))
    assert progress.logged == len(done)
    assert bool(progress.disabled_reason) == any(outcome == "disabled" for _, outcome in sent)


def failed(progress: Progress, at: datetime, status: int | None = 500) -> tuple[Progress, Outcome]:
    failing = attempts_of(progress, progress.sequence + 1, at, "")
    return after_failure(progress, failing, Attempt(delivered=False, status=status, seconds=1), at, 60.0)


def test_days_without_a_success_disable_a_webhook_and_enabling_it_begins_anew() -> None:
    progress = progress_of(None, DeliverFrom(id="0" * 16, time=START))
    progress, outcome = failed(progress, START)
    assert (outcome, progress.next_attempt_at) == ("retry", START + timedelta(seconds=60))

    progress, outcome = failed(progress, START + GIVE_UP_AFTER)
    assert outcome == "given up"
    progress = progress.skipped(1, START, STREAM)
    assert progress.failing_since == START

    progress, outcome = failed(progress, START + DISABLE_AFTER - timedelta(seconds=1))
    assert outcome == "retry"
    progress, outcome = failed(progress, START + DISABLE_AFTER)
    assert outcome == "disabled"
    assert not progress.is_due(START + timedelta(days=1000), "")
    assert "5 days" in progress.disabled_reason

    again = progress_of(progress, DeliverFrom(id="1" * 16, time=START))
    assert again.is_due(START, "")
    assert (again.sequence, again.failing_since, again.since) == (0, None, START)
    assert again.logged == 2


def test_a_success_ends_the_time_without_one() -> None:
    progress, _ = failed(progress_of(None, DeliverFrom(id="0" * 16, time=START)), START)
    progress = progress.succeeded(1, START, STREAM)
    progress, outcome = failed(progress, START + DISABLE_AFTER)

    assert outcome == "retry"
    assert progress.failing_since == START + DISABLE_AFTER


def test_a_clock_that_went_ahead_holds_no_event_back() -> None:
    progress = progress_of(None, DeliverFrom(id="0" * 16, time=START)).model_copy(
        update={"next_attempt_at": START + timedelta(days=400)}
    )

    assert progress.is_due(START, "")
    assert not progress.is_due(START + timedelta(days=400, minutes=-1), "")
    assert progress.is_due(START + timedelta(days=400), "")


def test_gone_disables_at_once() -> None:
    progress, outcome = failed(progress_of(None, DeliverFrom(id="0" * 16, time=START)), START, 410)

    assert outcome == "disabled"
    assert "410" in progress.disabled_reason


def test_sequences_of_another_stream_mean_nothing() -> None:
    begun = progress_of(None, DeliverFrom(id="0" * 16, time=START))
    assert (begun.since, begun.fits(STREAM)) == (START, True)

    later = START + timedelta(hours=1)
    progress = begun.succeeded(500, later, STREAM)
    assert (progress.since, progress.fits(STREAM)) == (None, True)
    assert not progress.fits(StreamEnd(later, 10**6))
    assert not progress.fits(StreamEnd(START, 499))

    anew = progress.anew()
    assert anew.since is not None
    assert later < anew.since <= later + timedelta(milliseconds=1)
    assert anew.fits(StreamEnd(later, 3))
