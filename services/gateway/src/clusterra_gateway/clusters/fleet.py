"""The workers of a cluster over time, by shape: those that it should have, and those that it has. Pure functions.

The present and all changes before it are known. So the past is computed backwards from the present: before a decision a
shape had `replicas_before`, before its start a worker was not there, and before its end it was.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from clusterra_contracts.events import Event, ScaleFact, WorkerFact
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import Moment, ShapeName, WorkerName
from clusterra_contracts.scale import DesiredState

from clusterra_gateway.http.answers.responses import ResponseBody

KINDS = ("scale.decided", "worker.*")
"""The kinds of events that change a fleet."""


class ShapeCount(ResponseBody):
    """The workers of one shape: how many should be there, and how many are. Null where nobody has told yet."""

    shape: ShapeName
    desired: int | None
    live: int | None


class FleetChange(ShapeCount):
    """The numbers of one shape from this moment on."""

    at: Moment


class Fleet(ResponseBody):
    """The workers by shape from `after` on: at first `before`, then after each of the `changes`, and last `now`.

    A worker is live from its start until its end, also while it boots. `complete` is false when there were more events
    than are read: then `after` is later than asked for.
    """

    after: Moment
    as_of: Moment
    complete: bool
    before: tuple[ShapeCount, ...]
    changes: tuple[FleetChange, ...]
    now: tuple[ShapeCount, ...]


@dataclass(slots=True)
class _Fleet:
    """A fleet at some moment. A shape or a list that is not known is None."""

    desired: dict[ShapeName, int | None] = field(default_factory=dict)
    live: dict[WorkerName, ShapeName] | None = None
    _live: Counter[ShapeName] = field(init=False)
    """The number of live workers by shape: each event asks for it."""

    def __post_init__(self) -> None:
        self._live = Counter((self.live or {}).values())

    def count(self, shape: ShapeName) -> ShapeCount:
        live = None if self.live is None else self._live[shape]
        return ShapeCount(shape=shape, desired=self.desired.get(shape), live=live)

    def counts(self, shapes: Iterable[ShapeName]) -> tuple[ShapeCount, ...]:
        return tuple(self.count(shape) for shape in sorted(shapes))

    def undo(self, event: Event) -> tuple[ShapeName, ...]:
        """Go back to before an event. Returns the shapes that it may have changed."""
        match event.data:
            case ScaleFact(changes=changes):
                self.desired |= {change.shape: change.replicas_before for change in changes}
                return tuple(change.shape for change in changes)
            case WorkerFact(kind=kind, worker=worker, shape=shape) if self.live is not None:
                if (before := self.live.pop(worker, None)) is not None:
                    self._live[before] -= 1
                if kind != "worker.started":
                    self.live[worker] = shape
                    self._live[shape] += 1
                return (shape,)
        return ()


def fleet_over_time(
    desired: DesiredState | None, heartbeat: Heartbeat | None, newest_first: Iterable[Event], *, after: datetime
) -> tuple[tuple[ShapeCount, ...], tuple[FleetChange, ...], tuple[ShapeCount, ...]]:
    """Return the fleet before the events, the changes from old to new, and the present fleet.

    `newest_first` are the events since `after`, all of them. A change that was reported late appears at its own time.
    """
    fleet = _present(desired, heartbeat)
    present = _present(desired, heartbeat)
    changes: list[FleetChange] = []
    for event in newest_first:
        if event.time < after:
            break
        shapes_before = {shape: fleet.count(shape) for shape in _shapes(event)}
        for shape in fleet.undo(event):
            was, now = fleet.count(shape), shapes_before[shape]
            if was != now:
                changes.append(FleetChange(at=event.time, **now.model_dump()))
    shapes = {
        *(shape for each in (fleet, present) for shape in each.desired),
        *(shape for each in (fleet, present) for shape in (each.live or {}).values()),
        *(change.shape for change in changes),
    }
    return fleet.counts(shapes), tuple(reversed(changes)), present.counts(shapes)


def _present(desired: DesiredState | None, heartbeat: Heartbeat | None) -> _Fleet:
    targets = desired.targets if desired is not None else None
    workers = heartbeat.workers if heartbeat is not None else None
    return _Fleet(
        {target.shape: target.replicas for target in targets or ()},
        None if workers is None else {each.name: each.shape for each in workers if each.phase != "failed"},
    )


def _shapes(event: Event) -> tuple[ShapeName, ...]:
    match event.data:
        case ScaleFact(changes=changes):
            return tuple(change.shape for change in changes)
        case WorkerFact(shape=shape):
            return (shape,)
    return ()
