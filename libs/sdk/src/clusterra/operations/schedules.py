"""Schedules: templates that the gateway submits again and again."""

from collections.abc import Mapping
from typing import Any

from clusterra.exchange import Request, Steps, Stream
from clusterra.models import Schedule
from clusterra.operations.api import Api, segment
from clusterra.operations.pages import listed

SCHEDULES = "/v1/schedules"


def schedules(api: Api) -> Stream[Schedule]:
    """The caller's schedules; an admin's are those of everybody."""
    return listed(api, Schedule, Request("GET", SCHEDULES), None)


def change_schedule(api: Api, schedule_id: str, changes: Mapping[str, Any]) -> Steps[Schedule]:
    """Change a schedule. `changes` are the fields of the API's ScheduleChange."""
    return (yield from api.read(Schedule, Request("PATCH", _path(schedule_id), body=dict(changes))))


def run_schedule(api: Api, schedule_id: str, key: str | None) -> Steps[Schedule]:
    """Submit the template of a schedule once, now."""
    return (yield from api.read(Schedule, Request("POST", f"{_path(schedule_id)}/run", idempotency_key=key)))


def _path(schedule_id: str) -> str:
    return f"{SCHEDULES}/{segment(schedule_id)}"
