"""What the proxy is told by its environment."""

from typing import Annotated

from clusterra_runtime.settings import ServiceSettings
from pydantic import Field

from clusterra_proxy.admission.keeper import MAX_PLACEHOLDERS


class Settings(ServiceSettings):
    """Settings of the proxy. Which clusters it serves and how to reach them stands in the registry."""

    poll_seconds: Annotated[float, Field(gt=0, le=10)] = 0.5
    """Between two looks at a cluster; a job of plain sbatch is seen within this and a few milliseconds."""
    snapshot_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """How often the queue is published though nothing changes, while nothing waits or drains."""
    placeholders: Annotated[int, Field(ge=1)] = MAX_PLACEHOLDERS
    """Node records at most that make a cluster's Slurm admit jobs for workers to come; its MaxNodeCount must hold them
    besides the workers."""
