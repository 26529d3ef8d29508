"""The version check between services: each announces its contracts in the KV bucket `versions`, and reads the others'.

A service waits, before it begins to work, while a service works whose contracts do not go with its own. A service that
works already is not ready while such a service works that joined before it. So of two incompatible releases the one
that was there first goes on, and the newcomer names the reason.

Without NATS, without the bucket, or with an announcement that cannot be read there is no opinion: the check stops
nobody, and what a working service found before is forgotten after a minute. A service that waits goes on waiting:
announcements end during an outage of NATS, so it begins only after the others were away for a whole life of an
announcement on one connection.

The check believes what a replica says of itself: the central services are one trust domain, and only their credentials
can write announcements. Who has them could hold back every service, with announcements or without.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import nats.errors
import structlog
from clusterra_contracts.bus.envelope import InvalidMessage, decode, encode
from clusterra_contracts.bus.topology import VERSIONS
from clusterra_contracts.versions import CONTRACTS, LIFE_SECONDS, RENEW_SECONDS, Announcement, Contracts
from prometheus_client import Gauge

from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.credentials import login_end
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.service import Service

log = structlog.get_logger(__name__)

INCOMPATIBLE = Gauge(
    "clusterra_incompatible_services",
    "Running replicas of services whose contracts do not go with those of this process",
)

MAX_ANNOUNCEMENTS = 4096
"""Announcements beyond these are not read."""
_STREAM = f"KV_{VERSIONS.name}"
_PREFIX = f"$KV.{VERSIONS.name}."
_DEAD_SECONDS = 3.0 * LIFE_SECONDS
"""An announcement that is this much older than the newest one was stored without a time to live."""
_PUBLISH_SECONDS = 2.0
_RETRY_SECONDS = 0.5
"""The first pause after a failed announcement; it doubles up to RENEW_SECONDS."""
_LOOK_SECONDS = 5.0
_OPINION_SECONDS = 60.0
"""How long an opinion holds while the announcements cannot be read, as during a restart of NATS."""


def software_version(service: str, given: str = "") -> str:
    """The version of a service's software: the given one, such as an image's, else that of its Python package."""
    try:
        return given or version(f"clusterra-{service}")
    except PackageNotFoundError:
        return "unknown"


async def announcements(client: Client) -> tuple[list[Announcement], list[str]]:
    """The announcements of all live replicas, and the keys of those that cannot be read. Raises BusUnavailable."""
    stored: list[Stored] = []
    async for entry in replay(client, _STREAM, f"{_PREFIX}>"):
        stored.append(entry)
        if len(stored) == MAX_ANNOUNCEMENTS:
            log.warning("announcements_left_out", read=MAX_ANNOUNCEMENTS)
            break
    moments = [moment for entry in stored if (moment := entry.stored_at) is not None]
    found: list[Announcement] = []
    unreadable: list[str] = []
    for entry in stored:
        moment = entry.stored_at
        if moment is not None and (max(moments) - moment).total_seconds() > _DEAD_SECONDS:
            continue
        try:
            announcement = decode(Announcement, entry.body, dict(entry.headers))
        except InvalidMessage as error:
            key = entry.subject.removeprefix(_PREFIX)
            log.warning("announcement_unreadable", key=key, reason=str(error))
            unreadable.append(key)
        else:
            # A sequence that the bucket has not reached yet is one of a bucket that was lost.
            joined = min(announcement.joined or entry.sequence, entry.sequence)
            found.append(announcement.model_copy(update={"joined": joined}))
    return found, unreadable


class VersionCheck:
    """Announces one replica, and compares its contracts with those of the others."""

    def __init__(
        self, client: Client, own: Announcement, login_end: Callable[[], datetime | None] = lambda: None
    ) -> None:
        self._client = client
        self._login_end = login_end
        self._js = client.jetstream()
        self._own = own
        self._reported = ""
        self._looked_at = 0.0
        self._retry_seconds = _RETRY_SECONDS
        self._connections = 1
        self._reconnected = asyncio.Event()
        self._ignore_reconnects = client.on_reconnect(self._on_reconnect)
        self.problem = ""
        """What an operator should know and do, while this replica should not work; else empty."""

    async def wait_until_compatible(self) -> None:
        """Return when no incompatible service works, or nothing is known of the others; then announce the work."""
        self.problem = await self._look() or ""
        if self.problem:
            await self._wait(self.problem)
            self.problem = ""
        # Those that began to work while this one waited joined before it.
        self._own = self._own.model_copy(update={"working": True, "joined": 0})
        await self._announce()

    async def run(self) -> None:
        """Renew the announcement and look at the others, forever. Never raises."""
        stored = True
        while True:
            await self._pause(stored)
            try:
                stored = await self._announce()
                found = await self._look()
            except Exception:
                # A mistake in the check must not end a service that works.
                log.exception("version_check_failed")
                continue
            if found is not None:
                self.problem, self._looked_at = found, time.monotonic()
            elif time.monotonic() - self._looked_at > _OPINION_SECONDS:
                self.problem = ""

    async def leave(self) -> None:
        """Remove the announcement, so that nobody waits for the end of its life."""
        self._ignore_reconnects()
        try:
            async with asyncio.timeout(_PUBLISH_SECONDS):
                await self._js.purge_stream(_STREAM, subject=self._subject)
        except (nats.errors.Error, TimeoutError) as error:
            log.info("announcement_left_to_expire", reason=str(error))

    async def _wait(self, problem: str) -> None:
        """Return when every look of LIFE_SECONDS, on one connection, found no incompatible service that works."""
        connection, clean_since = 0, time.monotonic()
        while not connection or time.monotonic() - clean_since < LIFE_SECONDS:
            await self._pause(await self._announce())
            current = self._connections
            found = await self._look()
            if found:
                problem = self.problem = found
            if found != "" or current != self._connections:
                connection = 0
            elif current != connection:
                connection, clean_since = current, time.monotonic()
                self.problem = f"{problem}. They are gone: waiting {LIFE_SECONDS} s whether they stay away"

    async def _pause(self, announced: bool) -> None:
        """Wait until the next announcement is due: at once after a reconnect, soon after one that was not stored."""
        self._retry_seconds = _RETRY_SECONDS if announced else min(2 * self._retry_seconds, RENEW_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(RENEW_SECONDS if announced else self._retry_seconds):
                await self._reconnected.wait()
        self._reconnected.clear()

    def _on_reconnect(self) -> None:
        self._connections += 1
        self._reconnected.set()

    @property
    def _subject(self) -> str:
        return f"{_PREFIX}{self._own.key}"

    async def _announce(self) -> bool:
        """Whether the announcement was stored."""
        if not self._client.is_connected:
            return False
        # The file of the login may have been renewed meanwhile.
        body, headers = encode(self._own.model_copy(update={"login_expires_at": self._login_end()}))
        try:
            stored = await self._js.publish(
                self._subject, body, timeout=_PUBLISH_SECONDS, headers=headers, msg_ttl=LIFE_SECONDS
            )
        except (nats.errors.Error, TimeoutError) as error:
            log.info("version_not_announced", reason=str(error) or type(error).__name__)
            return False
        if not self._own.joined or stored.seq < self._own.joined:
            # The bucket is new, or was lost and created again: its sequences begin anew.
            self._own = self._own.model_copy(update={"joined": stored.seq})
        return True

    async def _look(self) -> str | None:
        """The problem that the announcements show, empty if there is none; None if they cannot be read."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found, _ = await announcements(self._client)
        except (BusUnavailable, TimeoutError) as error:
            log.info("versions_not_read", reason=str(error) or type(error).__name__)
            return None
        return self._judge([other for other in found if other.key != self._own.key])

    def _judge(self, others: list[Announcement]) -> str:
        incompatible = [other for other in others if not self._own.contracts.works_with(other.contracts)]
        INCOMPATIBLE.set(len(incompatible))
        first = [other for other in incompatible if other.working and (not self._own.working or self._after(other))]
        problem = _problem(self._own, first)
        reported = problem or ", ".join(sorted(map(str, incompatible)))
        if reported != self._reported:
            if incompatible:
                log.error("incompatible_services", of=sorted(map(str, incompatible)), problem=problem or None)
            else:
                log.info("services_are_compatible")
            self._reported = reported
        return problem

    def _after(self, other: Announcement) -> bool:
        return (other.joined, other.key) < (self._own.joined or float("inf"), self._own.key)


