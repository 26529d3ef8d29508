"""What sites tell over HTTP: whose it may be, what it proves, and that it is told once."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.agent_http import KEY_HEADER, new_key
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event, JobFact, MachineFact
from clusterra_contracts.hook_http import BATCH_PATH, CLUSTER_HEADER, EVENTS_PATH, MAX_RECORDS, TENANT_HEADER, JobDetail
from clusterra_contracts.identity import ClusterRef, now
from clusterra_gateway.clusters.hooks.facts import job_events
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import put_binding
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st
from test_agent_heartbeat import provision_agent_key

REF = ClusterRef(tenant="acme", cluster="main")
NUMBERS = count(1)
"""The tests share a stream, which knows the ids of events for ten minutes: each test has its own jobs and machines."""


def record(**changed: Any) -> dict[str, Any]:
    """A job that has just started."""
    at = now().replace(microsecond=0)
    return {
        "job_id": f"{next(NUMBERS)}_7",
        "name": 'a "b"\\\n',
        "user": "ada",
        "uid": 20001,
        "partition": "main",
        "state": "RUNNING",
        "nodes": ["n1"],
        "submitted_at": (at - timedelta(seconds=9)).isoformat(),
        "started_at": (at - timedelta(seconds=5)).isoformat(),
    } | changed


def ended(**changed: Any) -> dict[str, Any]:
    return record() | {"state": "COMPLETED", "exit_code": 0, "ended_at": now().isoformat()} | changed


def told_of(detail: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The event of a job with this detail."""
    return {"source": "clusterra.slurm", "detail-type": "job.running", "detail": detail} | changed


def machine(kind: str, at: datetime, **detail: Any) -> dict[str, Any]:
    """What EventBridge delivers, as AWS documents it."""
    return {
        "version": "0",
        "id": "7bf73129-1428-4cd3-a780-95db273d1602",
        "detail-type": kind,
        "source": "aws.ec2",
        "account": "123456789012",
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "us-east-1",
        "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-0abcd1234efgh5678"],
        "detail": {"instance-id": "i-0abcd1234efgh5678"} | detail,
    }


