"""Checks the clusters: their bindings in the registry, and their Slurm as the proxy sees it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import InvalidMessage, decode
from clusterra_contracts.bus.topology import REGISTRY
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.rpc.reply import RpcError
from clusterra_contracts.rpc.slurm_nodes import Diagnose, Diagnosis
from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS
from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.nats.client import BusUnavailable, Client
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.rpc import RpcFailed, call
from clusterra_runtime.store.page import all_items
from clusterra_runtime.store.store import Store, StoreError

from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

OLDEST_SLURM = (24, 11)
"""The release of the oldest API version that the proxy speaks, v0.0.42."""
TAKE_OVER_SECONDS = 5.0
"""How long the proxy may need to take up a changed binding or the shard of another replica."""
_PREFIX = f"$KV.{REGISTRY.name}."


@dataclass(frozen=True)
class Bindings:
    """The clusters of the registry, and what is wrong with its entries."""

    clusters: Mapping[ClusterRef, ClusterBinding]
    findings: list[Finding]
    readable: bool


async def read_registry(client: Client) -> Bindings:
    """Read the bindings that the services work with."""
    clusters: dict[ClusterRef, ClusterBinding] = {}
    findings: list[Finding] = []
    try:
        async for entry in replay(client, f"KV_{REGISTRY.name}", f"{_PREFIX}>"):
            key = entry.subject.removeprefix(_PREFIX)
            if "KV-Operation" in entry.headers:
                continue
            try:
                clusters[ClusterRef.from_key(key)] = decode(ClusterBinding, entry.body, dict(entry.headers))
            except (InvalidMessage, ValueError) as error:
                advice = "write it again: `clusterra-admin provision apply FILE`"
                findings.append(failure("clusters.binding", str(error), advice, about=key))
    except BusUnavailable as error:
        findings.append(skipped("clusters.registry", f"the registry cannot be read: {error}"))
        return Bindings({}, findings, readable=False)
    return Bindings(clusters, findings, readable=True)


async def compare_with_record(store: Store, bindings: Bindings) -> list[Finding]:
    """Whether every cluster of the record is in the registry, in its latest version."""
    check = "clusters.registry"
    advice = "the gateway copies clusters every 30 s: check that it runs"
    recorded: dict[ClusterRef, ClusterBinding] = {}
    findings: list[Finding] = []
    try:
        async for item in all_items(lambda after: store.query(ACCOUNTS, CLUSTERS, cursor=after, limit=200)):
            try:
                binding = ClusterBinding.model_validate_json(str(item.attributes.get("binding")))
                recorded[ClusterRef.from_key(item.key.sk)] = binding
            except ValueError:
                seen = "its record cannot be read"
                findings.append(failure(check, seen, "run `clusterra-admin migrate plan`", about=item.key.sk))
    except StoreError as error:
        return [skipped(check, f"the record cannot be read: {error}")]
    for ref, known in recorded.items():
        binding_there, version = bindings.clusters.get(ref), known.version
        if binding_there is None and known.deleting:
            findings.append(skipped(check, "the cluster is being deleted", about=str(ref)))
        elif binding_there is None:
            findings.append(failure(check, "it is in the record, but not in the registry", advice, about=str(ref)))
        elif binding_there.version < version:
            seen = f"version {binding_there.version}, the record has {version}"
            findings.append(warning(check, seen, advice, about=str(ref)))
    for ref in bindings.clusters.keys() - recorded.keys():
        if bindings.clusters[ref].deleting:
            findings.append(skipped(check, "the cluster is being deleted", about=str(ref)))
            continue
        seen = "it is in the registry, but not in the record"
        findings.append(
            warning(check, seen, "add it again with `clusterra-admin provision apply FILE`", about=str(ref))
        )
    return findings or [ok(check, f"{len(recorded)} clusters of the record are in the registry")]


async def check_slurm(client: Client, ref: ClusterRef, binding: ClusterBinding, seconds: float) -> list[Finding]:
    """Ask the proxy about a cluster's Slurm: only the proxy speaks with slurmrestd and holds the key."""
    about = str(ref)
    if binding.state == "paused":
        return [skipped("clusters.slurm", f"the cluster is {binding.lifecycle}", about=about)]
    deadline = time.monotonic() + seconds - 0.2

    async def diagnose() -> Diagnosis:
        rest = max(deadline - time.monotonic(), 0.1)
        return await call(client, subjects.slurm(ref, "diag"), Diagnose(), Diagnosis, timeout_seconds=rest)

    try:
        # A proxy that takes up a changed binding, or the shard of another replica, does not answer for a moment.
        diagnosis = await retry(
            diagnose, Backoff(0.2, 0.5), on=_nobody_answers, seconds=min(TAKE_OVER_SECONDS, seconds / 2)
        )
    except RpcFailed as failed:
        return [_not_diagnosed(failed.error, binding, about)]
    if not diagnosis.reachable:
        seen = diagnosis.problem or f"{binding.slurmrestd_url} does not answer"
        advice = f"check that slurmrestd and slurmctld run, and that the proxy reaches {binding.slurmrestd_url}"
        return [failure("clusters.slurm", seen, advice, about=about)]
    return [_release(diagnosis, about), _partition(diagnosis, binding, about), _operator(diagnosis, binding, about)]


