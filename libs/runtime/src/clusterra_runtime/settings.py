"""Settings of every service, from the environment (`CLUSTERRA_*`). A service adds its own fields in a subclass."""

import os
import socket
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


def _instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class ServiceSettings(BaseSettings):
    """The settings that all services share. Secrets are named by file, so that no environment or log holds them."""

    # A password may stand in a wrong value, such as that of `nats_url`, so errors do not repeat the values.
    model_config = SettingsConfigDict(env_prefix="CLUSTERRA_", frozen=True, extra="ignore", hide_input_in_errors=True)

    nats_url: str = "nats://127.0.0.1:4222"
    """One address, or several addresses of one NATS cluster joined by commas; without user or password."""
    nats_user: str | None = None
    """The NATS user, together with `nats_password_file`. None: no user, or that of `nats_credentials_file`."""
    nats_password_file: Path | None = None
    """The file is read at every connect, so it may be replaced at any time."""
    nats_credentials_file: Path | None = None
    """A `.creds` file of an operator-mode user; it is read at every connect."""
    nats_ca_file: Path | None = None
    """The authority (PEM) of NATS's certificate, for `tls://`. None: those that the system trusts."""

    health_host: str = "127.0.0.1"
    """The address on which `/livez`, `/readyz` and `/metrics` are served."""
    health_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 means any free port; the log names it."""

    log_level: str = "INFO"
    """The lowest level that is logged: DEBUG, INFO, WARNING or ERROR."""
    stop_delay_seconds: Annotated[float, Field(ge=0)] = 0.5
    """The delay between "not ready" and the stop, so that load balancers send no more requests to this process."""
    stop_grace_seconds: Annotated[float, Field(gt=0)] = 20.0
    """The maximum time from the first signal to the end of the process."""
    stuck_seconds: Annotated[float, Field(gt=0)] = 5.0
    """An event loop that is blocked for longer than this counts as not alive."""

    instance: str = Field(default_factory=_instance)
    """The unique name of this replica."""
    software_version: Annotated[str, Field(max_length=128)] = ""
    """The version that this process announces to others; empty: that of its Python package. Images set it."""

    @model_validator(mode="after")
    def _one_way_to_log_in(self) -> Self:
        if (self.nats_user is None) != (self.nats_password_file is None):
            raise ValueError("nats_user and nats_password_file must be set together or not at all")
        if self.nats_user is not None and self.nats_credentials_file is not None:
            raise ValueError("set either nats_user with nats_password_file or nats_credentials_file, not both")
        if "@" in self.nats_url:
            raise ValueError("nats_url must not contain a user or password: set nats_user and nats_password_file")
        return self
