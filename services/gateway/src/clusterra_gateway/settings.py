"""What the gateway is told by its environment (`CLUSTERRA_*`; the AWS SDK's own `AWS_*` for DynamoDB)."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from clusterra_runtime.secrets import read_secret
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field, model_validator

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class RecordSettings(ServiceSettings):
    """Where the gateway's record is: all that `provision` needs."""

    table_prefix: str = "clusterra-"
    """Tells the tables of several installations in one AWS account apart."""
    catalogue_file: Path | None = None
    """The shapes (YAML) of clusters that bring no catalogue of their own."""


class Settings(RecordSettings):
    """Settings of the gateway."""

    http_host: str = "127.0.0.1"
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    public_url: str = "http://127.0.0.1:8080"
    """How browsers reach the gateway; `<public_url>/v1/auth/callback` is the redirect URI to register at the issuer."""

    oidc_issuer: str
    oidc_client_id: str
    oidc_client_secret_file: Path | None = None
    """None for a public client, which PKCE alone protects."""

    session_key_file: Path | None = None
    """32 or more random bytes, a JWK or a JWK set. There is no default: without a key the gateway does not start."""
    session_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] = 12 * 3600.0

    slurm_timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """How long a request to a cluster's Slurm may take."""
    edge_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0

    def oidc_client_secret(self) -> str | None:
        """Raises SecretUnavailable."""
        file = self.oidc_client_secret_file
        return None if file is None else read_secret(f"file:{file}").decode()

    @property
    def secure(self) -> bool:
        """Whether browsers reach us by HTTPS, so that our cookies may travel by nothing else."""
        return self.public_url.startswith("https://")

    @property
    def origin(self) -> str:
        """The origin of our own pages, as browsers spell it."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def redirect_uri(self) -> str:
        """Where the issuer sends browsers back to."""
        return f"{self.public_url.rstrip('/')}/v1/auth/callback"

    @model_validator(mode="after")
    def _encrypted_unless_local(self) -> Self:
        for name in ("public_url", "oidc_issuer"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
                raise ValueError(f"{name} must be an https:// address (http:// only for this very machine)")
        return self
