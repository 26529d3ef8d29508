"""What a room of the gateway offers. The app runs the background work of all rooms, serves their routes, or both."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from clusterra_gateway.bus.event_feed import EventObserver
from clusterra_gateway.bus.revocation_messages import RevocationObserver
from clusterra_gateway.http.routes.route import Route

type BackgroundTask = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Observed:
    """Events of these kinds, of every cluster, go to the observer, which must not raise."""

    kinds: frozenset[str]
    observer: EventObserver


@dataclass(frozen=True, kw_only=True)
class Room:
    """The offers of one room. Its table is declared in its `table.py` or beside its keys, and listed in `tables.py`."""

    routes: tuple[Route, ...] = ()
    background: Mapping[str, BackgroundTask] = field(default_factory=dict)
    """The background work, by name. It may run in another process than the API, and in several."""
    background_observers: tuple[Observed, ...] = ()
    """They wake the background work, or keep right what it remembers, and are told only where it runs."""
    observers: tuple[Observed, ...] = ()
    """They keep right what the API remembers, and are told only where it is served."""
    revocation_observers: tuple[RevocationObserver, ...] = ()
    server: Callable[[], AbstractAsyncContextManager[None]] | None = None
    """A server beside the API's, which runs for as long as the block is open."""
