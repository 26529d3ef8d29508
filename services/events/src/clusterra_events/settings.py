"""Settings of the events service, from the environment (`CLUSTERRA_*`; `AWS_*` of the AWS SDK for DynamoDB)."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from clusterra_runtime.outbound import AllowedNetworks
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field, model_validator

from clusterra_events.retention import DaysByKind, Retention

DAY = 86_400.0
SMTP_PORTS = {"smtp": 587, "smtps": 465}
"""The schemes of an SMTP server's URL, with their ports."""


class Settings(ServiceSettings):
    """The settings of the events service."""

    table_prefix: str = "clusterra-"
    """Distinguishes the tables of several installations in one AWS account."""
    event_retention_seconds: Annotated[float, Field(gt=0)] = 90 * DAY
    """How long an event is kept in the archive."""
    event_retention_days: DaysByKind = Field(default_factory=dict)
    """How many days events of some kinds are kept instead: JSON such as
    `{"audit": 400, "job.*": 90, "scale.decided": 14}`. A name is a kind, a family such as `job.*`, or `audit` for all
    kinds of the audit. The name of the kind itself counts first, then the longest of those that fit."""
    ledger_retention_seconds: Annotated[float, Field(gt=0)] = 400 * DAY
    """How long the ledger keeps what jobs and workers cost."""
    archive_batch_size: Annotated[int, Field(ge=1, le=256)] = 32
    """The number of events that are archived concurrently."""
    webhook_networks: AllowedNetworks = ()
    """The private networks that webhooks may call, also by plain HTTP, such as `["10.20.0.0/16"]`. The gateway needs
    the same value. Elsewhere webhooks may call public IP addresses only, by HTTPS."""

    smtp_url: str | None = None
    """The SMTP server that mails are handed to: `smtp://user@mail.example.org:587` for STARTTLS, or `smtps://` for TLS
    from the beginning; without a password. None: no mails are sent."""
    smtp_password_file: Path | None = None
    """The password of the user in `smtp_url`. The file is read at each mail, so it may be replaced at any time."""
    smtp_encrypted: bool = True
    """Whether the connection must be encrypted, to a server whose certificate the system trusts. `false` is for a
    server on the same machine only: mails and a password go over `smtp://` in plain text then."""
    mail_from: str = ""
    """The address that mails come from, such as `clusterra@example.org`; needed with `smtp_url`. The proxy and the
    gateway need the same value: they tell whoever asks for mails where none are sent."""
    mails_per_hour: Annotated[int, Field(ge=1, le=1000)] = 30
    """The most mails that a person gets in an hour."""
    public_url: str = ""
    """The gateway's address for browsers, as the gateway has it, for links in mails. Empty: there are none."""

    @model_validator(mode="after")
    def _mails_are_possible(self) -> Self:
        if self.smtp_url is None:
            return self
        parts = urlsplit(self.smtp_url)
        if parts.scheme not in SMTP_PORTS or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError("smtp_url must be smtp://host:port or smtps://host:port, with user@ before the host")
        if parts.password is not None:
            raise ValueError("smtp_url must not contain a password: set smtp_password_file")
        if (parts.username is None) != (self.smtp_password_file is None):
            raise ValueError("a user in smtp_url and smtp_password_file must be set together or not at all")
        local, at, domain = self.mail_from.rpartition("@")
        if not (local and at and domain) or any(each in self.mail_from for each in ' \r\n\t<>,;"') or "@" in local:
            raise ValueError("mail_from must be an address, such as clusterra@example.org, where smtp_url is set")
        return self

    @property
    def event_retention(self) -> Retention:
        """How long the archive keeps events of each kind."""
        return Retention(self.event_retention_seconds, self.event_retention_days)
