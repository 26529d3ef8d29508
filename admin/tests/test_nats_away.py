"""Without NATS a command ends soon, and says why and what to do."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from admin_command import admin
from clusterra_admin import nats_connection
from clusterra_contracts.bus.permissions import control_plane
from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.nats import nats_server

AWS = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
COMMANDS: Sequence[tuple[str, ...]] = (
    ("provision", "list"),
    ("provision", "pause", "acme/main"),
    ("versions",),
    ("backup", "to"),
    ("dead-letters", "list"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_command_ends_without_nats(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up_after = nats_connection.CONNECT_SECONDS
    monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    environment = AWS | {"CLUSTERRA_NATS_URL": f"nats://127.0.0.1:{free_port()}"}

    answer = await admin(*command, environment=environment, code=1)

    assert given_up_after == 10.0
    assert "did not answer within 0.5 s" in answer.err
    assert "clusterra-admin doctor" in answer.err


async def test_what_the_server_objects_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 3.0)
    (tmp_path / "password").write_text("wrong")
    login = {"CLUSTERRA_NATS_USER": "nobody", "CLUSTERRA_NATS_PASSWORD_FILE": str(tmp_path / "password")}

    async with nats_server(tmp_path / "nats", users={"lab": control_plane()}) as server:
        answer = await admin("versions", environment={"CLUSTERRA_NATS_URL": server.url, **login}, code=1)

    assert "Authorization Violation" in answer.err
