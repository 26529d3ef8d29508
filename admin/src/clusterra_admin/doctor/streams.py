"""Checks streams, consumers and buckets: declared as they are, replicated, read in time."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clusterra_contracts.bus.topology import BUCKETS, CONSUMERS, STREAMS, Consumer
from clusterra_contracts.identity import now
from clusterra_runtime.nats import topology

from clusterra_admin.doctor.clocks import clock_finding
from clusterra_admin.doctor.connection import ApiFailed, DoctorClient
from clusterra_admin.doctor.finding import Finding, failure, ok, skipped, warning

NEARLY_FULL = 0.9
"""A stream with more than this share of its bound is a warning."""
LAG_MESSAGES = 1000
"""More unread messages than this are a warning."""
_NOT_FOUND = 404
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


async def check_topology(client: DoctorClient) -> list[Finding]:
    """Compare the server with the declared topology. A stream's replicas are compared with those of the others."""
    replicas = max([await _replicas(client, stream.name) for stream in STREAMS])
    try:
        changes = await topology.apply(client, topology.Size(replicas), change=False)
    except (topology.TopologyConflict, topology.NotReady) as error:
        return [failure("nats.topology", str(error), "check that all NATS servers run and see each other")]
    advice = f"run `clusterra-admin topology apply --replicas {replicas}`"
    if not changes:
        total = len(STREAMS) + len(BUCKETS) + len(CONSUMERS)
        return [
            ok("nats.topology", f"{total} streams, buckets and consumers as declared, replicas of a stream: {replicas}")
        ]
    return [
        failure("nats.topology", "it does not exist", advice, about=change.what)
        if change.created
        else failure("nats.topology", _differences(change), advice, about=change.what)
        for change in changes
    ]


def _differences(change: topology.Change) -> str:
    return "; ".join(f"{name} is {found}, declared {declared}" for name, (found, declared) in change.fields.items())


async def _replicas(client: DoctorClient, stream: str) -> int:
    try:
        return int((await client.api(f"STREAM.INFO.{stream}"))["config"].get("num_replicas", 1))
    except ApiFailed as error:
        if error.code == _NOT_FOUND:
            return 1
        raise


async def check_stream(client: DoctorClient, name: str) -> list[Finding]:
    """The replicas of a stream, and its size compared with its own limit."""
    try:
        info = await client.api(f"STREAM.INFO.{name}")
    except ApiFailed as error:
        if error.code == _NOT_FOUND:
            return [skipped("nats.stream", "it does not exist: see nats.topology", about=name)]
        return [failure("nats.stream", str(error), "check that its servers run", about=name)]
    state, config = info["state"], info["config"]
    seen = f"{state['messages']} messages, {state['bytes'] / 2**20:.1f} MiB"
    if behind := _replicas_behind(info):
        advice = "check these NATS servers; a replica that was away catches up by itself"
        return [warning("nats.stream", f"{seen}; not current: {', '.join(behind)}", advice, about=name)]
    full = {
        kind: used / limit
        for kind, used, limit in (
            ("bytes", state["bytes"], config.get("max_bytes", -1)),
            ("messages", state["messages"], config.get("max_msgs", -1)),
        )
        if 0 < limit <= used / NEARLY_FULL
    }
    if full:
        then = "the oldest messages go" if config.get("discard") == "old" else "new messages are refused"
        told = ", ".join(f"{share:.0%} of its {kind}" for kind, share in full.items())
        advice = "`clusterra-admin topology apply --scale` with a larger number; see capacity.md for the storage"
        return [warning("nats.stream", f"{seen}: {told}; beyond them {then}", advice, about=name)]
    return [ok("nats.stream", seen, about=name)]


def _replicas_behind(info: Mapping[str, Any]) -> list[str]:
    cluster = info.get("cluster") or {}
    others = cluster.get("replicas") or []
    behind = [str(peer.get("name")) for peer in others if peer.get("offline") or not peer.get("current", True)]
    return behind if cluster.get("leader", "one server") else [*behind, "no leader"]


async def check_consumer(client: DoctorClient, consumer: Consumer) -> list[Finding]:
    """How far the reader of a stream is behind."""
    about = f"{consumer.stream}/{consumer.name}"
    try:
        info = await client.api(f"CONSUMER.INFO.{consumer.stream}.{consumer.name}")
    except ApiFailed as error:
        if error.code == _NOT_FOUND:
            return [skipped("nats.lag", "it does not exist: see nats.topology", about=about)]
        return [failure("nats.lag", str(error), "check that its servers run", about=about)]
    unread, unacknowledged = int(info["num_pending"]), int(info["num_ack_pending"])
    seen = f"{unread} messages unread, {unacknowledged} not acknowledged"
    if unread > LAG_MESSAGES:
        advice = "look into the log of its reader; more replicas read faster"
        return [warning("nats.lag", seen, advice, about=about)]
    return [ok("nats.lag", seen, about=about)]


async def check_server_clock(client: DoctorClient) -> list[Finding]:
    """Compare our clock with the server's, which JetStream reports with the information about a stream."""
    for stream in STREAMS:
        before = now()
        try:
            shown = (await client.api(f"STREAM.INFO.{stream.name}")).get("ts")
        except ApiFailed:
            continue
        after = now()
        if shown is None:
            break
        middle = before + (after - before) / 2
        return [clock_finding("NATS", (moment(shown) - middle).total_seconds())]
    return [skipped("clocks.skew", "the server does not tell its time", about="NATS")]


def moment(text: str) -> datetime:
    """Read a time as NATS writes it, with nanoseconds."""
    return datetime.fromisoformat(_FRACTION.sub(lambda found: f".{found[1]}", text))
