"""`history.<tenant>.<cluster>`: reading the event archive."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.events import Event
from clusterra_contracts.identity import Moment, Wire
from clusterra_contracts.rpc.slurm import Viewer


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
