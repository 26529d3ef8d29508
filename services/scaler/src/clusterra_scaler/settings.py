"""What the scaler is told by its environment (`CLUSTERRA_*`; the AWS SDK's own `AWS_*` for DynamoDB)."""

from pathlib import Path
from typing import Annotated

from clusterra_runtime.settings import ServiceSettings
from pydantic import Field


class Settings(ServiceSettings):
    """Settings of the scaler. A cluster's shapes, prices and policy stand in the registry."""

    table_prefix: str = "clusterra-"
    """Tells the tables of several installations in one AWS account apart."""
    decision_log_dir: Path | None = None
    """Where decisions are logged with all they were made from, for `clusterra-planner replay`; None: nowhere."""
    decision_log_bytes: Annotated[int, Field(ge=1024 * 1024)] = 1024 * 1024 * 1024
    """What the decision log takes at most."""