def _nobody_answers(error: Exception) -> bool:
    return isinstance(error, RpcFailed) and error.error.kind == "unavailable" and error.error.effect == "none"


def _not_diagnosed(error: RpcError, binding: ClusterBinding, about: str) -> Finding:
    if "JWT key" in error.detail:
        advice = f"make {binding.jwt_key} readable for the proxy; it holds the key of slurmctld's AuthAltParameters"
        return failure("clusters.secret", error.detail, advice, about=about)
    if error.kind == "unauthenticated":
        advice = f"{binding.jwt_key} must hold the very key (jwt_hs256.key) that slurmctld has"
        return failure("clusters.secret", f"Slurm rejects the proxy's tokens: {error.detail}", advice, about=about)
    advice = error.hint or "look into the proxy's log"
    return failure("clusters.slurm", f"{error.kind}: {error.detail}", advice, about=about)


def _release(diagnosis: Diagnosis, about: str) -> Finding:
    oldest = ".".join(map(str, OLDEST_SLURM))
    parts = diagnosis.slurm_version.split(".")[:2]
    seen = f"Slurm {diagnosis.slurm_version}, API {diagnosis.api_version}"
    if len(parts) == 2 and all(part.isdigit() for part in parts) and (int(parts[0]), int(parts[1])) < OLDEST_SLURM:
        return failure("clusters.slurm", seen, f"upgrade Slurm to {oldest} or later", about=about)
    return ok("clusters.slurm", f"{seen}, at least {oldest}", about=about)


def _partition(diagnosis: Diagnosis, binding: ClusterBinding, about: str) -> Finding:
    check = "clusters.partition"
    match diagnosis.partition_found:
        case None:
            return skipped(check, "the proxy does not tell", about=about)
        case True:
            return ok(check, f"{binding.partition} exists", about=about)
    advice = f"add `PartitionName={binding.partition}` to slurm.conf, or name another in the provision file"
    return failure(check, f"Slurm has no partition {binding.partition}", advice, about=about)


def _operator(diagnosis: Diagnosis, binding: ClusterBinding, about: str) -> Finding:
    check, name = "clusters.operator", binding.operator.name
    match diagnosis.operator_privileged:
        case None if diagnosis.problem:
            return failure(check, diagnosis.problem, "check that slurmdbd runs", about=about)
        case None:
            return skipped(check, "the proxy does not tell", about=about)
        case True:
            return ok(check, f"{name} may drain and delete nodes", about=about)
    advice = f"run `sacctmgr modify user {name} set adminlevel=Administrator` in the cluster"
    return failure(check, f"{name} has no rights in slurmdbd, so no worker can be drained", advice, about=about)
