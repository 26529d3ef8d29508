"""Settings of the events service, from the environment (`CLUSTERRA_*`; `AWS_*` of the AWS SDK for DynamoDB)."""

from typing import Annotated

from clusterra_runtime.outbound import AllowedNetworks
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field

DAY = 86_400.0


class Settings(ServiceSettings):
    """The settings of the events service."""

    table_prefix: str = "clusterra-"
    """Distinguishes the tables of several installations in one AWS account."""
    event_retention_seconds: Annotated[float, Field(gt=0)] = 90 * DAY
    """How long an event is kept in the archive."""
    ledger_retention_seconds: Annotated[float, Field(gt=0)] = 400 * DAY
    """How long the ledger keeps what jobs and workers cost."""
    archive_batch_size: Annotated[int, Field(ge=1, le=256)] = 32
    """The number of events that are archived concurrently."""
    webhook_networks: AllowedNetworks = ()
    """The private networks that webhooks may call, also by plain HTTP, such as `["10.20.0.0/16"]`. The gateway needs
    the same value. Elsewhere webhooks may call public IP addresses only, by HTTPS."""
