"""The bounds of streams at a real server: of old installations, and when they are reached."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import BOUNDS, DLQ, EVENT, HB, SCALE
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.metrics import STREAM_USE
from clusterra_runtime.nats import bus, topology
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_stored
from clusterra_runtime.nats.streams.use import measure
from clusterra_runtime.nats.topology import Size
from nats.js.api import DiscardPolicy, StreamConfig

from .conftest import connected

ONE = ClusterRef(tenant="acme", cluster="one")
OTHER = ClusterRef(tenant="umbrella", cluster="two")
SMALL = 64 * 1024


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Client]:
    async with nats_server(tmp_path / "nats") as server, connected(server.settings()) as client:
        yield client


async def config_of(client: Client, name: str) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.STREAM.INFO.{name}", timeout=5)
    config: dict[str, Any] = json.loads(answer.data)["config"]
    return config


async def set_bytes(client: Client, name: str, limit: int) -> None:
    """Give a stream another bound, so that a test can reach it."""
    changed = {**await config_of(client, name), "max_bytes": limit, "max_msg_size": -1}
    answer = await client.request(f"$JS.API.STREAM.UPDATE.{name}", json.dumps(changed).encode(), timeout=5)
    assert "error" not in json.loads(answer.data)


async def test_apply_bounds_the_streams_of_an_old_installation(admin: Client) -> None:
    js = admin.jetstream()
    for name, subject, per_subject in (
        ("SCALE", "scale.desired.*.*", 1),
        ("HB", "heartbeat.*.*", 1),
        ("EVENT", "event.>", -1),
        ("DLQ", "dlq.>", -1),
    ):
        old = StreamConfig(name=name, subjects=[subject], max_msgs_per_subject=per_subject, allow_direct=True)
        await js.add_stream(old)
    await js.create_key_value(bucket="registry")
    for ref in (ONE, OTHER):
        await js.publish(subjects.scale_desired(ref), b"desired")
        await js.publish(subjects.event(ref, "job.running"), b"event")

    await topology.apply(admin)

    assert await topology.apply(admin, change=False) == []
    for name, bounds in BOUNDS.items():
        config = await config_of(admin, name)
        assert config["max_bytes"] == bounds.bytes > 0, name
        assert config["max_msgs"] == bounds.messages > 0, name
        assert config["max_msgs_per_subject"] == bounds.messages_per_subject > 0, name
        assert config["discard"] == bounds.discard, name
    for ref in (ONE, OTHER):
        assert await last_stored(admin, SCALE.name, subjects.scale_desired(ref)) is not None
        assert await last_stored(admin, EVENT.name, subjects.event(ref, "job.running")) is not None


async def test_the_release_before_may_apply_its_topology_again(admin: Client) -> None:
    """After a roll-back its `apply` sets what it declares: no bounds, and the oldest messages go."""
    await topology.apply(admin)
    for name in ("SCALE", "EVENT"):
        old = {**await config_of(admin, name), "max_bytes": -1, "discard": "old"}
        answer = await admin.request(f"$JS.API.STREAM.UPDATE.{name}", json.dumps(old).encode(), timeout=5)
        assert "error" not in json.loads(answer.data)

    assert {change.what for change in await topology.apply(admin)} == {"stream SCALE", "stream EVENT"}
    assert await topology.apply(admin, change=False) == []


async def test_a_larger_scale_is_kept_by_whoever_names_none(admin: Client) -> None:
    await topology.apply(admin)
    await topology.apply(admin, Size(scale=2))

    assert await topology.apply(admin, change=False) == []
    assert await topology.scale_of(admin) == 2
    assert (await config_of(admin, "KV_registry"))["max_bytes"] == 2 * BOUNDS["KV_registry"].bytes


async def test_a_server_without_the_storage_says_what_is_needed(admin: Client) -> None:
    with pytest.raises(topology.TopologyConflict, match=r"all streams need \d+ MiB times the"):
        await topology.apply(admin, Size(scale=4))


async def test_a_full_stream_keeps_the_last_states_of_quiet_clusters(admin: Client) -> None:
    await topology.apply(admin)
    await set_bytes(admin, SCALE.name, SMALL)
    await bus.store(admin, subjects.scale_desired(OTHER), b"quiet", {})

    with pytest.raises(bus.MessageRejected):
        await bus.store(admin, subjects.scale_desired(ONE), bytes(2 * SMALL), {})
    await bus.store(admin, subjects.scale_desired(ONE), b"smaller", {})

    kept = await last_stored(admin, SCALE.name, subjects.scale_desired(OTHER))
    assert kept is not None
    assert kept.body == b"quiet"


async def test_events_of_one_kind_and_cluster_discard_their_own_oldest(admin: Client) -> None:
    await topology.apply(admin)
    changed = {**await config_of(admin, EVENT.name), "max_msgs_per_subject": 10}
    await admin.request(f"$JS.API.STREAM.UPDATE.{EVENT.name}", json.dumps(changed).encode(), timeout=5)
    await bus.store(admin, subjects.event(OTHER, "job.running"), b"quiet", {})

    for number in range(50):
        await bus.store(admin, subjects.event(ONE, "job.running"), b"%d" % number, {})

    state = (await admin.jetstream().stream_info(EVENT.name)).state
    assert state.messages == 11
    assert await last_stored(admin, EVENT.name, subjects.event(OTHER, "job.running")) is not None


async def test_dead_letters_of_one_subject_keep_the_last_few_and_of_each_its_beginning(admin: Client) -> None:
    await topology.apply(admin)
    for number in range(DLQ.bounds.messages_per_subject + 10):
        garbage = b"%d" % number + bytes(DLQ.bounds.message_bytes)
        await bus.dead_letter(admin, subjects.heartbeat(ONE), garbage, {}, "not JSON")

    garbage = bytes(DLQ.bounds.message_bytes)
    state = (await admin.jetstream().stream_info(DLQ.name)).state
    await bus.dead_letter(admin, subjects.heartbeat(OTHER), garbage, {"x-long": "x" * 1000}, "not JSON")
    other = await last_stored(admin, DLQ.name, subjects.dead_letter(subjects.heartbeat(OTHER)))

    assert other is not None
    assert other.headers[bus.CUT] == str(len(garbage))
    assert "x-long" not in other.headers
    assert state.messages == DLQ.bounds.messages_per_subject
    assert state.bytes < state.messages * DLQ.bounds.message_bytes


async def test_a_heartbeat_over_its_bound_is_not_stored(admin: Client) -> None:
    await topology.apply(admin)

    with pytest.raises(bus.MessageRejected):
        await bus.store(admin, subjects.heartbeat(ONE), bytes(HB.bounds.message_bytes + 1), {})

    assert await last_stored(admin, HB.name, subjects.heartbeat(ONE)) is None
    assert (await admin.jetstream().stream_info(HB.name)).config.discard == DiscardPolicy.NEW


async def test_the_use_of_a_stream_is_a_metric(admin: Client) -> None:
    await topology.apply(admin)
    await set_bytes(admin, SCALE.name, SMALL)
    await bus.store(admin, subjects.scale_desired(ONE), bytes(SMALL // 2), {})

    await measure(admin, SCALE.name)

    assert 0.5 < STREAM_USE.labels(SCALE.name, "bytes")._value.get() < 0.6
