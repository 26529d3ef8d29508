"""Checks the edges by their last heartbeats: their age, clock, version, login, and what is stuck there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode_foreign
from clusterra_contracts.bus.subjects import UnknownSubject
from clusterra_contracts.bus.topology import HB
from clusterra_contracts.heartbeat import HEARTBEAT_SECONDS, MAX_DECODED_BYTES, Heartbeat
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay

from clusterra_admin.doctor.clocks import clock_finding
from clusterra_admin.doctor.credentials import edge_login
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning
from clusterra_admin.doctor.streams import moment

CHECK = "edges.heartbeat"
LATE_SECONDS = 3 * HEARTBEAT_SECONDS
"""Heartbeats come every 5 s: a few may be lost."""
LOST_SECONDS = 12 * HEARTBEAT_SECONDS
MAX_NAMED = 3
ATTEMPTS = 3
"""How often the heartbeats are read before they count as unreadable."""
PAUSE_SECONDS = (0.05, 0.2)
"""The first and the longest pause between two attempts."""


@dataclass(frozen=True)
class Beat:
    """The last heartbeat of an edge; `heartbeat` is None if it is unreadable."""

    stored_at: datetime
    """By the clock of the NATS server."""
    heartbeat: Heartbeat | None
    problem: str = ""


async def check_edges(client: Client, clusters: Mapping[ClusterRef, ClusterBinding]) -> list[Finding]:
    """Read the last heartbeats of all clusters at once, and look at each.

    The edge of a cluster that is being deleted may be gone already.
    """
    beats: dict[ClusterRef, Beat] = {}
    try:
        # The checks of many clusters run beside this one, and one late answer must not hide all heartbeats.
        await retry(partial(_read, client, beats), Backoff(*PAUSE_SECONDS), on=BusUnavailable, attempts=ATTEMPTS)
    except BusUnavailable as error:
        return [skipped(CHECK, f"the heartbeats cannot be read: {error}")]
    at = now()
    findings: list[Finding] = []
    for ref in sorted(clusters, key=str):
        found = _check(ref, beats.get(ref), at)
        if clusters[ref].deleting and any(each.status == "failure" for each in found):
            found = [skipped(CHECK, "the cluster is being deleted", about=str(ref))]
        findings += found
    return findings


async def _read(client: Client, beats: dict[ClusterRef, Beat]) -> None:
    async for stored in replay(client, HB.name, HB.subjects[0]):
        stored_at = moment(stored.headers["Nats-Time-Stamp"])
        try:
            ref = subjects.parse(stored.subject).ref
        except UnknownSubject:
            continue
        try:
            beats[ref] = Beat(
                stored_at, decode_foreign(Heartbeat, stored.body, dict(stored.headers), max_bytes=MAX_DECODED_BYTES)
            )
        except InvalidMessage as error:
            beats[ref] = Beat(stored_at, None, str(error))


def _check(ref: ClusterRef, beat: Beat | None, at: datetime) -> list[Finding]:
    about = str(ref)
    advice = "check that the edge-agent runs, and that its network reaches NATS or the gateway"
    if beat is None:
        return [failure(CHECK, f"none within the last {HB.max_age_seconds:g} s", advice, about=about)]
    if beat.heartbeat is None:
        return [failure(CHECK, f"unreadable: {beat.problem}", "upgrade the edge-agent", about=about)]
    heartbeat, age = beat.heartbeat, max(at - beat.stored_at, timedelta())
    seen = f"{age.total_seconds():.0f} s ago, edge-agent {heartbeat.agent_version}, {heartbeat.substrate}"
    skew = clock_finding(f"edge {ref}", (heartbeat.sent_at - beat.stored_at).total_seconds())
    login = edge_login(about, heartbeat.login_expires_at)
    if age.total_seconds() > LOST_SECONDS:
        return [failure(CHECK, seen, advice, about=about), skew, login]
    if age.total_seconds() > LATE_SECONDS:
        return [warning(CHECK, seen, advice, about=about), skew, login]
    return [ok(CHECK, seen, about=about), skew, login, *_substrate(heartbeat, about)]


def _substrate(heartbeat: Heartbeat, about: str) -> list[Finding]:
    check = "edges.workers"
    if heartbeat.workers is None:
        seen = "the edge-agent cannot list its workers, so it changes none"
        return [failure(check, seen, "look into its log: its rights in Kubernetes may be missing", about=about)]
    if heartbeat.stuck:
        named = [f"{each.workers} of {each.shape} ({each.cause})" for each in heartbeat.stuck[:MAX_NAMED]]
        more = len(heartbeat.stuck) - len(named)
        seen = f"stuck: {', '.join(named)}" + (f" and {more} more" if more else "")
        return [warning(check, seen, "see docs/operations/failures.md for each cause", about=about)]
    return [ok(check, f"{len(heartbeat.workers)} workers", about=about)]
