"""What the doctor says of a stream that has almost reached its bounds."""

import json
from pathlib import Path

import pytest
from clusterra_admin.doctor.connection import DoctorClient
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_admin.doctor.streams import check_stream
from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_runtime.nats import bus

pytestmark = pytest.mark.servers

REF = ClusterRef(tenant="acme", cluster="main")
SMALL = 64 * 1024
FULL = {"SCALE": subjects.scale_desired(REF), "EVENT": subjects.event(REF, "job.running")}


async def test_a_stream_that_is_nearly_full_is_a_warning_that_says_what_happens_then(tmp_path: Path) -> None:
    async with declared_nats(tmp_path) as server:
        client = DoctorClient()
        await client.open_within(DoctorSettings(nats_url=server.url), 5)
        for name in FULL:
            config = (await client.api(f"STREAM.INFO.{name}"))["config"] | {"max_bytes": SMALL, "max_msg_size": -1}
            await client.request(f"$JS.API.STREAM.UPDATE.{name}", json.dumps(config).encode(), timeout=5)

        (empty,) = await check_stream(client, "SCALE")
        for name, subject in FULL.items():
            await client.jetstream().publish(subject, bytes(SMALL - 2000), stream=name)
        (states,) = await check_stream(client, "SCALE")
        (events,) = await check_stream(client, "EVENT")
        await bus.close(client)

    assert empty.status == "ok"
    assert states.status == events.status == "warning"
    assert "of its bytes; beyond them new messages are refused" in states.seen
    assert "of its bytes; beyond them the oldest messages go" in events.seen
