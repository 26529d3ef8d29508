"""Checks the NATS server: its version, JetStream, the account's limits, and the rights of these credentials."""

import asyncio
from contextlib import suppress

import nats.errors
from clusterra_contracts.bus.topology import MAX_PAYLOAD_BYTES

from clusterra_admin.doctor.certificates import CHECK, expiry_finding
from clusterra_admin.doctor.connection import ApiFailed, DoctorClient
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

OLDEST_VERSION = (2, 11)
"""The first version whose key-value entries can have a time to live, which leases need."""
STORAGE_WARNING = 0.8
STORAGE_FAILURE = 0.95
PONG_SECONDS = 3.0

PROBE = "clusterra.doctor"
"""A subject of nobody: a message on it goes only to the doctor."""
PUBLISHED = (
    PROBE,
    "slurm.clusterra-doctor.clusterra-doctor.diag",
    "$JS.API.INFO",
    "$JS.API.STREAM.INFO.EVENT",
    "$JS.API.CONSUMER.INFO.EVENT.clusterra-doctor",
    "$JS.API.DIRECT.GET.SCALE",
    # Without a body JetStream refuses these, after the server has let them pass.
    "$JS.API.STREAM.UPDATE.clusterra-doctor",
    "$JS.API.CONSUMER.CREATE.EVENT.clusterra-doctor",
)
"""Subjects that operators publish on. A message without a body does nothing on any of them."""
SUBSCRIBED = (PROBE, "event.>", "heartbeat.*.*", "$KV.registry.>")


async def check_server(client: DoctorClient) -> list[Finding]:
    """The server's version, its payload limit and its certificate."""
    info = client.server_info
    version = str(info.get("version", ""))
    name = str(info.get("server_name", ""))
    findings = [_version(version, name)]
    payload = int(info.get("max_payload", 0))
    if payload < MAX_PAYLOAD_BYTES:
        seen = f"the largest message is {payload} bytes"
        findings.append(warning("nats.payload", seen, f"set `max_payload: {MAX_PAYLOAD_BYTES}` in nats-server's file"))
    else:
        findings.append(ok("nats.payload", f"messages of up to {payload} bytes"))
    if certificate := client.certificate:
        findings.append(expiry_finding(f"NATS {name}", certificate))
    else:
        findings.append(skipped(CHECK, "the connection has no TLS", about="NATS"))
    return findings


def _version(version: str, name: str) -> Finding:
    numbers = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    oldest = ".".join(map(str, OLDEST_VERSION))
    if numbers < OLDEST_VERSION:
        return failure("nats.version", f"nats-server {version}", f"upgrade nats-server to {oldest} or later")
    return ok("nats.version", f"nats-server {version} ({name}), at least {oldest}")


async def check_rights(client: DoctorClient) -> list[Finding]:
    """Publish and subscribe as operators do, and report what the server denies."""
    arrived = asyncio.Event()
    subscriptions = []

    async def receive(_message: object) -> None:
        arrived.set()

    for subject in SUBSCRIBED:
        subscriptions.append(await client.subscribe(subject, cb=receive if subject == PROBE else _ignore))
    for subject in PUBLISHED:
        await client.publish(subject)
    # The server answers a flush after all that was sent before, so all objections have arrived then.
    await client.flush(int(PONG_SECONDS))
    with suppress(TimeoutError):
        async with asyncio.timeout(0.0 if client.denied else PONG_SECONDS):
            await arrived.wait()
    for subscription in subscriptions:
        with suppress(nats.errors.Error):
            await subscription.unsubscribe()
    if client.denied:
        written = {subject.lower(): subject for subject in (*PUBLISHED, *SUBSCRIBED)}
        seen = "denied: " + ", ".join(f"{what} {written.get(subject, subject)}" for what, subject in client.denied)
        advice = "use the operators' credentials: CLUSTERRA_NATS_CREDENTIALS_FILE=<secrets>/nats/admin.creds"
        return [failure("nats.rights", seen, advice)]
    if not arrived.is_set():
        return [failure("nats.rights", "a message of our own did not come back", "look into nats-server's log")]
    return [ok("nats.rights", f"{len(PUBLISHED)} subjects published, {len(SUBSCRIBED)} subscribed, none denied")]


async def _ignore(_message: object) -> None:
    """Take a message of the installation, which the doctor does not look at."""


async def check_jetstream(client: DoctorClient) -> list[Finding]:
    """Whether JetStream is on, and how much of the account's storage is used."""
    try:
        account = await client.api("INFO")
    except ApiFailed as error:
        advice = "enable JetStream in nats-server's file (`jetstream {}`), and in the account's limits"
        return [failure("nats.jetstream", str(error), advice)]
    findings = [ok("nats.jetstream", f"{account.get('streams', 0)} streams, {account.get('consumers', 0)} consumers")]
    limits = account.get("limits", {})
    for kind, used in (("storage", account.get("storage", 0)), ("memory", account.get("memory", 0))):
        findings.append(_limit(kind, int(used), int(limits.get(f"max_{kind}", -1))))
    return findings


def _limit(kind: str, used: int, limit: int) -> Finding:
    check = "nats.limits"
    if limit <= 0:
        return ok(check, f"{_mib(used)} used, no limit of the account", about=kind)
    seen = f"{_mib(used)} of {_mib(limit)} used"
    advice = f"raise the account's limit of {kind}, or shorten what is kept"
    if used >= STORAGE_FAILURE * limit:
        return failure(check, seen, advice, about=kind)
    if used >= STORAGE_WARNING * limit:
        return warning(check, seen, advice, about=kind)
    return ok(check, seen, about=kind)


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
