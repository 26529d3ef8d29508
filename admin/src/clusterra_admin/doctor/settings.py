"""The doctor's settings: those of the services, so that it runs with the environment of any of them."""

from clusterra_gateway.settings import IssuerKind
from clusterra_runtime.settings import ServiceSettings


class DoctorSettings(ServiceSettings):
    """Where the parts of the installation are. What is not set is not checked, and reported as skipped."""

    table_prefix: str = "clusterra-"
    """The prefix of the tables' names."""
    oidc_issuer: str | None = None
    """The URL of the OpenID Connect issuer that people sign in at."""
    oidc_kind: IssuerKind = "oidc"
    """The kind of that issuer."""
    public_url: str | None = None
    """The gateway's address for browsers."""
