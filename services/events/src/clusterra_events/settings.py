"""Settings of the events service, from the environment (`CLUSTERRA_*`; `AWS_*` of the AWS SDK for DynamoDB)."""

from typing import Annotated

from clusterra_runtime.outbound import AllowedNetworks
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field

from clusterra_events.retention import DaysByKind, Retention

DAY = 86_400.0


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

    @property
    def event_retention(self) -> Retention:
        """How long the archive keeps events of each kind."""
        return Retention(self.event_retention_seconds, self.event_retention_days)