def _problem(own: Announcement, first: list[Announcement]) -> str:
    if not first:
        return ""
    named = ", ".join(sorted(map(str, first))[:5]) + (f" and {len(first) - 5} more" if len(first) > 5 else "")
    newer = any(other.contracts.generation > own.contracts.generation for other in first)
    action = (
        "update this service to their release"
        if newer
        else "update them first, through the releases in between, or stop them"
    )
    return (
        f"contracts {own.contracts} of {own.service} {own.software} do not go with {named}: {action}"
        " (docs/operations/upgrade.md)"
    )


@asynccontextmanager
async def announced(
    service: Service, client: Client, contracts: Contracts = CONTRACTS, *, record_form: int = 0
) -> AsyncIterator[None]:
    """Announce a service until the block ends. The block begins when no incompatible service works.

    `record_form` is for the other replicas of the service: the form of its records that this one writes.
    Until then, and whenever the check fails later, the service is not ready and says why.
    """
    own = Announcement(
        service=service.name,
        instance=re.sub("[^A-Za-z0-9_-]", "-", service.settings.instance)[:128],
        software=software_version(service.name, service.settings.software_version)[:128],
        contracts=contracts,
        working=False,
        record_form=record_form,
    )
    check = VersionCheck(client, own, partial(login_end, service.settings.nats_credentials_file))
    service.ready_when("versions", lambda: check.problem or True)
    try:
        await check.wait_until_compatible()
        service.background("versions", check.run)
        yield
    finally:
        await check.leave()
