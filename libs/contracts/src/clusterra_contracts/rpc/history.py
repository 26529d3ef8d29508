"""`history.<tenant>.<cluster>` and `tenant-history.<tenant>`: reading the event archive."""

import operator
from typing import Annotated, ClassVar

from pydantic import FailFast, Field

from clusterra_contracts.events import Event
from clusterra_contracts.identity import Id, Moment, Wire
from clusterra_contracts.rpc.slurm import Viewer

MAX_CLUSTERS = 200
"""The most clusters that one page is read of."""


def _none(value: object) -> bool:
    return value is None


class ReadHistory(Wire):
    """Read archived events in the order they happened; `newest_first` reverses it. A filter of None matches all."""

    schema_name: ClassVar[str] = "history.read.v3"

    viewer: Viewer | None = None
    """Only events that this person may see; None: all events."""
    kinds: tuple[str, ...] | None = None
    """Exact kinds (`job.failed`), or all kinds of one family (`job.*`)."""
    subject: str | None = None
    """The entity: a job id, a node name or a worker name."""
    after: Moment | None = None
    before: Moment | None = None
    newest_first: bool = False
    complete_to: Annotated[int, Field(ge=0)] | None = None
    """A position in the stream of events: the page is to have every event up to it, and none after it."""
    follows: Annotated[int | None, Field(ge=0, exclude_if=_none)] = None
    """A position in the stream of events: what comes after it, in the order of the stream. Of the filters only `viewer`
    goes with it, and no cursor."""
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    cursor: str | None = None


class HistoryPage(Wire):
    """One page of events; `cursor` continues after it and is None at the end."""

    schema_name: ClassVar[str] = "history.page.v4"

    events: tuple[Event, ...]
    cursor: str | None = None
    position: int | None = None
    """The position in the stream up to which the pages with this cursor are complete, and after which they have no
    event; None where the archive could not be complete in time, or was not asked."""
    positions: Annotated[tuple[int, ...], FailFast(), Field(exclude_if=operator.not_)] = ()
    """Of a page with `follows`: the position of each event."""
    follows_to: Annotated[int | None, Field(exclude_if=_none)] = None
    """Of a page with `follows`: it has every event after that position up to this one. None: they may be incomplete, as
    some may have expired; or the archive is of a release that does not know."""
    kept_from: Annotated[Moment | None, Field(exclude_if=_none)] = None
    """Of events before this time, some of the kinds that were asked for have expired. None from a release that does not
    tell."""


class ReadTenantHistory(Wire):
    """Read archived events of several clusters of a tenant as those of one. What each was told is in them once."""

    schema_name: ClassVar[str] = "history.tenant.v1"

    clusters: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_CLUSTERS), FailFast()]
    read: ReadHistory
