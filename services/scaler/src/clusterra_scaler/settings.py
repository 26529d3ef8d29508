"""The scaler's settings, from its environment (`CLUSTERRA_*`; `AWS_*` of the AWS SDK for DynamoDB)."""

from pathlib import Path
from typing import Annotated

from clusterra_runtime.settings import ServiceSettings
from pydantic import Field


class Settings(ServiceSettings):
    """Settings of the scaler process. A cluster's shapes, prices and policy come from the registry."""

    table_prefix: str = "clusterra-"
    """Prefix of the table names. It separates several installations in one AWS account."""
    decision_log_dir: Path | None = None
    """Directory of the decision log, which `clusterra-planner replay` reads; None: no decision log."""
    decision_log_bytes: Annotated[int, Field(ge=1024 * 1024)] = 1024 * 1024 * 1024
    """Maximum size of all files of the decision log together."""
