"""Messages of Slack: every kind has a readable one, and nothing that a user wrote gets out of its place."""

import json
from datetime import UTC, datetime
from typing import Any

from clusterra_contracts.events import AdminFact, ConditionFact, DigestFact, Event, Fact, JobFact, NewerFact, event_of
from clusterra_contracts.identity import ClusterRef
from clusterra_events.webhooks.slack_message import cut, message_of
from hypothesis import given
from hypothesis import strategies as st

from .slack_stand_in import problem_of

REF = ClusterRef(tenant="acme", cluster="main")
AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
HOSTILE = st.one_of(
    st.text(max_size=4000),
    st.sampled_from(
        ["<!channel>", "<@U123>", "<https://x.example|y>", "*b* `c`\n> d", "&" * 3000, "\u202eabc", "😀" * 3000]
    ),
)


def job(**changes: Any) -> JobFact:
    given = {
        "kind": "job.failed",
        "job_id": "42_7",
        "name": "train",
        "user": "ada",
        "uid": 1001,
        "partition": "gpu",
        "state": "FAILED",
        "reason": "OutOfMemory",
        "exit_code": 137,
        "nodes": ("n1",),
        "submitted_at": datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC),
        "started_at": datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC),
        "ended_at": datetime(2026, 3, 1, 11, 5, 7, tzinfo=UTC),
    }
    return JobFact(**{**given, **changes})


def message(fact: Fact) -> dict[str, Any]:
    source = "/clusterra/proxy/acme/main"
    kind = fact.kind
    return message_of(
        REF, Event(id="1", source=source, type=f"cloud.clusterra.{kind}", subject="x", time=AT, data=fact)
    )


def texts(made: dict[str, Any]) -> str:
    return "\n".join(
        block["text"]["text"] if "text" in block else block["elements"][0]["text"] for block in made["blocks"]
    )


def test_a_failed_job_says_what_why_how_long_and_whose() -> None:
    shown = texts(message(job()))

    assert shown.splitlines() == [
        "Job 42_7 failed",
        "Name: train",
        "Reason: OutOfMemory",
        "Exit code 137",
        "Ran for 1 h 5 min",
        "Owner: ada",
        "State: FAILED",
        "Partition: gpu",
        "On: n1",
        "Cluster main · 2026-03-01 12:00:00 UTC · job.failed",
    ]


def test_a_digest_counts_and_names_the_first_that_failed() -> None:
    fact = DigestFact(
        job_id="42",
        name="sweep",
        user="ada",
        uid=1001,
        number=2,
        counts={"job.completed": 90, "job.failed": 12},
        totals={"job.completed": 190, "job.failed": 13},
        failed_tasks=tuple(f"42_{each}" for each in range(12)),
        tasks_left=5,
        since=AT,
        until=AT,
    )
    shown = texts(message(fact))

    assert shown.startswith("Array 42: 90 completed, 12 failed\n")
    assert "42_9 and 2 more" in shown
    assert "Tasks left: 5" in shown


def test_a_test_and_a_kind_of_a_newer_release_have_messages() -> None:
    assert "This is a test" in texts(message(AdminFact(kind="webhook.test", actor="ada", subject="wh_1")))
    assert "later.kind: x" in texts(message(NewerFact(kind="later.kind")))


@given(name=HOSTILE, user=HOSTILE, reason=HOSTILE, state=HOSTILE, partition=HOSTILE)
def test_nothing_of_a_user_is_markup_and_all_is_within_the_limits(
    name: str, user: str, reason: str, state: str, partition: str
) -> None:
    made = message(job(name=name, user=user, reason=reason, state=state, partition=partition))

    assert problem_of(json.loads(json.dumps(made))) == ""


@given(reason=HOSTILE, detail=HOSTILE, subject=HOSTILE)
def test_nor_in_the_title(reason: str, detail: str, subject: str) -> None:
    made = message(AdminFact(kind="token.created", actor=reason, subject=subject, detail=detail))

    assert problem_of(json.loads(json.dumps(made))) == ""


@given(HOSTILE, st.integers(1, 200))
def test_a_cut_text_is_within_its_length_and_never_ends_within_an_escape(text: str, most: int) -> None:
    found = cut(text, most)

    assert 0 < len(found.encode("utf-16-le", "surrogatepass")) // 2 <= most
    rest = found.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
    assert not set("&<>\n") & set(rest)


def test_the_condition_of_a_cluster_is_told() -> None:
    fact = ConditionFact(kind="cluster.degraded", reason="slurm_unreachable", message="no answer", since=AT)
    made = message_of(REF, event_of("api", REF, fact, version="1", time=AT))

    assert "The cluster is degraded: slurm unreachable\nno answer\n" in texts(made)
