"""What comes from outside tells times around its arrival, and what is stored stays readable."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from clusterra_contracts.agent_http import AgentHeartbeat
from clusterra_contracts.bus.envelope import InvalidMessage, decode, decode_foreign
from clusterra_contracts.bus.messages import REQUESTS
from clusterra_contracts.events import Event, WorkerFact, event_of
from clusterra_contracts.heartbeat import Heartbeat, Worker
from clusterra_contracts.identity import (
    LATEST,
    MAX_AGE,
    MAX_CLOCK_AHEAD,
    AroundArrival,
    ClusterRef,
    from_epoch,
    now,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel

REF = ClusterRef(tenant="acme", cluster="main")
DAY = timedelta(days=1)
FIRST = datetime(1, 1, 1, tzinfo=UTC)
OF_FILES = {"FolderEntry.modified_at"}
"""A file may have any time, and nobody counts with it."""


def worker_started(at: datetime) -> bytes:
    fact = WorkerFact(kind="worker.started", worker="xs-1", shape="xs", started_at=at)
    return event_of("edge-agent", REF, fact, version="1", time=at).model_dump_json().encode()


def heartbeat(at: datetime) -> bytes:
    worker = Worker(name="xs-1", shape="xs", phase="running", started_at=at)
    told = Heartbeat(generation=1, sent_at=now(), agent_version="1", substrate="process", workers=(worker,))
    return told.model_dump_json().encode()


@pytest.mark.parametrize("at", [FIRST, now() - MAX_AGE - DAY, now() + MAX_CLOCK_AHEAD + DAY, LATEST])
def test_a_time_far_from_the_arrival_is_refused_in_an_event_and_in_a_heartbeat(at: datetime) -> None:
    for model, message in ((Event, worker_started(at)), (Heartbeat, heartbeat(at))):
        with pytest.raises(InvalidMessage, match="too far from the time of its arrival"):
            decode_foreign(model, message, max_bytes=10_000)


@pytest.mark.parametrize("at", [now() - MAX_AGE + DAY, now(), now() + MAX_CLOCK_AHEAD / 2])
def test_a_time_around_the_arrival_is_taken_as_it_is(at: datetime) -> None:
    event = decode_foreign(Event, worker_started(at), max_bytes=10_000)

    assert event.time == at


def test_a_stored_message_stays_readable_whatever_its_times_are() -> None:
    message = worker_started(FIRST)

    assert decode(Event, message).model_dump(mode="json") == json.loads(message)


def test_every_time_in_a_message_from_an_agent_is_bounded() -> None:
    replies = [each.result for each in REQUESTS if each.server == "edge-agent"]
    seen: dict[type[BaseModel], set[str]] = {}

    for model in (Heartbeat, Event, AgentHeartbeat, *replies):
        look_into(model, seen)

    assert {f"{model.__name__}.{name}" for model, names in seen.items() for name in names} == OF_FILES
    assert {Worker, WorkerFact} <= seen.keys()


def look_into(hint: Any, seen: dict[type[BaseModel], set[str]]) -> None:
    """Collect the models in a type, each with the names of its fields that hold a time without a bound."""
    if isinstance(hint, type) and issubclass(hint, BaseModel) and hint not in seen:
        seen[hint] = set()
        for name, field in hint.model_fields.items():
            if not any(isinstance(each, AroundArrival) for each in field.metadata) and has_unbounded(field.annotation):
                seen[hint].add(name)
            look_into(field.annotation, seen)
    for part in get_args(hint):
        look_into(part, seen)


def has_unbounded(hint: Any) -> bool:
    if any(isinstance(each, AroundArrival) for each in getattr(hint, "__metadata__", ())):
        return False
    return hint in (datetime, AwareDatetime) or any(has_unbounded(part) for part in get_args(hint))


@given(st.floats(allow_nan=False))
def test_any_number_of_seconds_is_a_moment(seconds: float) -> None:
    assert datetime(1970, 1, 1, tzinfo=UTC) <= from_epoch(seconds) <= LATEST
