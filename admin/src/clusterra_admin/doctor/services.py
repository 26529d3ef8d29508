"""Checks that replicas of each service work: by the leases they hold, what they read, and what they answer."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import aiohttp
from clusterra_contracts.bus.subjects import SHARD_COUNT
from clusterra_contracts.bus.topology import EVENTS_ARCHIVE, LEASES
from clusterra_runtime.nats.client import BusUnavailable
from clusterra_runtime.nats.direct import Stored, replay
from clusterra_runtime.nats.lease_entries import Entries
from clusterra_runtime.nats.lease_terms import PACE

from clusterra_admin.doctor.connection import ApiFailed, DoctorClient
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped
from clusterra_admin.doctor.http import CertificateRejected, NoAnswer, get
from clusterra_admin.doctor.streams import moment
from clusterra_admin.running import running

SHARDS: Mapping[str, int] = {"scaler": SHARD_COUNT, "proxy": SHARD_COUNT}
"""Service -> the number of shards whose leases its replicas share."""
HANDOVER_SECONDS = 4.0
"""Leases may change hands while we look: the finding waits for the new holder at most this long."""
_PAUSE_SECONDS = 0.4
NO_REPLICA = "no replica is alive"
_PREFIX = f"$KV.{LEASES.name}."


async def check_lease_holders(client: DoctorClient, service: str) -> list[Finding]:
    """Whether replicas of a service live, and together hold all its shards."""
    check, expected = "services.replicas", SHARDS[service]
    advice = f"start {service} (`kubectl -n clusterra rollout status deployment/{service}`), or look into its log"
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + HANDOVER_SECONDS
    while True:
        try:
            members, held = await _leases(client, service)
        except (ApiFailed, BusUnavailable) as error:
            return [skipped(check, f"the leases cannot be read: {error}", about=service)]
        if members and held >= expected:
            return [ok(check, f"replicas: {members}; they hold all shards ({expected})", about=service)]
        if loop.time() > ends_at:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    if not members:
        return [failure(check, NO_REPLICA, advice, about=service)]
    seen = f"replicas: {members}; only {held} of {expected} shards are held"
    return [failure(check, seen, advice, about=service)]


async def _leases(client: DoctorClient, service: str) -> tuple[int, int]:
    stream, prefix = f"KV_{LEASES.name}", f"{_PREFIX}{service}."
    at = moment((await client.api(f"STREAM.INFO.{stream}"))["ts"])
    stored = [each async for each in replay(client, stream, f"{prefix}>")]
    return count_leases(stored, prefix, at)


def count_leases(stored: Iterable[Stored], prefix: str, at: datetime) -> tuple[int, int]:
    """The number of live replicas, and of shards that are held, at a time of the server.

    A server that was killed may bring back keys of replicas that are long gone: these do not count.
    """
    keys = [key.removeprefix(prefix) for key in Entries.read(stored, PACE.ttl_seconds, at).live]
    return sum(key.startswith("member.") for key in keys), sum(key.isdigit() for key in keys)


async def check_archive(client: DoctorClient) -> list[Finding]:
    """Whether a replica of the events service waits for events."""
    check = "services.replicas"
    ends_at = asyncio.get_running_loop().time() + HANDOVER_SECONDS
    while True:
        try:
            info = await client.api(f"CONSUMER.INFO.EVENT.{EVENTS_ARCHIVE}")
        except ApiFailed as error:
            return [skipped(check, str(error), about="events")]
        # A replica that is busy with a full batch does not wait, but has unacknowledged events.
        if info["num_waiting"] or info["num_ack_pending"]:
            return [ok(check, "a replica reads the events", about="events")]
        if asyncio.get_running_loop().time() > ends_at:
            advice = "start events (`kubectl -n clusterra rollout status deployment/events`), or look into its log"
            return [failure(check, "no replica reads the events", advice, about="events")]
        await asyncio.sleep(_PAUSE_SECONDS)


async def check_versions(client: DoctorClient) -> list[Finding]:
    """Whether the contracts of all running replicas go together, and the versions of their software."""
    check = "services.versions"
    try:
        rows = await running(client)
    except BusUnavailable as error:
        return [skipped(check, f"the announcements cannot be read: {error}")]
    advice = "roll the newest service back, or bring the others to its release; see docs/operations/upgrade.md"
    findings = []
    for row in rows:
        if row.compatible is None:
            findings.append(
                failure(check, "its announcement cannot be read", advice, about=f"{row.service} {row.instance}")
            )
        elif not row.compatible:
            seen = f"version {row.version}, contracts {row.contracts}, do not go with {', '.join(row.with_whom[:3])}"
            findings.append(failure(check, seen, advice, about=f"{row.service} {row.instance}"))
    if findings:
        return findings
    versions = Counter(f"{row.service} {row.version}" for row in rows)
    seen = ", ".join(f"{count} {name}" if count > 1 else name for name, count in sorted(versions.items()))
    return [ok(check, f"{len(rows)} replicas go together: {seen}" if rows else "no replica announces itself")]


async def check_gateway(http: aiohttp.ClientSession, public_url: str) -> list[Finding]:
    """Whether the gateway answers at its public address, and its clock."""
    check = "services.gateway"
    try:
        answer = await get(http, f"{public_url.rstrip('/')}/v1/openapi.json")
    except CertificateRejected:
        return [skipped(check, "its certificate is not valid", about=public_url)]
    except NoAnswer as error:
        advice = "check CLUSTERRA_PUBLIC_URL, that the gateway runs, and what stands in front of it"
        return [failure(check, str(error), advice, about=public_url)]
    return [ok(check, "answers", about=public_url), answer.clock("gateway")]