@dataclass
class Site:
    """The site of acme's cluster, with its key."""

    world: World
    http: aiohttp.ClientSession
    key: str

    async def send(
        self, content: Any, path: str = EVENTS_PATH, key: str | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        named = {TENANT_HEADER: "acme", CLUSTER_HEADER: "main", KEY_HEADER: self.key if key is None else key}
        given = {name: value for name, value in (named | headers).items() if value}
        async with self.http.post(path, json=content, headers=given) as answer:
            return answer.status, await answer.json()

    async def told(self) -> list[Event]:
        """All events of the cluster in the stream."""
        messages = replay(self.world.client, EVENT.name, subjects.events_of(REF))
        return [event async for message in messages if (event := _event(message.body)) is not None]


def _event(content: bytes) -> Event | None:
    event = Event.model_validate_json(content)
    return event if isinstance(event.data, JobFact | MachineFact) else None


@pytest.fixture
async def site(world: World, tmp_path: Path) -> AsyncIterator[Site]:
    await world.client.jetstream().purge_stream(EVENT.name)
    key = await provision_agent_key(world, tmp_path)
    site = Site(world, await world.browser(), key)
    await attach(site, attached=True)
    yield site
    await attach(site, attached=False)


async def attach(site: Site, *, attached: bool) -> None:
    """Make the Slurm of the cluster the site's own, or ours, and wait until the gateway knows it."""
    binding = site.world.registry.get(REF)
    assert binding is not None
    await put_binding(site.world.client, REF, binding.model_copy(update={"attached": attached}))

    async def is_known() -> bool:
        nothing = {"cluster_id": "main", "tables": {"jobs": {"update": [{}]}}}
        return (await site.send(nothing, BATCH_PATH))[0] == (200 if attached else 409)

    await until(is_known, seconds=240, what=f"attached: {attached}", every=0.3)


async def test_a_job_is_told_once_however_often_it_is_sent(site: Site) -> None:
    start = record()
    end = start | {"state": "COMPLETED", "exit_code": 0, "ended_at": now().isoformat()}
    answers = [await site.send(told_of(each)) for each in (start, end, start, end)]

    assert [status for status, _ in answers] == [200] * 4
    assert [[each["is_new"] for each in answer["events"]] for _, answer in answers] == [
        [True, True],
        [False, False, True],
        [False, False],
        [False, False, False],
    ]
    events, job = await site.told(), start["job_id"]
    version = f"{int(datetime.fromisoformat(start['submitted_at']).timestamp())}.0"
    assert [event.id for event in events] == [
        f"acme.main:{job.removesuffix('_7')}:{version}:job.submitted",
        f"acme.main:{job}:{version}:job.running",
        f"acme.main:{job}:{version}:job.completed",
    ]
    last = events[-1].data
    assert isinstance(last, JobFact)
    assert (last.name, last.uid, last.nodes, last.exit_code) == (start["name"], 20001, ("n1",), 0)


async def test_what_the_proxy_has_told_is_not_told_again(site: Site) -> None:
    long_ago = now() - timedelta(hours=5)
    late = ended(submitted_at=long_ago.isoformat(), started_at=long_ago.isoformat(), ended_at=long_ago.isoformat())
    site.world.acme.events.archived = job_events(REF, JobDetail.model_validate(late))

    status, answer = await site.send(told_of(late))

    assert (status, [each["is_new"] for each in answer["events"]]) == (200, [False] * 3)
    assert await site.told() == []


async def test_a_site_tells_of_its_own_cluster_alone(site: Site, tmp_path: Path) -> None:
    stranger = await provision_agent_key(site.world, tmp_path, "rival", "secret")
    one, many = told_of(record()), {"cluster_id": "main", "tables": {"jobs": {"update": [record()]}}}

    for path, content in ((EVENTS_PATH, one), (BATCH_PATH, many)):
        assert (await site.send(content, path, "x"))[0] == 401
        assert (await site.send(content, path, new_key()))[0] == 401
        assert (await site.send(content, path, stranger))[0] == 403
        assert (await site.send(content, path, stranger, **{TENANT_HEADER: "rival", CLUSTER_HEADER: "main"}))[0] == 403
        for name, other in ((TENANT_HEADER, "rival"), (CLUSTER_HEADER, "other"), (TENANT_HEADER, "")):
            assert (await site.send(content, path, **{name: other}))[0] == 403, (name, other)
    for wrong in ({"tenant_id": "rival"}, {"cluster_id": "other"}):
        assert (await site.send(told_of(record(**wrong))))[0] == 403
        assert (await site.send(told_of(record(), **wrong)))[0] == 403
        assert (await site.send(many | wrong, BATCH_PATH))[0] == 403
    assert await site.told() == []


async def test_one_bad_record_of_a_batch_is_one_bad_record(site: Site) -> None:
    future = (now() + timedelta(days=3)).isoformat()
    bad: list[Any] = [
        None,
        [],
        record(cluster_id="other"),
        record(submitted_at=future),
        record(submitted_at="2009-01-01T00:00:00Z"),
        record(job_id="42; rm"),
        record(uid="0"),
        record(nodes=["n1", "a b"]),
        record(state="no state"),
    ]
    rows = [record(job_id="100001"), *bad, record(job_id="100002")]
    machines = [
        {"instance_id": "i-1", "state": "node.terminated", "time": now().isoformat()},
        {"instance_id": "i-1", "state": "cluster.state.started", "time": now().isoformat()},
    ]
    batch = {"cluster_id": "main", "tables": {"jobs": {"update": rows}, "nodes": {"upsert": machines}}}

    status, answer = await site.send(batch, BATCH_PATH)

    assert status == 200, answer
    assert (answer["accepted"], answer["refused"]) == (3, len(bad) + 1)
    wrong = [(each["table"], each["index"]) for each in answer["records"] if each["problem"]]
    assert wrong == [*(("jobs", index) for index in range(1, len(bad) + 1)), ("nodes", 1)]
    assert {event.subject for event in await site.told()} == {"100001", "100002", "i-1"}
    assert (await site.send(batch, BATCH_PATH))[1]["accepted"] == 3
    assert len(await site.told()) == 5, "sent again, nothing is told again"


async def test_what_is_sent_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [record(job_id=str(number)) for number in range(1, MAX_RECORDS + 2)]
    batch = {"cluster_id": "main", "tables": {"jobs": {"update": rows}}}
    assert (await site.send(batch, BATCH_PATH))[0] == 400
    assert (await site.send(told_of(record(comment="x" * 600_000))))[0] == 413
    assert (await site.send(told_of(record(name="x" * 2000))))[0] == 400
    statuses = [(await site.send({}, BATCH_PATH))[0] for _ in range(40)]
    assert 429 in statuses
    assert (await site.send(told_of(record())))[0] == 200, "events have a limit of their own"


async def test_jobs_of_a_cluster_that_clusterra_runs_are_refused_and_machines_are_not(site: Site) -> None:
    await attach(site, attached=False)

    assert (await site.send(told_of(record())))[0] == 409
    status, _ = await site.send(machine("EC2 Instance State-change Notification", now(), state="terminated", node="n9"))

    assert status == 200
    assert [event.kind for event in await site.told()] == ["node.terminated"]


async def test_machines_are_told_as_eventbridge_delivers_them(site: Site) -> None:
    at, states = now(), "EC2 Instance State-change Notification"
    sent = [
        machine(states, at, state="pending"),
        machine(states, at, state="running", node="compute-7"),
        machine("EC2 Spot Instance Interruption Warning", at, **{"instance-action": "terminate"}),
        machine(states, at, state="shutting-down"),
        machine(states, at, state="terminated"),
    ]
    for each in (*sent, *sent):
        status, answer = await site.send(each)
        assert status == 200, answer

    assert [(event.kind, event.subject) for event in await site.told()] == [
        ("node.launched", "compute-7"),
        ("node.spot_interrupted", "i-0abcd1234efgh5678"),
        ("node.terminated", "i-0abcd1234efgh5678"),
    ]
    for wrong in (machine("EC2 Instance Rebalance Recommendation", at), machine(states, at) | {"source": "aws.s3"}):
        assert (await site.send(wrong))[0] == 400


_MOMENTS = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2026, 1, 1)).map(  # noqa: DTZ001
    lambda at: at.replace(microsecond=0).isoformat() + "Z"
)


@given(
    state=st.sampled_from(
        ["PENDING", "RUNNING", "REQUEUED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"]
    ),
    restarts=st.integers(0, 3),
    started_at=st.none() | _MOMENTS,
)
def test_a_later_record_of_a_run_proves_what_an_earlier_one_did(
    state: str, restarts: int, started_at: str | None
) -> None:
    submitted = "2020-01-01T00:00:00Z"
    first = JobDetail.model_validate(record(submitted_at=submitted, started_at=started_at, restarts=restarts))
    later = first.model_copy(update={"state": state, "ended_at": None})

    known = [event.id for event in job_events(REF, first)]

    found = [event.id for event in job_events(REF, later)]
    assert found[: len(known)] == known
    assert len(found) - len(known) == (state in {"COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL"})
    assert all(len(each) <= 200 for each in found)
