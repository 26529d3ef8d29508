"""Spans and their export, by a process of its own: the SDK's state belongs to a process."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.otlp import OtlpReceiver, otlp_receiver
from clusterra_runtime import trace, tracing
from clusterra_runtime.nats import spans

TRACED = Path(__file__).with_name("traced_service.py")


@pytest.fixture
async def receiver() -> AsyncIterator[OtlpReceiver]:
    async with otlp_receiver() as receiving:
        yield receiving


@asynccontextmanager
async def silent_receiver() -> AsyncIterator[str]:
    """A receiver that accepts connections and never answers."""

    async def never(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        writer.close()

    gone = asyncio.Event()
    server = await asyncio.start_server(never, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        gone.set()
        server.close()
        await server.wait_closed()


async def traced(directory: Path, environment: Mapping[str, str]) -> Process:
    """A running traced_service.py."""
    fast = {"CLUSTERRA_STOP_DELAY_SECONDS": "0.01", "CLUSTERRA_INSTANCE": "traced-1"}
    log = directory / "traced.log"
    process = await start("traced", [sys.executable, str(TRACED)], log=log, env={**fast, **environment})
    await until(lambda: any(line["event"] == "service_started" for line in lines(process)), seconds=90, what="a start")
    return process


def lines(process: Process) -> list[dict[str, Any]]:
    """The entries of the process's log; an unfinished last line is left out."""
    return [json.loads(line) for line in process.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def line(process: Process, event: str) -> dict[str, Any]:
    return next(entry for entry in lines(process) if entry["event"] == event)


async def test_without_an_endpoint_the_sdk_is_not_loaded(tmp_path: Path) -> None:
    process = await traced(tmp_path, {})

    assert await process.stop(10) == 0
    assert line(process, "loaded")["sdk"] == []
    assert line(process, "in_the_trace")["trace"]


async def test_the_last_spans_are_exported_at_the_stop(tmp_path: Path, receiver: OtlpReceiver) -> None:
    never_by_itself = {**receiver.environment, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    process = await traced(tmp_path, {**never_by_itself, "OTEL_RESOURCE_ATTRIBUTES": "service.name=renamed"})
    assert receiver.requests == 0

    assert await process.stop(10) == 0

    outer, inner = sorted(receiver.spans, key=lambda span: span.start)
    assert (outer.name, inner.name, outer.service) == ("outer", "inner", "renamed")
    assert (inner.trace_id, inner.parent_id, outer.parent_id) == (outer.trace_id, outer.span_id, "")
    assert inner.attributes == {"number": 7}
    assert line(process, "in_the_trace")["trace"] == outer.trace_id


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
    ],
)
async def test_the_standard_variables_turn_spans_off(
    tmp_path: Path, receiver: OtlpReceiver, environment: Mapping[str, str]
) -> None:
    process = await traced(tmp_path, {**receiver.environment, **environment})

    assert await process.stop(10) == 0
    assert receiver.requests == 0
    assert line(process, "in_the_trace")["trace"]


async def test_a_receiver_that_fails_is_logged_once_and_counted(tmp_path: Path, receiver: OtlpReceiver) -> None:
    receiver.status = 400
    process = await traced(tmp_path, receiver.environment)
    await until(lambda: receiver.requests, seconds=30, what="an export")

    assert await process.stop(10) == 0

    complaints = [entry for entry in lines(process) if entry["level"] in ("warning", "error")]
    assert len(complaints) == 1
    assert "400" in complaints[0]["event"]
    assert line(process, "closed")["failed"] == 2


async def test_a_receiver_that_never_answers_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    async with silent_receiver() as endpoint:
        process = await traced(
            tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "CLUSTERRA_STOP_GRACE_SECONDS": "1.5"}
        )
        began = time.monotonic()

        assert await process.stop(10) == 0

        assert time.monotonic() - began < 4


def test_nothing_is_recorded_in_a_process_without_an_export() -> None:
    with trace.extract({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}):
        assert not tracing.enabled()
        assert not tracing.recording()
        with tracing.entry(None, "entry") as span:
            assert not span.get_span_context().is_valid
        with spans.publishing("event.acme.main.job.running") as span:
            assert not span.is_recording()


def test_links_leave_out_what_is_no_traceparent() -> None:
    valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    [link] = tracing.links_to([valid, "", "forged", valid.replace("0af7", "zzzz")])

    assert f"{link.context.trace_id:032x}" in valid


@pytest.mark.parametrize(
    ("subject", "template"),
    [
        ("slurm.acme.main.submit", "slurm.{tenant}.{cluster}.submit"),
        ("event.acme.main.job.running", "event.{tenant}.{cluster}.job.running"),
        ("job.partition.3.acme.main", "job.pending.{tenant}.{cluster}"),
        ("dlq.heartbeat.acme.main", "dlq.heartbeat.{tenant}.{cluster}"),
        ("usage.acme", "usage.{tenant}"),
        ("revocation.acme", "revocation.{tenant}"),
        ("unknown.acme.main", "unknown"),
    ],
)
def test_the_template_of_a_subject_has_no_ids(subject: str, template: str) -> None:
    assert spans.described(subject)[0] == template
