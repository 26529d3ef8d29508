"""What the scaler is told by its environment (`CLUSTERRA_*`; the AWS SDK's own `AWS_*` for DynamoDB)."""

from clusterra_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Settings of the scaler. A cluster's shapes, prices and policy stand in the registry."""

    table_prefix: str = "clusterra-"
    """Tells the tables of several installations in one AWS account apart."""
