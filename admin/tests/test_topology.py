"""`clusterra-admin topology` on a real server."""

import json
import sys
from pathlib import Path

import pytest
from admin_command import admin
from clusterra_contracts.bus.topology import BUCKETS, CONSUMERS, STREAMS
from clusterra_lab.machine.process import start, until
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import nats_server
from clusterra_runtime.nats import bus

pytestmark = pytest.mark.servers

EVERYTHING = len(STREAMS) + len(BUCKETS) + len(CONSUMERS)


async def test_apply_waits_for_the_server_and_declares_everything(tmp_path: Path) -> None:
    async with nats_server(tmp_path / "nats") as server:
        await server.kill()
        argv = [sys.executable, "-m", "clusterra_admin", "topology", "apply"]
        early = await start("early", argv, log=tmp_path / "early.log", env=server.environment())
        await until(lambda: "nats_error" in early.log.read_text(), seconds=90, what="the first try", process=early)

        await server.restart()
        code = await early.wait()

        checked = await admin("topology", "check", environment=server.environment())
        assert code == 0
        assert "+ stream JOB\n" in early.log.read_text()
        assert checked.out == "as declared\n"


async def test_check_reports_differences(tmp_path: Path) -> None:
    async with declared_nats(tmp_path) as server:
        client = await bus.connect(server.settings(), "test")
        info = json.loads((await client.request("$JS.API.STREAM.INFO.DLQ", timeout=2)).data)
        changed = json.dumps(info["config"] | {"description": "ours now"}).encode()
        await client.request("$JS.API.STREAM.UPDATE.DLQ", changed, timeout=2)
        await bus.close(client)

        differs = await admin("topology", "check", environment=server.environment(), code=2)
        in_json = await admin("topology", "check", "--json", environment=server.environment(), code=2)

        assert "~ stream DLQ\n    description: ours now ->" in differs.out
        (change,) = in_json.json["changes"]
        assert change["fields"]["description"]["old"] == "ours now"


async def test_check_of_an_empty_server_names_everything_and_creates_nothing(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server:
        for _ in range(2):
            found = await admin("topology", "check", "--json", environment=server.environment(), code=2)

            assert len(found.json["changes"]) == EVERYTHING
            assert all(change["created"] for change in found.json["changes"])


async def test_a_server_that_does_not_answer_ends_the_command_with_advice() -> None:
    nowhere = {"CLUSTERRA_NATS_URL": "nats://127.0.0.1:1"}

    answer = await admin("topology", "apply", "--timeout", "1", environment=nowhere, code=1)

    assert "did not answer within 1 s" in answer.err
    assert "CLUSTERRA_NATS_URL" in answer.err


async def test_a_wrong_setting_is_named() -> None:
    answer = await admin("topology", "check", environment={"CLUSTERRA_NATS_URL": "nats://u:p@h:1"}, code=1)

    assert "nats_url must not contain a user or password" in answer.err


async def test_a_wrong_setting_is_named_without_its_value() -> None:
    number = await admin("topology", "check", environment={"CLUSTERRA_HEALTH_PORT": "none"}, code=1)
    address = await admin("topology", "check", environment={"CLUSTERRA_NATS_URL": "nats://ada:secret@nats"}, code=1)

    assert "CLUSTERRA_HEALTH_PORT: " in number.err
    assert "nats_url must not contain a user or password" in address.err
    assert "secret" not in address.err
