"""One job's way as a trace, from its HTTP request to its end, received over OTLP from the whole lab."""

import json

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event
from clusterra_lab.demo.observer import observe
from clusterra_lab.demo.scenario import GIB
from clusterra_lab.machine.process import until
from clusterra_lab.parts.otlp import OtlpReceiver, ReceivedSpan
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats.direct import replay

JOB = {"name": "traced", "cpus_per_task": 1, "memory_per_cpu": 2 * GIB}
SCRIPT = "#!/bin/bash\nsleep 2\n"

EVENT_SUBJECT = "event.{tenant}.{cluster}."
JOB_SPANS = {
    ("gateway", "POST /v1/clusters/{cluster_id}/jobs/submit"),
    ("gateway", "request slurm.{tenant}.{cluster}.submit"),
    ("proxy", "process slurm.{tenant}.{cluster}.submit"),
    ("proxy", "job queued"),
    ("proxy", "job running"),
    ("scaler", "workers decided"),
    *(
        (service, f"{verb} {EVENT_SUBJECT}{kind}")
        for kind in ("job.submitted", "job.running", "job.completed")
        for service, verb in (("proxy", "publish"), ("events", "process"))
    ),
}
DECISION_SPANS = {
    ("scaler", "decide"),
    ("edge-agent", "apply"),
    ("edge-agent", "worker starting"),
    ("events", f"process {EVENT_SUBJECT}worker.started"),
}


@pytest.fixture
async def traced(production_lab: Stack, receiver: OtlpReceiver) -> Stack:
    """The lab with an empty fleet, and a receiver without spans of other tests."""
    async with observe(production_lab.bus, production_lab.cluster) as observer:
        await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")
    receiver.spans.clear()
    return production_lab


def named(spans: list[ReceivedSpan], service: str, name: str) -> ReceivedSpan:
    """The span of a service with this name: there is one, or one of each consumer of an event."""
    found = {
        span.attributes.get("messaging.consumer.group.name"): span
        for span in spans
        if (span.service, span.name) == (service, name)
    }
    assert len(found) == sum((span.service, span.name) == (service, name) for span in spans) > 0, spans
    return next(iter(found.values()))


async def trace_of(receiver: OtlpReceiver, job_id: str) -> str:
    """The id of the only trace in which a job is queued."""

    def traces() -> set[str]:
        queued = [span for span in receiver.spans if span.name == "job queued"]
        return {span.trace_id for span in queued if span.attributes["clusterra.job.id"] == job_id}

    [trace_id] = await until(traces, seconds=90, what=f"the span of the queued job {job_id}")
    return trace_id


async def complete(receiver: OtlpReceiver, trace_id: str, wanted: set[tuple[str, str]]) -> list[ReceivedSpan]:
    """A trace, once all these spans have arrived: each service exports its own, in no common order."""

    def missing() -> set[tuple[str, str]]:
        return wanted - {(span.service, span.name) for span in receiver.trace(trace_id)}

    try:
        await until(lambda: not missing(), seconds=90, what="all spans of the trace")
    except TimeoutError:
        pytest.fail(f"spans that did not arrive: {sorted(missing())}")
    return receiver.trace(trace_id)


async def test_one_trace_leads_from_the_request_to_the_end_of_the_job(traced: Stack, receiver: OtlpReceiver) -> None:
    async with observe(traced.bus, traced.cluster) as observer, traced.user("ada@acme.example") as ada:
        job = await ada.submit(SCRIPT, JOB)
        await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the job's end")

    trace_id = await trace_of(receiver, job.job_id)
    spans = await complete(receiver, trace_id, JOB_SPANS)
    submit = named(spans, "gateway", "POST /v1/clusters/{cluster_id}/jobs/submit")
    sent = named(spans, "gateway", "request slurm.{tenant}.{cluster}.submit")
    answered = named(spans, "proxy", "process slurm.{tenant}.{cluster}.submit")
    to_slurm = next(span for span in spans if span.name.startswith("POST /slurm/") and span.name.endswith("job/submit"))
    queued, ran = named(spans, "proxy", "job queued"), named(spans, "proxy", "job running")
    decided = named(spans, "scaler", "workers decided")

    # Each is a part of the one before it.
    assert (submit.parent_id, submit.kind) == ("", "SPAN_KIND_SERVER")
    assert (sent.parent_id, answered.parent_id, to_slurm.parent_id) == (submit.span_id, sent.span_id, answered.span_id)
    assert {span.parent_id for span in (queued, ran, decided)} == {answered.span_id}
    assert submit.attributes["http.response.status_code"] == 201
    assert submit.attributes["clusterra.tenant"] == answered.attributes["clusterra.tenant"] == "acme"
    assert queued.events == ("worker registered",)
    assert ran.end - ran.start >= 2
    for kind in ("job.submitted", "job.running", "job.completed"):
        event = "event.{tenant}.{cluster}." + kind
        assert named(spans, "events", f"process {event}").parent_id == named(spans, "proxy", f"publish {event}").span_id

    # The decision serves many jobs: it has a trace of its own, and both link to each other.
    decision = await complete(receiver, next(iter(decided.linked_traces)), DECISION_SPANS)
    assert named(decision, "scaler", "decide").linked_traces == {submit.trace_id}
    started = named(decision, "edge-agent", "worker starting")
    assert named(decision, "edge-agent", "apply").start <= started.end
    assert named(decision, "events", "process event.{tenant}.{cluster}.worker.started").trace_id == started.trace_id

    # No span's name has an id, and no attribute a token or the script.
    names = {span.name for span in receiver.spans}
    assert not any(text in name for name in names for text in ("acme", "main", job.job_id + "."))
    attributes = json.dumps([dict(span.attributes) for span in receiver.spans])
    assert "eyJ" not in attributes
    assert "sleep 2" not in attributes


async def test_log_line_span_and_event_share_the_trace(traced: Stack, receiver: OtlpReceiver) -> None:
    async with observe(traced.bus, traced.cluster) as observer, traced.user("ada@acme.example") as ada:
        job = await ada.submit(SCRIPT, JOB)
        await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the job's end")

    trace_id = await trace_of(receiver, job.job_id)

    lines = [json.loads(line) for line in traced.services["gateway"].log.read_text().splitlines()]
    stored = [
        message.headers["traceparent"]
        async for message in replay(traced.bus, EVENT.name, subjects.events_of(traced.cluster, "job.*"))
        if decode(Event, message.body, dict(message.headers)).subject == job.job_id
    ]

    assert [line["trace"] for line in lines if line.get("job") == job.job_id] == [trace_id]
    assert [traceparent.split("-")[1] for traceparent in stored] == [trace_id] * 3
