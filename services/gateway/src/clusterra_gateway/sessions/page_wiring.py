"""Wires the server of the sessions' origin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.session_records import SessionRecords
from clusterra_gateway.bus.connection import GatewayBus
from clusterra_gateway.bus.requests import EdgeRequests, SlurmRequests
from clusterra_gateway.identity.sessions import SessionKeys
from clusterra_gateway.identity_maps.map_records import MapRecords
from clusterra_gateway.identity_maps.unix_users import UnixUsers
from clusterra_gateway.sessions.entrance import Entrance
from clusterra_gateway.sessions.page_cookie import PageCookies
from clusterra_gateway.sessions.pages import Pages, serving_pages
from clusterra_gateway.sessions.reach import Reach
from clusterra_gateway.sessions.session_jobs import SessionJobs
from clusterra_gateway.sessions.tickets import Tickets
from clusterra_gateway.settings import Settings, origin_of


@asynccontextmanager
async def session_pages(
    settings: Settings, keys: SessionKeys, directory: Directory, bus: GatewayBus
) -> AsyncIterator[int | None]:
    """Serve the sessions' origin until the block ends. Yields its port; None where the installation has none."""
    if settings.sessions_url is None:
        yield None
        return
    origin, tickets = origin_of(settings.sessions_url), Tickets(directory.store)
    edge = EdgeRequests(bus.client, settings.edge_timeout_seconds)
    jobs = SessionJobs(SessionRecords(directory.store), SlurmRequests(bus.client), edge)
    entrance = Entrance(settings.sessions_url, keys, bus.registry, tickets)
    reach = Reach(bus.client, directory, bus.registry, UnixUsers(MapRecords(directory.store)), jobs, entrance)
    cookies = PageCookies(keys, secure=origin.startswith("https:"))
    async with serving_pages(
        Pages(reach, tickets, cookies, origin), settings.http_host, settings.sessions_port
    ) as port:
        yield port
