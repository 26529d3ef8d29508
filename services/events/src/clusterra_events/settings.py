"""What the events service is told by its environment (`CLUSTERRA_*`; the AWS SDK's own `AWS_*` for DynamoDB)."""

from typing import Annotated

from clusterra_runtime.settings import ServiceSettings
from pydantic import Field

DAY = 86_400.0


class Settings(ServiceSettings):
    """Settings of the events service."""

    table_prefix: str = "clusterra-"
    """Tells the tables of several installations in one AWS account apart."""
    event_retention_seconds: Annotated[float, Field(gt=0)] = 90 * DAY
    """How long an event can be read after it was archived."""
    archive_batch_size: Annotated[int, Field(ge=1, le=256)] = 32
    """Events taken from the stream, and written, at the same time."""
