"""Entries of the audit, made from archived events, and their forms for programs and for tables."""

from collections.abc import Callable, Iterable
from typing import Literal, get_args

from clusterra_contracts.events import (
    ActionKind,
    AdminFact,
    AdminKind,
    Event,
    FileFact,
    FileKind,
    JobActionFact,
    JobFact,
)
from clusterra_contracts.identity import Moment

from clusterra_gateway.http.answers.csv_lines import csv_lines
from clusterra_gateway.http.answers.responses import ResponseBody

KINDS: tuple[str, ...] = ("job.submitted", *get_args(ActionKind), *get_args(AdminKind), *get_args(FileKind))
"""The kinds of events that somebody caused. All others tell what Slurm or the machines did."""

Format = Literal["ndjson", "csv"]


class Entry(ResponseBody):
    """Somebody did something, and it took effect."""

    time: Moment
    actor: str
    """The user name of whoever acted, or the name of a service."""
    action: str
    """The kind of the event, such as `action.cancel`."""
    subject: str
    """What was acted on: a job id, a user name, a token id, a cluster, or `files`."""
    owner: str
    """The user name of the job's owner; empty where the subject is no job."""
    detail: str
    """The job's name, the array's tasks and what was changed, a new limit, or the paths of files, as far as the event
    has them."""
    event_id: str
    """The event that this entry is made from. The same event never makes two entries."""


def entry_of(event: Event) -> Entry | None:
    """Return the entry of an event; None if nobody caused it."""
    match event.data:
        case JobFact(kind="job.submitted") as fact:
            actor, owner, detail = fact.user, fact.user, [fact.name]
        case JobActionFact() as fact:
            actor, owner, detail = fact.actor, fact.user, [fact.name, fact.tasks, fact.detail]
        case AdminFact() as fact:
            actor, owner, detail = fact.actor, "", [fact.detail]
        case FileFact() as fact:
            actor, owner = fact.actor, ""
            detail = [", ".join(fact.paths), f"to {fact.destination}" if fact.destination else ""]
        case _:
            return None
    told = "; ".join(part for part in detail if part)
    return Entry(
        time=event.time,
        actor=actor,
        action=event.kind,
        subject=event.subject,
        owner=owner,
        detail=told,
        event_id=event.id,
    )


def ndjson(entries: Iterable[Entry]) -> bytes:
    """One JSON object for each line."""
    return b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)


def csv_header() -> bytes:
    """The first line of a table, with the names of the fields."""
    return csv_lines([tuple(Entry.model_fields)])


def csv_rows(entries: Iterable[Entry]) -> bytes:
    """One line of a table for each entry (RFC 4180)."""
    return csv_lines(entry.model_dump(mode="json").values() for entry in entries)


WRITERS: dict[Format, tuple[str, Callable[[], bytes], Callable[[Iterable[Entry]], bytes]]] = {
    "ndjson": ("application/x-ndjson", bytes, ndjson),
    "csv": ("text/csv", csv_header, csv_rows),
}
"""Of each format the media type, what comes first, and how entries are written."""
