"""The views of the archive: the partitions in which an event has a copy, and those that answer a request.

The partitions of a cluster are ordered by the time of the event and then by its publication. `<cluster>#time` holds all
events, `<cluster>#subject#<entity>` those of one entity and `<cluster>#kind#<kind>` those of one kind: the wide views,
which every release writes. The narrow ones came later: `<cluster>#owner#<uid>` has a person's own events, all that they
may see who see only their own but what is told to everybody, and `<cluster>#acted` what somebody caused.
`<cluster>#position` has all events, ordered by their position in the stream.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from clusterra_contracts.bus.envelope import InvalidMessage
from clusterra_contracts.events import AUDITED_KINDS, KINDS, Event, kinds_of
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import TOLD_TO_ALL, owner_uid
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.item import InvalidItem, Key
from clusterra_runtime.store.page import Between

NARROW_FORM = 1
POSITION_FORM = 2
"""The forms with which the narrow views came, and that by position."""
FORM = POSITION_FORM
"""Counts the changes of which views there are. Each replica announces the one that it writes."""
MAX_MERGED = 8
"""How many kinds are read from the views of the kinds, rather than from that of everything that was caused."""
MAX_VIEWS = 64
"""How many views one page reads at most, if there are fewer with more events."""


def sortable(moment: datetime) -> str:
    """A UTC timestamp as a string whose order is that of the timestamps."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def by_time(ref: ClusterRef) -> str:
    """The view of all events."""
    return f"{ref.key}#time"


def by_position(ref: ClusterRef) -> str:
    """The view of all events in the order of the stream."""
    return f"{ref.key}#position"


def position_key(sort_key: str) -> str:
    """The sort key of the view by position of an event with this sort key in the others."""
    moment, sequence, event_id = sort_key.split("#", 2)
    return f"{sequence}#{moment}#{event_id}"


def views_of(ref: ClusterRef, event: Event) -> tuple[str, ...]:
    """The views ordered by time that have a copy of an event."""
    wide = (by_time(ref), _by_subject(ref, event.subject), _by_kind(ref, event.kind))
    uid = owner_uid(event.data)
    owned = () if uid is None else (_by_owner(ref, uid),)
    return (*wide, *owned, *((_acted(ref),) if event.kind in AUDITED_KINDS else ()))


def keys_of(ref: ClusterRef, event: Event, sort_key: str) -> tuple[Key, tuple[Key, ...]]:
    """The key that knows an event by its id, and those of its copies.

    Raises InvalidMessage where its names are too long for keys. It would be delivered again and again, and a consumer
    that has a thousand of those takes nothing else.
    """
    try:
        placed = Key(by_position(ref), position_key(sort_key))
        return Key(f"{ref.key}#id#{event.id}", "id"), (*(Key(view, sort_key) for view in views_of(ref, event)), placed)
    except InvalidItem as error:
        raise InvalidMessage(f"the event cannot be stored: {error}") from None


def wide_views(refs: Collection[ClusterRef], subject: str | None, kinds: Collection[str] | None) -> tuple[str, ...]:
    """The views of some clusters that together have all events of an entity or of these kinds; None: no such filter."""
    if subject is not None:
        return tuple(_by_subject(ref, subject) for ref in refs)
    if kinds is not None and (len(refs) == 1 or len(refs) * len(kinds) <= MAX_VIEWS):
        return tuple(_by_kind(ref, kind) for ref in refs for kind in sorted(kinds))
    return tuple(map(by_time, refs))


def narrow_views(refs: Collection[ClusterRef], viewer: Viewer | None, kinds: Collection[str] | None) -> tuple[str, ...]:
    """The views that together have all events of these kinds that a person may see, one of them narrow; or none."""
    return tuple(view for ref in refs for view in _narrow_views(ref, viewer, kinds))


def _narrow_views(ref: ClusterRef, viewer: Viewer | None, kinds: Collection[str] | None) -> tuple[str, ...]:
    if viewer is not None and viewer.only_uid is not None:
        told = sorted(TOLD_TO_ALL if kinds is None else TOLD_TO_ALL.intersection(kinds))
        return (_by_owner(ref, viewer.only_uid), *(_by_kind(ref, kind) for kind in told))
    if kinds is not None and len(kinds) > MAX_MERGED and AUDITED_KINDS.issuperset(kinds):
        return (_acted(ref),)
    return ()


def matching_kinds(patterns: Iterable[str]) -> frozenset[str]:
    """The kinds of exact names, of families such as `job.*`, and of `audit`.

    Raises RpcFailed (`invalid`) for others.
    """
    found: set[str] = set()
    for pattern in patterns:
        if not (matching := kinds_of(pattern)):
            raise RpcFailed(
                RpcError(kind="invalid", detail=f"unknown event kind {pattern!r}", hint=f"kinds: {', '.join(KINDS)}")
            )
        found |= matching
    return frozenset(found)


def split(sort: Between, at: str) -> tuple[Between | None, Between | None]:
    """The parts of a range before and after a time, which no sort key equals."""
    return (
        Between(sort.low, min(sort.high, at)) if sort.low < at else None,
        Between(max(sort.low, at), sort.high) if sort.high > at else None,
    )


def _by_subject(ref: ClusterRef, subject: str) -> str:
    return f"{ref.key}#subject#{subject}"


def _by_kind(ref: ClusterRef, kind: str) -> str:
    return f"{ref.key}#kind#{kind}"


def _by_owner(ref: ClusterRef, uid: int) -> str:
    return f"{ref.key}#owner#{uid}"


def _acted(ref: ClusterRef) -> str:
    return f"{ref.key}#acted"
