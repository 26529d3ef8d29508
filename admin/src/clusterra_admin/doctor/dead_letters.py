"""Checks messages that nobody could handle: new dead letters, and those that NATS gave up without one."""

from collections import Counter
from contextlib import aclosing
from datetime import datetime, timedelta

from clusterra_contracts.bus.topology import ADVISORY, DLQ
from clusterra_contracts.identity import now
from clusterra_runtime.nats.client import BusUnavailable
from clusterra_runtime.nats.direct import Stored

from clusterra_admin.dead_letters.advisories import GIVEN_UP, PREFIX
from clusterra_admin.dead_letters.letter import row_of
from clusterra_admin.doctor.connection import DoctorClient
from clusterra_admin.doctor.finding import Finding, ok, skipped, warning
from clusterra_admin.newest import newest_first

CHECK = "nats.dead-letters"
ADVISORIES = "nats.advisories"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MOST = 200
"""How many of the newest messages are looked at."""
_MOST_CONSUMERS = 5


async def check_dead_letters(client: DoctorClient) -> list[Finding]:
    """Messages that no service could handle, of the last hour and the last day."""
    try:
        recent, last = await _recent(client, DLQ.name, ">")
    except BusUnavailable as error:
        return [skipped(CHECK, str(error))]
    if last is None:
        return [ok(CHECK, "none")]
    row = row_of(last)
    told = f"the last {_at(last)} on {row.subject}: {row.reason or 'no reason given'}"
    if not recent:
        return [ok(CHECK, f"none in the last day; {told}")]
    advice = (
        "`clusterra-admin dead-letters list` shows them; correct what cannot handle them, then "
        "`clusterra-admin dead-letters replay`; they are kept for 14 days"
    )
    return [warning(CHECK, f"{_counted(recent)}; {told}", advice)]


async def check_advisories(client: DoctorClient) -> list[Finding]:
    """Messages that NATS gave up after their last delivery, of the last hour and the last day.

    Messages that a reader ended itself are not among them: `check_dead_letters` names their dead letters.
    """
    try:
        recent, _ = await _recent(client, ADVISORY.name, f"{PREFIX}{GIVEN_UP}.>")
    except BusUnavailable as error:
        return [skipped(ADVISORIES, str(error))]
    if not recent:
        return [ok(ADVISORIES, "NATS gave up no message in the last day")]
    consumers = Counter(each.subject.removeprefix(f"{PREFIX}{GIVEN_UP}.").replace(".", "/") for each in recent)
    named = ", ".join(f"{name} {count}" for name, count in consumers.most_common(_MOST_CONSUMERS))
    advice = "look into the log of its reader, which died or hung each time; what it did not handle is not handled"
    return [warning(ADVISORIES, f"given up without a dead letter: {_counted(recent)}: {named}", advice)]


async def _recent(client: DoctorClient, stream: str, subject_filter: str) -> tuple[list[Stored], Stored | None]:
    """The messages of the last day, at most the newest MOST, and the last one of all."""
    since, recent, last = now() - DAY, list[Stored](), None
    async with aclosing(newest_first(client, stream, subject_filter)) as messages:
        async for stored in messages:
            last = last or stored
            if len(recent) == MOST or stored.stored_at is None or stored.stored_at < since:
                break
            recent.append(stored)
    return recent, last


def _counted(recent: list[Stored]) -> str:
    since = now() - HOUR
    hour = sum(each.stored_at is not None and each.stored_at >= since for each in recent)
    return f"{_number(hour)} in the last hour, {_number(len(recent))} in the last day"


def _number(count: int) -> str:
    return f"{count} or more" if count >= MOST else str(count)


def _at(stored: Stored) -> str:
    at: datetime | None = stored.stored_at
    return "at an unknown time" if at is None else f"of {at:%Y-%m-%d %H:%M:%S}Z"
