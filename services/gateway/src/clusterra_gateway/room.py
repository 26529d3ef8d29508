"""What a room of the gateway offers. The app runs the background tasks of all rooms, and serves their routes."""

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
    """The offers of one room. Its tables are declared beside its keys: `tables.py` lists them."""

    routes: tuple[Route, ...] = ()
    background: Mapping[str, BackgroundTask] = field(default_factory=dict)
    """What runs for as long as the process lives, by name."""
    observers: tuple[Observed, ...] = ()
    revocation_observers: tuple[RevocationObserver, ...] = ()
    server: Callable[[], AbstractAsyncContextManager[None]] | None = None
    """A server beside the API's, which runs for as long as the block is open."""
