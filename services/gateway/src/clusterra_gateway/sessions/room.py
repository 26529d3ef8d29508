"""The room of interactive sessions: programs of jobs that people open in a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.connections import Connections
from clusterra_gateway.http.routes.route_group import routes_of
from clusterra_gateway.identity.access.signed_tokens import SigningKeys
from clusterra_gateway.identity.access.unix_users import UnixUsers
from clusterra_gateway.identity.room import IdentityParts
from clusterra_gateway.identity.tokens.revocations import KINDS
from clusterra_gateway.room import Observed, Room
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.handlers import OpeningPage, Sessions
from clusterra_gateway.sessions.idle_cull import IdleCull
from clusterra_gateway.sessions.lookup import SessionLookup
from clusterra_gateway.sessions.page_credentials import PageCookies, Tickets
from clusterra_gateway.sessions.pages import Pages, serving_pages
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_gateway.settings import Settings, origin_of
from clusterra_gateway.submits.desk import SubmitDesk
from clusterra_gateway.templates.launches import Launches

log = structlog.get_logger()


@dataclass(frozen=True)
class SessionParts:
    """What the routes, the pages and the cull of sessions share."""

    records: SessionRecords
    tickets: Tickets
    jobs: SessionJobs
    entrance: Entrance

    @classmethod
    def of(cls, connections: Connections, keys: SigningKeys) -> "SessionParts":
        """Builds each of them once."""
        store, bus = connections.directory.store, connections.bus
        records, tickets = SessionRecords(store), Tickets(store)
        entrance = Entrance(connections.settings.sessions_url, keys, bus.registry, tickets)
        return cls(records, tickets, SessionJobs(records, bus.slurm, bus.edge), entrance)

    def idle_cull(self, connections: Connections, unix_users: UnixUsers) -> IdleCull:
        """Cancels idle sessions."""
        bus = connections.bus
        return IdleCull(bus.client, connections.directory, bus.registry, unix_users, self.jobs, self.entrance)


def room(connections: Connections, identity: IdentityParts, launches: Launches, desk: SubmitDesk) -> Room:
    """What this room offers."""
    settings, bus = connections.settings, connections.bus
    parts = SessionParts.of(connections, identity.signing_keys)
    sessions = Sessions(launches, desk, parts.records, parts.jobs, parts.entrance, bus.slurm, bus.client, bus.feed)
    opening = OpeningPage(identity.access, parts.jobs, parts.entrance)
    pages = None if settings.sessions_url is None else _pages(connections, identity, parts, settings.sessions_url)
    return Room(
        routes=routes_of(sessions, opening, access=identity.access),
        background={"idle sessions": parts.idle_cull(connections, identity.unix_users).sweeper().run},
        observers=() if pages is None else (Observed(KINDS, lambda ref, _event: pages.recheck(ref.tenant)),),
        revocation_observers=() if pages is None else (lambda ref, _revocation: pages.recheck(ref.tenant),),
        server=None if pages is None else lambda: _serving(pages, settings),
    )


def _pages(connections: Connections, identity: IdentityParts, parts: SessionParts, sessions_url: str) -> Pages:
    bus, origin = connections.bus, origin_of(sessions_url)
    lookup = SessionLookup(
        bus.client, connections.directory, bus.registry, identity.unix_users, parts.jobs, parts.entrance
    )
    cookies = PageCookies(identity.signing_keys, secure=origin.startswith("https:"))
    return Pages(lookup, parts.tickets, cookies, origin, connections.settings.origins)


@asynccontextmanager
async def _serving(pages: Pages, settings: Settings) -> AsyncIterator[None]:
    """Serves the sessions' origin until the block ends."""
    async with serving_pages(pages, settings.http_host, settings.sessions_port) as port:
        log.info("sessions_listening", port=port, url=settings.sessions_url)
        yield
