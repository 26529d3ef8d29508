"""Checks what the proxy tells about the clusters that it watches: their conditions and snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.topology import CONDITIONS, JOB
from clusterra_contracts.condition import ClusterCondition
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import last_stored, replay

from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

CONDITION = "clusters.condition"
SNAPSHOT = "clusters.snapshot"
UNREACHABLE = "unreachable"
_PREFIX = f"$KV.{CONDITIONS.name}."


async def check_conditions(client: Client, clusters: Mapping[ClusterRef, ClusterBinding]) -> list[Finding]:
    """Every reason why a cluster is degraded. Paused clusters are left out: nobody watches them."""
    findings: list[Finding] = []
    try:
        async for entry in replay(client, f"KV_{CONDITIONS.name}", f"{_PREFIX}>"):
            key = entry.subject.removeprefix(_PREFIX)
            try:
                ref = ClusterRef.from_key(key)
                condition = decode(ClusterCondition, entry.body, dict(entry.headers))
            except (InvalidMessage, ValueError) as error:
                findings.append(warning(CONDITION, str(error), "look into the proxy's log", about=key))
                continue
            if ref in clusters and clusters[ref].state != "paused":
                findings += _degraded(ref, condition)
    except BusUnavailable as error:
        return [skipped(CONDITION, f"the conditions cannot be read: {error}")]
    return findings or [ok(CONDITION, "no cluster is degraded")]


def _degraded(ref: ClusterRef, condition: ClusterCondition) -> Iterable[Finding]:
    advice = "see docs/operations/monitoring.md#clusterraclusterdegraded for each reason"
    for each in condition.degraded:
        seen = f"{each.reason} since {each.since:%Y-%m-%d %H:%M:%S} UTC: {each.message}"
        yield warning(CONDITION, seen, advice, about=str(ref))


async def check_snapshot(client: Client, ref: ClusterRef, binding: ClusterBinding) -> list[Finding]:
    """Whether the cluster's last queue snapshot is recent enough to decide from."""
    about = str(ref)
    if binding.state == "paused":
        return [skipped(SNAPSHOT, f"the cluster is {binding.lifecycle}", about=about)]
    advice = "the proxy cannot read Slurm or cannot publish: look into its log for this cluster"
    try:
        stored = await last_stored(client, JOB.name, subjects.job_sharded(ref))
    except BusUnavailable as error:
        return [skipped(SNAPSHOT, f"the snapshots cannot be read: {error}", about=about)]
    if stored is None:
        return [failure(SNAPSHOT, "there is none, so nothing is decided", advice, about=about)]
    try:
        snapshot = decode(QueueSnapshot, stored.body, dict(stored.headers))
    except InvalidMessage as error:
        return [failure(SNAPSHOT, str(error), "upgrade the older of proxy and clusterra-admin", about=about)]
    age = _age_seconds(snapshot, stored.stored_at)
    seen = f"{age:.0f} s old, valid for {snapshot.valid_seconds:.0f} s"
    if age > snapshot.valid_seconds:
        return [failure(SNAPSHOT, f"{seen}: nothing is decided", advice, about=about)]
    return [ok(SNAPSHOT, seen, about=about)]


def _age_seconds(snapshot: QueueSnapshot, stored_at: datetime | None) -> float:
    """How long ago its reads of Slurm began: the proxy's clock until it was published, then NATS' and ours."""
    published_at = snapshot.published_at or snapshot.taken_at
    reading = (published_at - snapshot.taken_at).total_seconds()
    return max(reading, 0.0) + max((now() - (stored_at or published_at)).total_seconds(), 0.0)


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what follows from a failure that another check of the same cluster names, so that it is named once."""
    failed = {
        each.about
        for each in findings
        if each.status == "failure" and each.check.startswith("clusters.") and each.check != SNAPSHOT
    }
    return [each for each in findings if not (each.about in failed and _follows(each))]


def _follows(finding: Finding) -> bool:
    if finding.check == CONDITION:
        return finding.seen.startswith(f"{UNREACHABLE} ")
    return finding.check == SNAPSHOT and finding.status == "failure"
