"""Settings from the environment."""

from pathlib import Path

import pytest
from clusterra_runtime.settings import ServiceSettings
from pydantic import ValidationError


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLUSTERRA_NATS_URL", "nats://a:4222,nats://b:4222")
    monkeypatch.setenv("CLUSTERRA_NATS_USER", "proxy")
    monkeypatch.setenv("CLUSTERRA_NATS_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("CLUSTERRA_HEALTH_PORT", "8081")
    settings = ServiceSettings()

    assert settings.nats_url == "nats://a:4222,nats://b:4222"
    assert (settings.nats_user, settings.nats_password_file) == ("proxy", tmp_path / "password")
    assert settings.health_port == 8081
    assert settings.instance == ServiceSettings().instance


@pytest.mark.parametrize(
    "given",
    [
        {"nats_user": "proxy"},
        {"nats_password_file": "/run/password"},
        {"nats_user": "proxy", "nats_password_file": "/run/password", "nats_credentials_file": "/run/creds"},
        {"nats_url": "nats://proxy:xyzzy@host:4222"},
    ],
)
def test_an_incomplete_login_or_one_in_an_address_is_rejected(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ServiceSettings.model_validate(given)
