"""Wires what sessions need besides their routes: the server of their origin, and the cull of idle ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.directory.maps.map_records import MapRecords
from clusterra_gateway.directory.maps.mapped_users import MappedUsers
from clusterra_gateway.identity.revocations import KINDS as REVOCATIONS
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.identity.unix_users import UnixUsers
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.idle_cull import IdleCull
from clusterra_gateway.sessions.page_cookie import PageCookies
from clusterra_gateway.sessions.pages import Pages, serving_pages
from clusterra_gateway.sessions.reach import Reach
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_gateway.sessions.tickets import Tickets
from clusterra_gateway.settings import Settings, origin_of


@dataclass(frozen=True)
class SessionServices:
    """What runs beside the API for sessions."""

    settings: Settings
    keys: SessionKeys
    directory: Directory
    bus: GatewayBus

    @property
    def _jobs(self) -> SessionJobs:
        edge = EdgeRequests(self.bus.client, self.settings.edge_timeout_seconds)
        return SessionJobs(SessionRecords(self.directory.store), SlurmRequests(self.bus.client), edge)

    @property
    def _users(self) -> UnixUsers:
        return MappedUsers(MapRecords(self.directory.store))

    @property
    def _entrance(self) -> Entrance:
        return Entrance(self.settings.sessions_url, self.keys, self.bus.registry, Tickets(self.directory.store))

    def idle_cull(self, *, minute_seconds: float = 60.0) -> IdleCull:
        """Cancels idle sessions; a minute of a template is `minute_seconds` long."""
        registry, client = self.bus.registry, self.bus.client
        culled = IdleCull(client, self.directory, registry, self._users, self._jobs, self._entrance)
        culled.minute_seconds = minute_seconds
        return culled

    @asynccontextmanager
    async def pages(self) -> AsyncIterator[int | None]:
        """Serve the sessions' origin until the block ends. Yields its port; None where the installation has none."""
        settings, registry = self.settings, self.bus.registry
        if settings.sessions_url is None:
            yield None
            return
        origin, tickets = origin_of(settings.sessions_url), Tickets(self.directory.store)
        reach = Reach(self.bus.client, self.directory, registry, self._users, self._jobs, self._entrance)
        cookies = PageCookies(self.keys, secure=origin.startswith("https:"))
        pages = Pages(reach, tickets, cookies, origin, settings.origins)
        self.bus.feed.observe(REVOCATIONS, lambda ref, _event: pages.recheck(ref.tenant))
        self.bus.revocations.observe(lambda ref, _revocation: pages.recheck(ref.tenant))
        async with serving_pages(pages, settings.http_host, settings.sessions_port) as port:
            yield port
