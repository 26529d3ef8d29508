"""Valid and invalid settings."""

import pytest
import structlog
from clusterra_edge_agent.settings import Settings
from pydantic import ValidationError

GIVEN = {
    "CLUSTERRA_TENANT": "acme",
    "CLUSTERRA_CLUSTER": "c1",
    "CLUSTERRA_SHARED_DIR": "/mnt/efs",
    "CLUSTERRA_STATE_DIR": "/var/lib/edge-agent",
    "CLUSTERRA_SLURMD_CONF": "/etc/slurm/slurm.conf",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)


def test_minimal_settings() -> None:
    settings = Settings()
    assert settings.ref.key == "acme.c1"
    assert settings.worker_launcher == ()
    assert settings.slurmd_port_range == range(17001, 18001)


def test_the_launcher_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERRA_WORKER_LAUNCHER", '["chroot", "/srv/a b"]')
    assert Settings().worker_launcher == ("chroot", "/srv/a b")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("CLUSTERRA_SLURMD_CONF_SERVER", "10.0.0.5:6817", "exactly one of"),
        ("CLUSTERRA_SLURMD_SPOOL", "/var/spool/slurmd", "must contain {worker}"),
        ("CLUSTERRA_SLURMD_FIRST_PORT", "65000", "exceed port 65535"),
        ("CLUSTERRA_TENANT", "*", "tenant"),
        ("CLUSTERRA_CLUSTER", "c1.>", "cluster"),
    ],
)
def test_invalid_settings_are_rejected(monkeypatch: pytest.MonkeyPatch, name: str, value: str, hint: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=hint):
        Settings()


@pytest.mark.parametrize(
    ("given", "taken"), [("59.9", 480.0), ("0", 480.0), ("-1", 480.0), ("60", 60.0), ("900", 900.0)]
)
def test_a_ghost_time_that_is_too_short_is_replaced(monkeypatch: pytest.MonkeyPatch, given: str, taken: float) -> None:
    monkeypatch.setenv("CLUSTERRA_GHOST_SECONDS", given)
    with structlog.testing.capture_logs() as logs:
        assert Settings().ghost_seconds == taken
    assert [line["event"] for line in logs] == ["ghost_seconds_too_short"] * (float(given) != taken)


def test_the_source_of_slurms_configuration_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERRA_SLURMD_CONF")
    with pytest.raises(ValidationError, match="exactly one of"):
        Settings()


@pytest.mark.parametrize(
    ("url", "plain", "allowed"),
    [
        ("https://gateway.example.com", False, True),
        ("https://gateway.example.com:8443/edge", False, True),
        ("http://127.0.0.1:8080", False, True),
        ("http://localhost:8080", False, True),
        ("http://[::1]:8080", False, True),
        ("http://gateway.example.com", False, False),
        ("http://gateway.example.com", True, True),
        ("http://10.0.0.5:30080", True, True),
        ("ftp://gateway.example.com", True, False),
        ("gateway.example.com", True, False),
        ("https://", False, False),
        ("https://user:word@gateway.example.com", False, False),
        ("https://gateway.example.com?key=1", False, False),
    ],
)
def test_a_key_is_sent_to_other_machines_only_over_tls(
    monkeypatch: pytest.MonkeyPatch, url: str, plain: bool, allowed: bool
) -> None:
    monkeypatch.setenv("CLUSTERRA_GATEWAY_URL", url)
    monkeypatch.setenv("CLUSTERRA_AGENT_KEY_FILE", "/etc/clusterra/agent.key")
    monkeypatch.setenv("CLUSTERRA_GATEWAY_WITHOUT_TLS", str(plain))
    if allowed:
        assert Settings().gateway_url == url
    else:
        with pytest.raises(ValidationError, match="CLUSTERRA_GATEWAY_URL"):
            Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [("CLUSTERRA_GATEWAY_URL", "https://gateway.example.com"), ("CLUSTERRA_AGENT_KEY_FILE", "/etc/agent.key")],
)
def test_a_gateway_and_a_key_belong_together(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match="set both or none"):
        Settings()
